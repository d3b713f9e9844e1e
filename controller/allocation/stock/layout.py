"""Which counters the devices of a pool draw on, and so which of them the counters left would still allow.

Most pools of a fleet are cut alike: they share one `Layout`, and with it everything that was worked out for it. Devices
connected by counters form a group (as a rule one card); what a group allows depends on its own counters alone.
"""

from collections.abc import Sequence
from typing import Final
from weakref import WeakValueDictionary

Draws = tuple[tuple[int, int], ...]
"""What a device takes while it is in use: (index of the counter in its pool, nanos)."""

_REMEMBERED: Final = 1 << 14
NO_GROUP: Final = -1


class Layout:
    """The draws of all devices of a pool, in order.

    Attributes:
        draws: per device.
        every: a bit for each device.
        groups: per device, the number of its group; NO_GROUP if it draws nothing.
        members: per group, a bit for each of its devices.
        counters: per group, the indices of its counters.
    """

    __slots__ = ("__weakref__", "_known", "counters", "draws", "every", "groups", "members")

    def __init__(self, draws: tuple[Draws, ...]):
        self.draws = draws
        self.every = (1 << len(draws)) - 1
        self.groups, self.counters = _grouped(draws)
        self.members = [0] * len(self.counters)
        for unit, group in enumerate(self.groups):
            if group != NO_GROUP:
                self.members[group] |= 1 << unit
        self._known: dict[tuple[int, ...], int] = {}

    def allowed(self, group: int, free: Sequence[int]) -> int:
        """The devices of the group for each of which what is left of the pool's counters is enough."""
        state = (group, *[free[index] for index in self.counters[group]])
        known = self._known.get(state)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[state] = self._allowed(group, free)
        return known

    def _allowed(self, group: int, free: Sequence[int]) -> int:
        found = 0
        for unit in bits(self.members[group]):
            if all(free[index] >= amount for index, amount in self.draws[unit]):
                found |= 1 << unit
        return found


class Layouts:
    """Layouts by what they say: one for all pools cut alike, for as long as one of them exists."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[Draws, ...], Layout] = WeakValueDictionary()

    def of(self, draws: tuple[Draws, ...]) -> Layout:
        """The layout with these draws."""
        found = self._known.get(draws)
        if found is None:
            found = self._known[draws] = Layout(draws)
        return found


def bits(mask: int) -> Sequence[int]:
    """The numbers of the bits set, smallest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _grouped(draws: Sequence[Draws]) -> tuple[list[int], list[tuple[int, ...]]]:
    """The group of each device, and the counters of each group."""
    above: dict[int, int] = {}

    def leader(counter: int) -> int:
        while (up := above.setdefault(counter, counter)) != counter:
            counter = up
        return counter

    for drawn in draws:
        for index, _ in drawn:
            above[leader(index)] = leader(drawn[0][0])
    numbers: dict[int, int] = {}
    members: list[list[int]] = []
    for counter in sorted(above):
        number = numbers.setdefault(leader(counter), len(members))
        if number == len(members):
            members.append([])
        members[number].append(counter)
    groups = [numbers[leader(drawn[0][0])] if drawn else NO_GROUP for drawn in draws]
    return groups, [tuple(found) for found in members]
