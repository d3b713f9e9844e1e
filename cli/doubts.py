"""Notes on allowed contents of claims that their authors hardly intend. Pure."""

from collections.abc import Iterable, Iterator

from controller.allocation import small_amounts
from driver.cel import suggest
from driver.model import Claim, ClaimSpec


def doubts(claims: Iterable[Claim], driver: str) -> Iterator[str]:
    """A note for each doubtful thing in claims that are not allocated yet, with the first claim that has it."""
    found: dict[str, list[str]] = {}
    for claim in claims:
        if claim.allocation is None:
            for text in _of(claim.spec, driver):
                found.setdefault(text, []).append(claim.key)
    for text, keys in found.items():
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        yield f"ResourceClaim {keys[0]}{more}: {text}"


def _of(spec: ClaimSpec, driver: str) -> Iterator[str]:
    yield from small_amounts(spec)
    for number, config in enumerate(spec.config):
        if config.driver != driver and suggest(config.driver, [driver]):
            yield f"config[{number}] is for the driver {config.driver!r} and is ignored; did you mean {driver!r}?"
