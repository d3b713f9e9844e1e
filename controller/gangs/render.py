"""Renders a refusal as one line of bounded length."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from controller.gangs.gang import DomainVerdict, GangRefusal
from driver.limits import listed

_MOST_DOMAINS: Final = 3


def render(refusal: GangRefusal, most: int = _MOST_DOMAINS, now: float | None = None) -> str:
    """Name the ``most`` domains that come closest, with the members that fit there and the reason.

    Of nested domains, only the outermost ones are named. The rest is summed up.

    Args:
        now: epoch seconds, to say at what time a wider domain is taken; None to leave that out. A number of seconds
            would be wrong as soon as it is read.
    """
    if refusal.faults:
        return listed([str(fault) for fault in refusal.faults[:most]])
    if not refusal.verdicts:
        return "there are no nodes"
    depth = min(len(verdict.domain.path) for verdict in refusal.verdicts)
    outermost = [verdict for verdict in refusal.verdicts if len(verdict.domain.path) == depth]
    closest = sorted(outermost, key=lambda verdict: (verdict.placed - verdict.needed, verdict.decided), reverse=True)
    parts = [*map(_sentence, closest[:most]), *_rest(closest[most:]), *(_outside(refusal) if depth else ())]
    if refusal.wait is not None and now is not None:
        at = datetime.fromtimestamp(now + refusal.wait, UTC)
        parts.append(f"a wider domain is taken from {at:%H:%M} UTC on")
    return "; ".join(parts)


def _sentence(verdict: DomainVerdict) -> str:
    if not verdict.decided:
        return f"whether {verdict.needed} members fit in {verdict.domain} is not decided yet"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{verdict.placed} of {verdict.needed} members fit in {verdict.domain}{reason}"


def _rest(verdicts: Sequence[DomainVerdict]) -> Iterator[str]:
    """Sum up the domains that are not named. They take fewer members than the named ones."""
    if not verdicts:
        return
    undecided = sum(not verdict.decided for verdict in verdicts)
    most, needed = max(verdict.placed for verdict in verdicts), verdicts[0].needed
    where = f"{len(verdicts)} other domains" if len(verdicts) > 1 else "1 other domain"
    each = "each of " if len(verdicts) > 1 else ""
    more = f", of which {undecided} {'are' if undecided > 1 else 'is'} not decided yet" if undecided else ""
    yield f"at most {most} of {needed} in {each}{where}{more}"


def _outside(refusal: GangRefusal) -> Iterator[str]:
    count, key = refusal.outside
    if count:
        yield f"{count} {'node is' if count == 1 else 'nodes are'} in no domain, without a value of {key}"
