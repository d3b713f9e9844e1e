"""Which of the domains that can take a gang is chosen: an order that an operator can predict. Pure.

The first difference decides, the smaller value wins:

1. how many domains of the next level the gang is spread over;
2. under ``binpack``, how much room the domain has left, then the one around it, and so on outwards: larger gangs keep
   the domains that are emptier; under ``spread``, which part of its devices is in use;
3. under ``binpack``, how many blocks of 1, 2, 4, 8, ... members these domains lose, each block counted as its size;
4. how many of its devices have taints;
5. under ``spread``, a hash of the gang's UID and the domain; then the names of the domain.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from controller.gangs.bounds import Counts
from controller.gangs.fitting import best_fit
from controller.gangs.topology import Path
from controller.gangs.units import UnitShape
from driver.parameters import PlacementPolicy

DomainScore = tuple[int, tuple[int, ...], int, int, str, Path]
"""How good a domain is for a gang; the smallest is best."""

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """What a domain has.

    Attributes:
        room: how many members it takes at most.
        around: the same for the domains around it, outermost first.
        devices: how many devices the gang could use if none were in use.
        available: those that are not in use as a whole.
        tainted: those with taints.
    """

    room: int
    around: tuple[int, ...]
    devices: int
    available: int
    tainted: int


Scoring = Callable[[Path, int, int, Figures, PlacementPolicy, str], DomainScore]
"""A rule by which domains are compared: ``score``, or another one to compare it with."""


def score(path: Path, children: int, members: int, figures: Figures, policy: PlacementPolicy, uid: str) -> DomainScore:
    """How good the domain is for so many members of the gang, of which it spreads them over ``children``."""
    match policy:
        case "spread":
            load = (figures.devices - figures.available) * _MILLION // max(1, figures.devices)
            digest = hashlib.sha256("\0".join((uid, *path)).encode()).hexdigest()
            return children, (load,), 0, figures.tainted, digest, path
        case "binpack" | "firstFit":
            rooms = figures.room, *reversed(figures.around)
            loss = sum(blocks_lost(room, members) for room in rooms)
            return children, tuple([room - members for room in rooms]), loss, figures.tainted, "", path
        case _:
            assert_never(policy)


def blocks_lost(room: int, members: int) -> int:
    """How many blocks of each power of two the room loses, each counted as its size."""
    found, size = 0, 1
    while size <= room:
        found += size * (room // size - max(0, room - members) // size)
        size *= 2
    return found


def least_children(
    wanted: Mapping[UnitShape, int], slack: int, counts: Counts, children: Mapping[Path, Sequence[int]]
) -> int:
    """How many domains of the next level the gang needs at least."""
    found = 1
    for shape, units in wanted.items():
        rooms = {path: counts.room(shape, places) for path, places in children.items()}
        found = max(found, fewest(rooms, units - slack))
    return found


def fewest(rooms: Mapping[Path, int], wanted: int) -> int:
    """How many domains with these rooms are needed to take so many."""
    used = 0
    for path in best_fit(rooms, wanted):
        if wanted <= 0:
            break
        wanted -= rooms[path]
        used += 1
    return used
