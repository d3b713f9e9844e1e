"""Which devices a search could exchange for one another, so that trying one of them is trying all.

Two devices are alike if every request could take either, they have the same values where constraints look, the same
capacity left, and draw the same amounts. Devices bound together by a counter set (the partitions of one card) or by
the value of an attribute that constraints compare (a card and a NIC at one root) form groups; whole groups are alike if
their devices are, whatever their counter sets and values are called, and then the devices at the same place in them
are, too.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from controller.allocation.search.attempt import Attempt
from controller.allocation.search.constraints import values_of
from controller.allocation.search.search_task import Task
from controller.allocation.stock.compatibility import groups_of
from controller.allocation.stock.layout import bits
from controller.allocation.stock.pools import Pool, Unit

FEW_VALUES: Final = 4
"""Up to so many values of an attribute are told apart by name: groups of NUMA nodes would hide likeness inside them."""

Group = Hashable
Inside = frozenset[tuple[Hashable, int]]


class View:
    """Likeness at one state of the attempt. It stays true of devices that are not picked afterwards."""

    def __init__(self, symmetry: "Symmetry", insides: Mapping[Group, Inside], loose: Hashable):
        self._symmetry = symmetry
        self._insides = insides
        self._loose = loose

    def like(self, unit: Unit) -> Hashable:
        """Equal for devices that can be exchanged."""
        symmetry = self._symmetry
        group = symmetry.groups.get(unit)
        alone = symmetry.kinds[unit], symmetry.on(unit)
        return alone if group is None else (alone, symmetry.group_kinds[group], self._insides.get(group))

    @property
    def state(self) -> Hashable:
        """All that further picks depend on, equal for attempts that differ by an exchange."""
        kinds = self._symmetry.group_kinds
        return self._loose, frozenset(Counter((kinds[g], inside) for g, inside in self._insides.items()).items())


class Symmetry:
    """Likeness of the devices some tasks may take, given what an attempt has put on them."""

    def __init__(self, tasks: Sequence[Task], attempt: Attempt):
        self._attempt = attempt
        self._admin = any(option.choice.want.admin_access for task in tasks for option in task.options)
        self._numbers: dict[Hashable, int] = {}
        self.kinds: dict[Unit, int] = {}
        self.groups: dict[Unit, Group] = {}
        self.group_kinds: dict[Group, int] = {}
        offers = _offers(tasks)
        attributes = sorted({tracker.attribute for claim in attempt.trackers for tracker in claim})
        self._compared = {name for name in attributes if len(_values(offers, name)) > FEW_VALUES}
        self._group_of: dict[Hashable, Group] = {}
        self._places: dict[Hashable, int] = {}
        self._find_groups(list(offers))
        for unit, some in offers.items():
            named = tuple(values_of(unit.device, name) for name in attributes if name not in self._compared)
            left = _left(unit) if unit.device.allow_multiple else None
            place = frozenset((token[:-1], self._places[token]) for token in self._value_tokens(unit))
            self.kinds[unit] = self._number(
                (tuple(some), named, place, left, bool(unit.use.holders), self._drawn(unit))
            )
        self._number_groups()

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    # Groups: everything connected by tokens, that is by counter sets and compared values

    def _value_tokens(self, unit: Unit) -> list[tuple[Hashable, ...]]:
        return [
            (name, value) for name in sorted(self._compared) for value in sorted(values_of(unit.device, name), key=repr)
        ]

    def _find_groups(self, units: Sequence[Unit]) -> None:
        leaders: dict[Hashable, Hashable] = {}

        def leader(of: Hashable) -> Hashable:
            while (above := leaders.setdefault(of, of)) != of:
                of = above
            return of

        tokens: dict[Unit, list[tuple[Hashable, ...]]] = {}
        for unit in units:
            sets = {(unit.pool, unit.pool.names[index].counter_set): None for index, _ in unit.draws}
            tokens[unit] = [*sets, *self._value_tokens(unit)]
            for token in tokens[unit]:
                leaders[leader(token)] = leader(tokens[unit][0])
        places: Counter[Hashable] = Counter()
        for unit, some in tokens.items():
            for token in some:
                group = self._group_of[token] = leader(token)
                self.groups[unit] = group
                if token not in self._places:
                    # A place is counted per group, and per attribute or for all counter sets.
                    kind = token[0] if isinstance(token[0], str) else ""
                    self._places[token] = places[group, kind]
                    places[group, kind] += 1

    def _drawn(self, unit: Unit) -> Hashable:
        """What the unit draws and with whom, its counter sets told by their place in the group."""
        names = unit.pool.names
        drawn: set[Hashable] = {
            (self._places[unit.pool, names[index].counter_set], names[index].counter, amount)
            for index, amount in unit.draws
        }
        for used in unit.device.consumes:
            if used.counter_set in unit.pool.grouped and used.counters:
                drawn.add((self._places[unit.pool, used.counter_set], frozenset(used.compatibility_groups)))
        return frozenset(drawn)

    def _number_groups(self) -> None:
        members: dict[Group, Counter[Hashable]] = {}
        for unit, group in self.groups.items():
            inside = members.setdefault(group, Counter())
            inside[self.kinds[unit]] += 1
            for index, _ in unit.draws:
                name = unit.pool.names[index]
                place = self._places[unit.pool, name.counter_set]
                inside[place, name.counter] = unit.pool.free[index]
                if name.counter_set in unit.pool.grouped:
                    inside[place, _groups_in_use(unit.pool, name.counter_set)] = 1
        for group, inside in members.items():
            self.group_kinds[group] = self._number(frozenset(inside.items()))

    # The state of the attempt

    def on(self, unit: Unit) -> Hashable:
        """What the attempt has put on the unit; whose it is matters only where somebody asks for admin access."""
        held = self._attempt.held.get(unit)
        if held is None:
            return None
        whose = frozenset(held.claims.items()) if self._admin else None
        return held.whole, held.shares > 0, frozenset(held.consumed.items()), whose

    def view(self, live: Sequence[tuple[int, int]]) -> View:
        """Likeness now, where only the constraints in ``live`` (claim, number) matter any more."""
        groups: dict[Group, Counter[Hashable]] = {}
        loose: Counter[Hashable] = Counter()
        for unit in self._attempt.held:
            group = self.groups.get(unit)
            inside = loose if group is None else groups.setdefault(group, Counter())
            inside[self.kinds[unit], self.on(unit)] += 1
        for claim, number in live:
            tracker = self._attempt.trackers[claim][number]
            if tracker.attribute not in self._compared:
                loose[claim, number, tracker.state] += 1
            elif tracker.state is not None:
                for value in tracker.state:
                    token = tracker.attribute, value
                    inside = groups.setdefault(self._group_of[token], Counter())
                    inside[claim, number, self._places[token]] += 1
        return View(
            self, {group: frozenset(inside.items()) for group, inside in groups.items()}, frozenset(loose.items())
        )


def _values(units: Mapping[Unit, object], attribute: str) -> frozenset[object]:
    return frozenset[object]().union(*(values_of(unit.device, attribute) for unit in units))


def _groups_in_use(pool: Pool, counter_set: str) -> Hashable:
    """The compatibilityGroups of the devices in use on a counter set."""
    return frozenset(groups_of(pool.units[index].device, counter_set) for index in bits(pool.held))


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
