"""The blueprint of pools with equal hardware: their counters, and the counters that each device draws on.

Nodes with equal hardware share one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controller.allocation.devices.layout import Draws, Layout, Layouts
from driver.model import Device, Slice

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

    def of(self, slices: Sequence[Slice]) -> PoolBlueprint:
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
            layout=layouts.of(draws),
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
