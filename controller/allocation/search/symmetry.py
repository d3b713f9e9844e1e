"""Devices that nothing tells apart: a search that tries one of them has tried all, and bounds count them together.

Two devices are **interchangeable** if every request could take either, they have the same values of the attributes that
constraints look at, the same capacity left, and draw the same amounts. Devices that are connected by a counter set (the
partitions of one card), or by the value of an attribute that constraints compare (a card and a NIC at one PCIe root),
form groups. Groups are interchangeable if their devices are, whatever the names of their counter sets and values, and
then so are the devices at the same position in these groups.

The devices of one **cell** are candidates of the same requests, with the same consumption, and have the same values of
the attributes in constraints. Groups do not matter to them: counting asks how many devices there are, not which.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from controller.allocation.devices.layout import bits
from controller.allocation.devices.pools import Pool, PoolDevice
from controller.allocation.rules import Quantities, Values, groups_of, values_of
from controller.allocation.search.attempt import Attempt, Candidate, Task

FEW_VALUES: Final = 4
"""Up to this many values of an attribute form no groups. Groups by NUMA node, for example, would be so large that
interchangeable devices inside them would not be found."""

DeviceGroup = Hashable
GroupState = frozenset[tuple[Hashable, int]]
Cells = Mapping[int, int]
"""The number of available devices by cell."""
CellOffer = Mapping[int, Quantities | None]
"""The consumption of a pick by cell: the capacities of a share, or None for the whole device."""


class Likeness:
    """The interchangeable devices at one state of the attempt. Later picks of other devices do not change it."""

    def __init__(self, symmetry: "Symmetry", insides: Mapping[DeviceGroup, GroupState], ungrouped: Hashable):
        self._symmetry = symmetry
        self._insides = insides
        self._ungrouped = ungrouped

    def key(self, device: PoolDevice) -> Hashable:
        """A key that is equal for interchangeable devices."""
        symmetry = self._symmetry
        group = symmetry.groups.get(device)
        alone = symmetry.kinds[device], symmetry.used(device)
        return alone if group is None else (alone, symmetry.group_kinds[group], self._insides.get(group))

    @property
    def state(self) -> Hashable:
        """A key that is equal for attempts that differ only by interchangeable devices."""
        kinds = self._symmetry.group_kinds
        return self._ungrouped, frozenset(Counter((kinds[g], inside) for g, inside in self._insides.items()).items())


class Symmetry:
    """Finds interchangeable candidates of some tasks, given the picks of an attempt."""

    def __init__(self, tasks: Sequence[Task], attempt: Attempt):
        self._attempt = attempt
        self._admin = any(option.choice.want.admin_access for task in tasks for option in task.options)
        self._numbers: dict[Hashable, int] = {}
        self.kinds: dict[PoolDevice, int] = {}
        self.groups: dict[PoolDevice, DeviceGroup] = {}
        self.group_kinds: dict[DeviceGroup, int] = {}
        # Names do not matter: a device is described by the requests that may take it, its position in its group, what
        # is left of it and what it draws. Equal descriptions get equal numbers.
        offers = _offers(tasks)
        attributes = sorted({tracker.attribute for claim in attempt.trackers for tracker in claim})
        self._compared = {name for name in attributes if len(_values(offers, name)) > FEW_VALUES}
        # What a pod has to have of the values of an attribute names them, so no other value is like one of them.
        told_apart = {*attributes} - self._compared
        if attempt.pod_values:
            told_apart |= attempt.pod_values.attributes
        self._group_of: dict[Hashable, DeviceGroup] = {}
        self._positions: dict[Hashable, int] = {}
        self._find_groups(list(offers))
        for device, picks in offers.items():
            named = tuple(values_of(device.spec, name) for name in sorted(told_apart))
            left = _left(device) if device.spec.allow_multiple else None
            position = frozenset((token[:-1], self._positions[token]) for token in self._value_tokens(device))
            self.kinds[device] = self._number(
                (tuple(picks), named, position, left, bool(device.use.holders), self._drawn(device))
            )
        self._number_groups()

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    # Groups: devices that are connected by tokens, which are counter sets and compared values

    def _value_tokens(self, device: PoolDevice) -> list[tuple[Hashable, ...]]:
        return [
            (name, value) for name in sorted(self._compared) for value in sorted(values_of(device.spec, name), key=repr)
        ]

    def _find_groups(self, devices: Sequence[PoolDevice]) -> None:
        roots: dict[Hashable, Hashable] = {}

        def root(of: Hashable) -> Hashable:
            while (parent := roots.setdefault(of, of)) != of:
                of = parent
            return of

        tokens: dict[PoolDevice, list[tuple[Hashable, ...]]] = {}
        for device in devices:
            sets = {(device.pool, device.pool.counters[index].counter_set): None for index, _ in device.draws}
            tokens[device] = [*sets, *self._value_tokens(device)]
            # Union-find: all that a device touches becomes one group, such as a card, its root and the NIC there.
            for token in tokens[device]:
                roots[root(token)] = root(tokens[device][0])
        positions: Counter[Hashable] = Counter()
        for device, of_device in tokens.items():
            for token in of_device:
                group = self._group_of[token] = root(token)
                self.groups[device] = group
                if token not in self._positions:
                    # Places count per group, and within it per attribute and for all counter sets together.
                    kind = token[0] if isinstance(token[0], str) else ""
                    self._positions[token] = positions[group, kind]
                    positions[group, kind] += 1

    def _drawn(self, device: PoolDevice) -> Hashable:
        """The draws of the device and its compatibilityGroups, with counter sets by their position in the group."""
        names = device.pool.counters
        drawn: set[Hashable] = {
            (self._positions[device.pool, names[index].counter_set], names[index].counter, amount)
            for index, amount in device.draws
        }
        for used in device.spec.consumes:
            if used.counter_set in device.pool.compatibility_sets and used.counters:
                drawn.add((self._positions[device.pool, used.counter_set], frozenset(used.compatibility_groups)))
        return frozenset(drawn)

    def _number_groups(self) -> None:
        members: dict[DeviceGroup, Counter[Hashable]] = {}
        for device, group in self.groups.items():
            inside = members.setdefault(group, Counter())
            inside[self.kinds[device]] += 1
            for index, _ in device.draws:
                name = device.pool.counters[index]
                position = self._positions[device.pool, name.counter_set]
                inside[position, name.counter] = device.pool.free[index]
                if name.counter_set in device.pool.compatibility_sets:
                    inside[position, _groups_in_use(device.pool, name.counter_set)] = 1
        # A device is like another only within its group: the whole inside is compared, with what is left of its
        # counters, or a card in use would be taken for an idle one
        # (``test_the_choice_is_the_first_of_all_and_none_is_missed``).
        for group, inside in members.items():
            self.group_kinds[group] = self._number(frozenset(inside.items()))

    # The state of the attempt

    def used(self, device: PoolDevice) -> Hashable:
        """The use of the device by the attempt. The claims count only if a request asks for admin access."""
        used = self._attempt.used.get(device)
        if used is None:
            return None
        # A whole device or a share is used whichever claim has it. Only with admin access does it matter who has it:
        # the same claim cannot have it again, and another one can.
        claims = frozenset(used.claims.items()) if self._admin else None
        return used.whole, used.shares and used.sharing, frozenset(used.consumed.items()), claims

    def likeness(self, live: Sequence[tuple[int, int]]) -> Likeness:
        """The interchangeable devices now, if only the constraints in ``live`` (claim, number) still matter."""
        groups: dict[DeviceGroup, Counter[Hashable]] = {}
        ungrouped: Counter[Hashable] = Counter()
        for device in self._attempt.used:
            group = self.groups.get(device)
            inside = ungrouped if group is None else groups.setdefault(group, Counter())
            inside[self.kinds[device], self.used(device)] += 1
        for claim, number in live:
            tracker = self._attempt.trackers[claim][number]
            if tracker.attribute not in self._compared:
                ungrouped[claim, number, tracker.state] += 1
            # By its position in its group, and not by its name, a value is the same in groups that are alike. Without a
            # state, no device is picked for the constraint yet. What a claim that is allocated has, no device here may
            # have.
            elif tracker.state is not None:
                for token in [(tracker.attribute, value) for value in tracker.state]:
                    if token in self._group_of:
                        inside = groups.setdefault(self._group_of[token], Counter())
                        inside[claim, number, self._positions[token]] += 1
        return Likeness(
            self, {group: frozenset(inside.items()) for group, inside in groups.items()}, frozenset(ungrouped.items())
        )


class CandidateCells:
    """The cells of all candidates of some tasks. They do not change during a search."""

    def __init__(self, tasks: Sequence[Task], attempt: Attempt, symmetry: Symmetry):
        names = sorted({tracker.attribute for trackers in attempt.trackers for tracker in trackers})
        self.members: list[list[PoolDevice]] = []
        """The devices of each cell."""
        self.cell: dict[PoolDevice, int] = {}
        numbers: dict[Hashable, int] = {}
        for device, kind in symmetry.kinds.items():
            key = kind, tuple(values_of(device.spec, name) for name in names)
            cell = self.cell[device] = numbers.setdefault(key, len(numbers))
            if cell == len(self.members):
                self.members.append([])
            self.members[cell].append(device)
        self.shareable = frozenset(cell for cell, devices in enumerate(self.members) if devices[0].spec.allow_multiple)
        self.values: Mapping[tuple[int, str], Values] = {
            (cell, name): values_of(devices[0].spec, name)
            for cell, devices in enumerate(self.members)
            for name in names
        }
        self.having: Mapping[str, dict[object, list[int]]] = {name: {} for name in names}
        """Per attribute and value, the cells that have it."""
        for (cell, name), values in self.values.items():
            for value in values:
                self.having[name].setdefault(value, []).append(cell)
        self._known: dict[Hashable, CellOffer] = {}
        self.of_option = [[self._offer(option.candidates) for option in task.options] for task in tasks]
        """Per task and option, the cells of its candidates."""

    def _offer(self, candidates: Sequence[Candidate]) -> CellOffer:
        """The cells of the candidates; the same object for equal offers."""
        found = {self.cell[candidate.device]: candidate.consumes for candidate in candidates}
        key = tuple((cell, None if consumes is None else tuple(consumes.items())) for cell, consumes in found.items())
        return self._known.setdefault(key, found)


def _values(devices: Mapping[PoolDevice, object], attribute: str) -> frozenset[object]:
    return frozenset[object]().union(*(values_of(device.spec, attribute) for device in devices))


def _groups_in_use(pool: Pool, counter_set: str) -> Hashable:
    """The compatibilityGroups of all devices in use on a counter set."""
    return frozenset(groups_of(pool.devices[index].spec, counter_set) for index in bits(pool.used))


def _offers(tasks: Sequence[Task]) -> dict[PoolDevice, list[Hashable]]:
    """Per device, the options that may pick it, and their consumption."""
    offers: dict[PoolDevice, list[Hashable]] = {}
    for number, task in enumerate(tasks):
        for position, option in enumerate(task.options):
            for candidate in option.candidates:
                consumes = candidate.consumes
                amounts = None if consumes is None else frozenset((k, v.nanos) for k, v in consumes.items())
                offers.setdefault(candidate.device, []).append((number, position, amounts, id(candidate.fault)))
    return offers


def _left(device: PoolDevice) -> Hashable:
    """The amount left of each capacity of a shareable device."""
    used = device.use.consumed
    return frozenset((name, c.value.nanos - used.get(name, 0)) for name, c in device.spec.capacity.items())
