"""The counters that devices of a pool draw on, and the devices that the free counters allow.

Most pools of a fleet are partitioned alike. They share one ``Layout`` with its cached results. Devices that are
connected by counters form a group, usually one card. The devices that a group allows depend on its own counters alone.
"""

from collections.abc import Sequence
from typing import Final
from weakref import WeakValueDictionary

from driver.bounded import BoundedCache

Draws = tuple[tuple[int, int], ...]
"""The consumption of a device while it is in use: (index of the counter in its pool, nanos)."""

_MOST_STATES: Final = 1 << 14
NO_GROUP: Final = -1


class Layout:
    """The draws of all devices of a pool, in order.

    Attributes:
        draws: per device.
        every: the set of all devices.
        groups: per device, the number of its group; NO_GROUP if it draws nothing.
        members: per group, the set of its devices.
        counters: per group, the indices of its counters.
    """

    __slots__ = ("__weakref__", "_known", "counters", "draws", "every", "groups", "members")

    def __init__(self, draws: tuple[Draws, ...]):
        self.draws = draws
        self.every = (1 << len(draws)) - 1
        self.groups, self.counters = _grouped(draws)
        self.members = [0] * len(self.counters)
        for device, group in enumerate(self.groups):
            if group != NO_GROUP:
                self.members[group] |= 1 << device
        self._known: BoundedCache[tuple[int, ...], int] = BoundedCache(_MOST_STATES)

    def allowed(self, group: int, free: Sequence[int]) -> int:
        """The devices of the group that fit, each alone, into the free counters of the pool."""
        state = (group, *[free[index] for index in self.counters[group]])
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = self._allowed(group, free)
        return known

    def _allowed(self, group: int, free: Sequence[int]) -> int:
        found = 0
        for device in bits(self.members[group]):
            if all(free[index] >= amount for index, amount in self.draws[device]):
                found |= 1 << device
        return found


class Layouts:
    """Layouts by value: one for all pools that are partitioned alike, as long as one of these pools exists."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[Draws, ...], Layout] = WeakValueDictionary()

    def of(self, draws: tuple[Draws, ...]) -> Layout:
        """The layout with these draws."""
        found = self._known.get(draws)
        if found is None:
            found = self._known[draws] = Layout(draws)
        return found


def bits(mask: int) -> Sequence[int]:
    """The numbers of the bits that are set, smallest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _grouped(draws: Sequence[Draws]) -> tuple[list[int], list[tuple[int, ...]]]:
    """The group of each device, and the counters of each group (connected components, by union-find)."""
    parents: dict[int, int] = {}

    def root(counter: int) -> int:
        while (parent := parents.setdefault(counter, counter)) != counter:
            counter = parent
        return counter

    for drawn in draws:
        for index, _ in drawn:
            parents[root(index)] = root(drawn[0][0])
    numbers: dict[int, int] = {}
    members: list[list[int]] = []
    for counter in sorted(parents):
        number = numbers.setdefault(root(counter), len(members))
        if number == len(members):
            members.append([])
        members[number].append(counter)
    groups = [numbers[root(drawn[0][0])] if drawn else NO_GROUP for drawn in draws]
    return groups, [tuple(found) for found in members]
