"""Compares the domains that can take a gang, in an order that an operator can predict. Pure.

The first difference decides, the smaller value wins:

1. the number of domains of the next level that the gang uses;
2. under ``binpack``, the capacity that is left in the domain, then in the one around it, and so on outwards: larger
   gangs keep the domains that are emptier; under ``spread``, the part of its devices that is in use;
3. under ``binpack``, the blocks of 1, 2, 4, 8, ... members that these domains lose, each block counted as its size;
4. the number of its devices with taints;
5. under ``spread``, a hash of the gang's UID and the domain; then the names of the domain.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, assert_never

from controller.gangs.gang import Gang
from controller.gangs.topology import Path
from driver.parameters import PlacementPolicy

DomainScore = tuple[int, tuple[int, ...], int, int, str, Path]
"""Score of a domain; the smallest is best."""

_MILLION: Final = 1_000_000
_MOST_LOSSES: Final = 4_096
"""Most remembered losses: the domains around others are scored again with each of these."""


class Figures(NamedTuple):
    """Figures of a domain, from which its score is made.

    Attributes:
        capacity: most members that it takes.
        outer_capacities: the same for the domains around it, outermost first.
        devices: number of devices that the gang could use if none were in use.
        available: number of these that are not in use as a whole.
        tainted: number of these with taints.
    """

    capacity: int
    outer_capacities: tuple[int, ...]
    devices: int
    available: int
    tainted: int


Scoring = Callable[[Path, int, int, Figures, Gang], DomainScore]
"""A rule to compare domains by: ``score``, or another one in benchmarks."""


def score(path: Path, sub_domains: int, members: int, figures: Figures, gang: Gang) -> DomainScore:
    """Score of a domain that uses ``sub_domains`` sub-domains for ``members`` members; lower is better."""
    policy: PlacementPolicy = gang.policy  # A new one is told here, also by a type checker that remembers this module.
    match policy:
        case "spread":
            load = (figures.devices - figures.available) * _MILLION // max(1, figures.devices)
            digest = hashlib.sha256("\0".join((gang.uid, *path)).encode()).hexdigest()
            return sub_domains, (load,), 0, figures.tainted, digest, path
        case "binpack" | "firstFit":
            capacities = figures.capacity, *reversed(figures.outer_capacities)
            loss = sum(blocks_lost(capacity, members) for capacity in capacities)
            return sub_domains, tuple([capacity - members for capacity in capacities]), loss, figures.tainted, "", path
        case _:
            assert_never(policy)


@lru_cache(_MOST_LOSSES)
def blocks_lost(capacity: int, members: int) -> int:
    """Blocks of each power of two that the capacity loses to ``members`` members, each counted as its size.

    5 members leave 3 of a capacity of 8. Of 8, 4, 2 and 1 there were 1, 2, 4 and 8 blocks, and are 0, 0, 1 and 3: lost
    are 8 + 8 + 6 + 5. 5 of a capacity of 7, with 2 left, lose 0 + 4 + 4 + 5, so there they do less harm.
    """
    lost, size = 0, 1
    while size <= capacity:
        lost += size * (capacity // size - max(0, capacity - members) // size)
        size *= 2
    return lost
