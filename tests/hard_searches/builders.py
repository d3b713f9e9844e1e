"""Builders of hard searches: numbered devices, one complete pool of one node, and claims."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from driver.model import (
    AttributeValue,
    Claim,
    ClaimSpec,
    Constraint,
    CounterSet,
    Device,
    DeviceClass,
    NodeScope,
    Request,
    Slice,
    Want,
)

NODE: Final = "node-0"
DRIVER: Final = "hard-searches.example.com"
_KINDS: Final = ("gpu", "nic", "share", "part", "large", "1g", "2g", "3g", "4g", "7g")
_PER_SLICE: Final = 64


@dataclass(frozen=True, slots=True)
class HardSearch:
    """A node's slices, the device classes, the claims of one pod, and whether they can be satisfied."""

    slices: tuple[Slice, ...]
    classes: tuple[DeviceClass, ...]
    claims: tuple[Claim, ...]
    satisfiable: bool = False


def devices(kind: str, count: int, values: Mapping[str, Callable[[int], AttributeValue]] | None = None) -> list[Device]:
    """``count`` devices of a kind; ``values`` computes each attribute from the device's number."""
    return [
        Device(
            f"{kind}-{number:03}",
            {f"{DRIVER}/kind": kind, **{f"{DRIVER}/{name}": of(number) for name, of in (values or {}).items()}},
        )
        for number in range(count)
    ]


def hard_search(
    offered: Sequence[Device], claims: Iterable[Claim], sets: Iterable[CounterSet] = (), *, satisfiable: bool = False
) -> HardSearch:
    """A hard search with the devices in one complete pool of the node, in slices that the API accepts."""
    chunks = [tuple(offered[start : start + _PER_SLICE]) for start in range(0, len(offered), _PER_SLICE)]
    every = list(sets)
    counters = [tuple(every[start : start + 8]) for start in range(0, len(every), 8)]
    scope, total = NodeScope(NODE), len(chunks) + len(counters)
    parts = [
        Slice(f"slice-{number:03}", DRIVER, NODE, 1, total, scope, chunk) for number, chunk in enumerate(chunks)
    ] + [
        Slice(f"counters-{number:03}", DRIVER, NODE, 1, total, scope, (), part) for number, part in enumerate(counters)
    ]
    classes = tuple(DeviceClass(kind, (f'device.attributes["{DRIVER}"].kind == "{kind}"',)) for kind in _KINDS)
    return HardSearch(tuple(parts), classes, tuple(claims), satisfiable)


def claim(*wants: Want | tuple[Want, ...], constraints: Sequence[Constraint] = (), name: str = "claim") -> Claim:
    """A claim with requests r0, r1, ...; a tuple of wants is a prioritized list."""
    requests = tuple(
        Request(f"r{i}", tuple(replace(one, name=f"s{j}") for j, one in enumerate(want)), prioritized=True)
        if isinstance(want, tuple)
        else Request(f"r{i}", (want,))
        for i, want in enumerate(wants)
    )
    return Claim("default", name, f"uid-{name}", ClaimSpec(requests, tuple(constraints)))


def claims(count: int, *wants: Want | tuple[Want, ...]) -> list[Claim]:
    """``count`` claims with the same requests."""
    return [claim(*wants, name=f"claim-{number}") for number in range(count)]


def match(name: str, *requests: str) -> Constraint:
    """A matchAttribute constraint over the named requests, or over all."""
    return Constraint(requests, f"{DRIVER}/{name}")


def distinct(name: str, *requests: str) -> Constraint:
    """A distinctAttribute constraint over the named requests, or over all."""
    return Constraint(requests, "", f"{DRIVER}/{name}")


def spread(wants: Sequence[Want | tuple[Want, ...]]) -> list[Claim]:
    """Claims with 32 requests each, the limit of a claim, and one claim with the rest."""
    return [
        claim(*wants[start : start + 32], name=f"claim-{number}")
        for number, start in enumerate(range(0, len(wants), 32))
    ]


GPU, NIC, PART, LARGE = Want("gpu"), Want("nic"), Want("part"), Want("large")
