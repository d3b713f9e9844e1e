"""Which devices a search could exchange for one another, so that trying one of them is trying all.

Two devices are alike if every request could take either, they have the same values where constraints look, the same
capacity left, and draw the same amounts. Devices that draw on counters form groups (the partitions of one card); whole
groups are alike if their devices are, and then the devices at the same place in them are, too.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

from controller.allocation.attempt import Attempt
from controller.allocation.constraints import values_of
from controller.allocation.pools import CounterName, Pool, Unit
from controller.allocation.search_task import Task

Group = tuple[Pool, str]
"""A pool and the name of one counter set, for all sets connected by devices that draw on several."""


class Symmetry:
    """Likeness of the devices some tasks may take, given what an attempt has put on them."""

    def __init__(self, tasks: Sequence[Task], attempt: Attempt):
        self._attempt = attempt
        self._numbers: dict[Hashable, int] = {}
        self._kinds: dict[Unit, int] = {}
        self._groups: dict[Unit, Group] = {}
        self._group_kinds: dict[Group, int] = {}
        offers = _offers(tasks)
        self._find_groups(list(offers))
        attributes = sorted({tracker.attribute for claim in attempt.trackers for tracker in claim})
        for unit, some in offers.items():
            values = tuple(values_of(unit.device, name) for name in attributes)
            left = _left(unit) if unit.device.allow_multiple else None
            self._kinds[unit] = self._number((tuple(some), values, left, bool(unit.use.holders), self._drawn(unit)))
        members: dict[Group, Counter[int]] = {}
        for unit, group in self._groups.items():
            members.setdefault(group, Counter())[self._kinds[unit]] += 1
        for group, kinds in members.items():
            self._group_kinds[group] = self._number((frozenset(kinds.items()), self._free(group)))

    def like(self, unit: Unit) -> Hashable:
        """Equal for devices that can be exchanged now."""
        alone = (self._kinds[unit], self._attempt.on(unit))
        group = self._groups.get(unit)
        if group is None:
            return alone
        held = (other for other in self._attempt.held if self._groups.get(other) == group)
        inside = Counter((self._kinds[other], self._attempt.on(other)) for other in held)
        return alone, self._group_kinds[group], frozenset(inside.items())

    def taken(self) -> Hashable:
        """All that has been put on devices, equal for attempts that differ by an exchange."""
        groups: dict[Group, Counter[Hashable]] = {}
        loose: Counter[Hashable] = Counter()
        for unit in self._attempt.held:
            group = self._groups.get(unit)
            inside = loose if group is None else groups.setdefault(group, Counter())
            inside[self._kinds[unit], self._attempt.on(unit)] += 1
        whole = Counter((self._group_kinds[group], frozenset(inside.items())) for group, inside in groups.items())
        return frozenset(loose.items()), frozenset(whole.items())

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _find_groups(self, units: Sequence[Unit]) -> None:
        leaders: dict[Group, Group] = {}

        def leader(of: Group) -> Group:
            while (above := leaders.setdefault(of, of)) != of:
                of = above
            return of

        drawing = [unit for unit in units if unit.draws]
        for unit in drawing:
            sets = [(unit.pool, unit.pool.names[index].counter_set) for index, _ in unit.draws]
            for one in sets[1:]:
                leaders[leader(one)] = leader(sets[0])
        for unit in drawing:
            self._groups[unit] = leader((unit.pool, unit.pool.names[unit.draws[0][0]].counter_set))

    def _drawn(self, unit: Unit) -> Hashable:
        """What the unit draws, with the set named only where its group has several."""
        return frozenset((self._place(unit, unit.pool.names[index]), amount) for index, amount in unit.draws)

    def _place(self, unit: Unit, name: CounterName) -> Hashable:
        return name.counter if name.counter_set == self._groups[unit][1] else name

    def _free(self, group: Group) -> Hashable:
        pool, leading = group
        return frozenset(
            (name.counter, free)
            for name, free in zip(pool.names, pool.free, strict=True)
            if name.counter_set == leading
        )


def _offers(tasks: Sequence[Task]) -> dict[Unit, list[Hashable]]:
    """Per device, which options may take it and how much of it."""
    offers: dict[Unit, list[Hashable]] = {}
    for number, task in enumerate(tasks):
        for position, option in enumerate(task.options):
            for one in option.candidates:
                takes = None if one.takes is None else frozenset((k, v.nanos) for k, v in one.takes.items())
                offers.setdefault(one.unit, []).append((number, position, takes, id(one.fault)))
    return offers


def _left(unit: Unit) -> Hashable:
    """What is left of the capacities of a shareable device."""
    used = unit.use.consumed
    return frozenset((name, c.value.nanos - used.get(name, 0)) for name, c in unit.device.capacity.items())
