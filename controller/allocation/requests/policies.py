"""What each placement policy prefers among the nodes and devices that a request can have. Pure.

A policy ranks them: the smallest rank first, equal ones in the order in which they are given. The domains of gangs are
compared by ``gangs.domain_score``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import assert_never

from driver.parameters import PlacementPolicy


class PolicyRanks(ABC):
    """The ranks under one policy. Loads are in millionths (``preferences.load``)."""

    prefers = True
    """True if some nodes or devices have a better rank than others."""
    spares_partitions = False
    """True if a node is better where a partition costs less (``ordering.partition_cost``), whatever its rank."""

    @abstractmethod
    def of_node(self, load: int, left: int) -> tuple[int, ...]:
        """The rank of a node by its load and by what is left, both once the request is satisfied."""

    @abstractmethod
    def of_share(self, load: int, *, used: bool) -> tuple[int, ...]:
        """The rank of a shareable device by its load after the pick, and by whether others use it."""

    @abstractmethod
    def of_partition(self, load: int, lost: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
        """The rank of a partition by the load of its card after the pick, and by what the pick costs."""

    @abstractmethod
    def of_group(self, free: Iterable[int]) -> tuple[int, ...]:
        """The rank of devices close to one another by how many are free among them, and in each wider group."""


class _FirstFit(PolicyRanks):
    prefers = False

    def of_node(self, load: int, left: int) -> tuple[int, ...]:
        return ()

    def of_share(self, load: int, *, used: bool) -> tuple[int, ...]:
        return ()

    def of_partition(self, load: int, lost: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
        return ()

    def of_group(self, free: Iterable[int]) -> tuple[int, ...]:
        return ()


class _Binpack(PolicyRanks):
    spares_partitions = True

    def of_node(self, load: int, left: int) -> tuple[int, ...]:
        return -load, left

    def of_share(self, load: int, *, used: bool) -> tuple[int, ...]:
        return not used, -load

    def of_partition(self, load: int, lost: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
        return (lost,)

    def of_group(self, free: Iterable[int]) -> tuple[int, ...]:
        return tuple(free)


class _Spread(PolicyRanks):
    def of_node(self, load: int, left: int) -> tuple[int, ...]:
        return load, -left

    def of_share(self, load: int, *, used: bool) -> tuple[int, ...]:
        return used, load

    def of_partition(self, load: int, lost: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
        return load, lost

    def of_group(self, free: Iterable[int]) -> tuple[int, ...]:
        return tuple([-count for count in free])


_FIRST_FIT, _BINPACK, _SPREAD = _FirstFit(), _Binpack(), _Spread()


def ranks_of(policy: PlacementPolicy) -> PolicyRanks:
    """The ranks under a policy."""
    match policy:
        case "firstFit":
            return _FIRST_FIT
        case "binpack":
            return _BINPACK
        case "spread":
            return _SPREAD
        case _:
            assert_never(policy)
