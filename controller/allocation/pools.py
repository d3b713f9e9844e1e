"""Pools of devices as the allocator sees them: one generation, checked, with counters as integers (nanos)."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from controller.allocation.amounts import Amounts
from controller.allocation.usage import IDLE, Use
from controller.selectors import SelectorFault
from driver.model import Device, DeviceId, NodeScope, Slice, Taint

PoolKey = tuple[str, str]
"""Driver and pool name."""


class Unit:
    """A device that can be handed out, and what is known about it for the sake of speed.

    ``draws`` are the counters it takes while it is in use: (index in its pool, nanos).
    """

    __slots__ = ("device", "draws", "id", "index", "part", "pool", "scope", "taints", "takes", "use")

    def __init__(self, pool: "Pool", part: Slice, device: Device, index: int, use: Use):
        self.pool = pool
        self.part = part
        self.device = device
        self.index = index
        self.id = DeviceId(part.driver, part.pool, device.name)
        self.draws: tuple[tuple[int, int], ...] = ()
        self.scope: NodeScope = device.scope or NodeScope() if part.scope.per_device else part.scope
        self.taints: tuple[Taint, ...] = device.taints
        self.takes: dict[Hashable, Amounts | str] = {}
        """Per capacity request, what a share takes of each capacity, or the capacity it cannot give."""
        self.use = use

    @property
    def node_local(self) -> bool:
        """Whether an allocation of the device binds its claim to one node."""
        return bool(self.scope.node_name) or self.device.binds_to_node


@dataclass(frozen=True, slots=True)
class CounterName:
    """A counter of a pool."""

    counter_set: str
    counter: str

    def __str__(self) -> str:
        return f"{self.counter_set}.{self.counter}"


class Pool:
    """The newest generation of one pool. Rebuilt when one of its slices changes; its usage is kept up to date."""

    def __init__(self, key: PoolKey, slices: Iterable[Slice], uses: Mapping[DeviceId, Use]):
        self.key = key
        every = list(slices)
        newest = max(part.generation for part in every)
        self.parts = sorted((part for part in every if part.generation == newest), key=attrgetter("name"))
        self.counters: dict[CounterName, int] = {}
        self.total: list[int] = []
        self.free: list[int] = []
        self.units: list[Unit] = []
        self.problem = self._incomplete()
        self.incomplete = bool(self.problem)
        self._read_counters()
        self.names = list(self.counters)
        """The counters in the order of ``free`` and ``total``."""
        self._read_devices(uses)
        self.one_node = self._one_node()
        """The node all of it belongs to, or "" where that differs by slice or device."""
        self.late = any(unit.device.binding_conditions for unit in self.units)
        """Whether it has devices with binding conditions; such pools are used last."""
        self.outcomes: dict[str, list[bool | SelectorFault]] = {}
        """Per selector, what it says of each unit; filled as it is asked for."""
        self.selected: dict[Hashable, list[tuple[Unit, SelectorFault | None]]] = {}
        """Per set of selectors, the units selected; filled as it is asked for."""

    def _incomplete(self) -> str:
        wanted = self.parts[0].slice_count
        if len(self.parts) == wanted:
            return ""
        return f"has {len(self.parts)} of {wanted} slices of generation {self.parts[0].generation}"

    def _fault(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _read_counters(self) -> None:
        names = Counter(counter_set.name for part in self.parts for counter_set in part.counter_sets)
        for name, count in names.items():
            if count > 1:
                self._fault(f"declares counter set {name!r} {count} times")
        for part in self.parts:
            for counter_set in part.counter_sets:
                for counter, amount in counter_set.counters.items():
                    self.counters.setdefault(CounterName(counter_set.name, counter), len(self.total))
                    self.total.append(amount.nanos)
        self.free = list(self.total)

    def _read_devices(self, uses: Mapping[DeviceId, Use]) -> None:
        seen: set[str] = set()
        for part in self.parts:
            for device in part.devices:
                unit = Unit(self, part, device, len(self.units), IDLE)
                if device.name in seen:
                    self._fault(f"has two devices named {device.name!r}")
                seen.add(device.name)
                unit.draws = self._draws(device)
                self.units.append(unit)
                self.set_use(unit, uses.get(unit.id, IDLE))

    def _draws(self, device: Device) -> tuple[tuple[int, int], ...]:
        draws: list[tuple[int, int]] = []
        for consumption in device.consumes:
            if consumption.compatibility_groups:
                self._fault(f"device {device.name!r} has compatibilityGroups, which are not supported")
            for counter, amount in consumption.counters.items():
                index = self.counters.get(CounterName(consumption.counter_set, counter))
                if index is None:
                    self._fault(f"device {device.name!r} draws on {consumption.counter_set}.{counter}, which it lacks")
                else:
                    draws.append((index, amount.nanos))
        return tuple(draws)

    def _one_node(self) -> str:
        names = {part.scope.node_name for part in self.parts}
        return names.pop() if len(names) == 1 else ""

    def set_use(self, unit: Unit, use: Use) -> None:
        """Note what holds the unit now; counters follow: drawn once while anything does."""
        change = bool(use.holders) - bool(unit.use.holders)
        unit.use = use
        if change:
            for index, amount in unit.draws:
                self.free[index] -= change * amount

    def counter_name(self, index: int) -> CounterName:
        """The counter at ``index`` of ``free`` and ``total``."""
        return self.names[index]
