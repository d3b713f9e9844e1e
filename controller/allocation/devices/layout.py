"""The counters of pools, what devices draw on them, and the devices that free counters allow.

Most pools of a fleet have equal hardware. They share one ``PoolBlueprint``, with the counters and what each device
draws on them, and its ``Layout`` with cached results. Devices that are connected by counters form a group, usually one
card. The devices that a group allows depend on its own counters alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

from driver.bounded import BoundedCache
from driver.model import Device, Slice

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

    def layout_of(self, draws: tuple[Draws, ...]) -> Layout:
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


_MOST_BLUEPRINTS: Final = 64
"""The most blueprints that are remembered."""


@dataclass(frozen=True, slots=True)
class CounterName:
    """A counter of a pool."""

    counter_set: str
    counter: str

    def __str__(self) -> str:
        return f"{self.counter_set}.{self.counter}"


@dataclass(frozen=True, slots=True, eq=False)
class PoolBlueprint:
    """The part of a pool that follows from its counter sets and the consumption of its devices.

    Attributes:
        problem: the reason why no device of such a pool can be allocated; "" if they can.
        counters: the counters in the order of ``total``.
        total: each counter's nanos.
        compatibility_sets: counter sets whose devices have compatibilityGroups.
        layout: the counters that each device draws on.
        shareable: devices that allow multiple allocations.
        binding_conditions: whether a device has binding conditions.
    """

    problem: str
    counters: tuple[CounterName, ...]
    total: tuple[int, ...]
    compatibility_sets: frozenset[str]
    layout: Layout
    shareable: int
    binding_conditions: bool


class PoolBlueprints:
    """Keeps one blueprint for all pools with equal slices."""

    def __init__(self) -> None:
        self._layouts = Layouts()
        self._known: list[tuple[Any, PoolBlueprint]] = []

    def blueprint_of(self, slices: Sequence[Slice]) -> PoolBlueprint:
        """The blueprint of the pool with these slices, in order."""
        devices = [device for part in slices for device in part.devices]
        # Slices of equal nodes share these objects (``driver.wire.SharedSlices``), so most comparisons are of identity.
        content = (
            [part.counter_sets for part in slices],
            [device.name for device in devices],
            [device.consumes for device in devices],
            [device.allow_multiple for device in devices],
            [device.binding_conditions for device in devices],
        )
        for known, blueprint in self._known:
            if known == content:
                return blueprint
        blueprint = _Reader(slices, devices).read(self._layouts)
        if len(self._known) >= _MOST_BLUEPRINTS:
            self._known.clear()
        self._known.append((content, blueprint))
        return blueprint


class _Reader:
    """Works out the blueprint of one pool, with the first problem."""

    def __init__(self, slices: Sequence[Slice], devices: Sequence[Device]):
        self._slices = slices
        self._devices = devices
        self._problem = ""
        self._counters: list[CounterName] = []
        self._total: list[int] = []
        self._compatibility_sets: set[str] = set()

    def read(self, layouts: Layouts) -> PoolBlueprint:
        """Returns the blueprint."""
        numbers = self._read_counters()
        draws = self._read_draws(numbers)
        return PoolBlueprint(
            self._problem,
            tuple(self._counters),
            total=tuple(self._total),
            compatibility_sets=frozenset(self._compatibility_sets),
            layout=layouts.layout_of(draws),
            shareable=sum(1 << index for index, device in enumerate(self._devices) if device.allow_multiple),
            binding_conditions=any(device.binding_conditions for device in self._devices),
        )

    def _fault(self, problem: str) -> None:
        self._problem = self._problem or problem

    def _read_counters(self) -> dict[CounterName, int]:
        numbers: dict[CounterName, int] = {}
        sets = Counter(counter_set.name for part in self._slices for counter_set in part.counter_sets)
        for name, count in sets.items():
            if count > 1:
                self._fault(f"declares counter set {name!r} {count} times")
        for part in self._slices:
            for counter_set in part.counter_sets:
                for counter, amount in counter_set.counters.items():
                    numbers.setdefault(CounterName(counter_set.name, counter), len(self._total))
                    self._counters.append(CounterName(counter_set.name, counter))
                    self._total.append(amount.nanos)
        return numbers

    def _read_draws(self, numbers: Mapping[CounterName, int]) -> tuple[Draws, ...]:
        seen: set[str] = set()
        found: list[Draws] = []
        for device in self._devices:
            if device.name in seen:
                self._fault(f"has two devices named {device.name!r}")
            seen.add(device.name)
            found.append(self._draws(device, numbers) if device.consumes else ())
        return tuple(found)

    def _draws(self, device: Device, numbers: Mapping[CounterName, int]) -> Draws:
        draws: list[tuple[int, int]] = []
        for consumption in device.consumes:
            if consumption.compatibility_groups:
                self._compatibility_sets.add(consumption.counter_set)
            for counter, amount in consumption.counters.items():
                index = numbers.get(CounterName(consumption.counter_set, counter))
                if index is None:
                    self._fault(f"device {device.name!r} draws on {consumption.counter_set}.{counter}, which it lacks")
                else:
                    # Less than 0 would leave others more than the card has.
                    draws.append((index, max(0, amount.nanos)))
        return tuple(draws)
