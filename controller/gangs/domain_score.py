"""Compares the domains that can take a gang, in an order that an operator can predict. Pure.

The first difference decides, the smaller value wins:

1. the number of domains of the next level that the gang uses;
2. under ``binpack``, the room that is left in the domain, then in the one around it, and so on outwards: larger gangs
   keep the domains that are emptier; under ``spread``, the part of its devices that is in use;
3. under ``binpack``, the blocks of 1, 2, 4, 8, ... members that these domains lose, each block counted as its size;
4. the number of its devices with taints;
5. under ``spread``, a hash of the gang's UID and the domain; then the names of the domain.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from controller.gangs.bounds import Counts
from controller.gangs.fitting import fewest
from controller.gangs.gang import Gang
from controller.gangs.topology import Path
from controller.gangs.units import UnitShape

DomainScore = tuple[int, tuple[int, ...], int, int, str, Path]
"""Score of a domain; the smallest is best."""

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a domain, from which its score is made.

    Attributes:
        room: most members that it takes.
        around: the same for the domains around it, outermost first.
        devices: number of devices that the gang could use if none were in use.
        available: number of these that are not in use as a whole.
        tainted: number of these with taints.
    """

    room: int
    around: tuple[int, ...]
    devices: int
    available: int
    tainted: int


Scoring = Callable[[Path, int, int, Figures, Gang], DomainScore]
"""A rule to compare domains by: ``score``, or another one in benchmarks."""


def score(path: Path, children: int, members: int, figures: Figures, gang: Gang) -> DomainScore:
    """Score of a domain that uses ``children`` sub-domains for ``members`` members; lower is better."""
    match gang.policy:
        case "spread":
            load = (figures.devices - figures.available) * _MILLION // max(1, figures.devices)
            digest = hashlib.sha256("\0".join((gang.uid, *path)).encode()).hexdigest()
            return children, (load,), 0, figures.tainted, digest, path
        case "binpack" | "firstFit":
            rooms = figures.room, *reversed(figures.around)
            loss = sum(blocks_lost(room, members) for room in rooms)
            return children, tuple([room - members for room in rooms]), loss, figures.tainted, "", path
        case _:
            assert_never(gang.policy)


def blocks_lost(room: int, members: int) -> int:
    """Blocks of each power of two that the room loses to ``members`` members, each counted as its size."""
    found, size = 0, 1
    while size <= room:
        found += size * (room // size - max(0, room - members) // size)
        size *= 2
    return found


def least_children(
    wanted: Mapping[UnitShape, int], slack: int, counts: Counts, children: Mapping[Path, Sequence[int]]
) -> int:
    """Fewest domains of the next level that take the gang. ``slack`` units may be left out."""
    found = 1
    for shape, units in wanted.items():
        rooms = {path: counts.room(shape, places) for path, places in children.items()}
        found = max(found, fewest(rooms, units - slack))
    return found
