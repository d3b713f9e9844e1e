"""Pools of devices as the allocator sees them: one generation, checked, with counters as integers (nanos)."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from controller.allocation.stock.amounts import Amounts
from controller.allocation.stock.layout import Draws, Layouts
from controller.allocation.stock.taints import untolerated
from controller.allocation.stock.usage import IDLE, Use
from controller.selectors import SelectorFault
from driver.model import Device, DeviceId, NodeScope, Slice, Taint, Toleration

if TYPE_CHECKING:
    from controller.allocation.stock.columns import Column
    from controller.allocation.stock.matching import Bucket
    from controller.allocation.stock.supply import Seat

PoolKey = tuple[str, str]
"""Driver and pool name."""


class Unit:
    """A device that can be handed out, and what is known about it for the sake of speed.

    ``draws`` are the counters it takes while it is in use: (index in its pool, nanos).
    """

    __slots__ = ("device", "draws", "id", "index", "part", "pool", "scope", "taints", "takes", "use")

    def __init__(self, pool: "Pool", part: Slice, device: Device, index: int, draws: Draws):
        self.pool = pool
        self.part = part
        self.device = device
        self.index = index
        self.id = DeviceId(part.driver, part.pool, device.name)
        self.draws = draws
        self.scope: NodeScope = device.scope or NodeScope() if part.scope.per_device else part.scope
        self.taints: tuple[Taint, ...] = device.taints
        self.takes: dict[Hashable, Amounts | str] = {}
        """Per capacity request, what a share takes of each capacity, or the capacity it cannot give."""
        self.use = IDLE

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
    """The newest generation of one pool. Rebuilt when one of its slices changes; its usage is kept up to date.

    Sets of its devices are integers with a bit for each, by ``Unit.index``.

    Attributes:
        busy: devices that cannot be handed out, not even in part.
        shared: devices of which shares are in use.
        multiple: devices that can be shared.
        tainted: devices with taints.
    """

    def __init__(self, key: PoolKey, slices: Iterable[Slice], uses: Mapping[DeviceId, Use], layouts: Layouts):
        self.key = key
        every = list(slices)
        newest = max(part.generation for part in every)
        self.parts = sorted((part for part in every if part.generation == newest), key=attrgetter("name"))
        self.counters: dict[CounterName, int] = {}
        self.total: list[int] = []
        self.free: list[int] = []
        self.problem = self._incomplete()
        self.incomplete = bool(self.problem)
        self._read_counters()
        self.names = list(self.counters)
        """The counters in the order of ``free`` and ``total``."""
        self.grouped: set[str] = set()
        """Counter sets of which devices have compatibilityGroups."""
        self.units = self._read_devices()
        self.layout = layouts.of(tuple([unit.draws for unit in self.units]))
        self.one_node = self._one_node()
        """The node all of it belongs to, or "" where that differs by slice or device."""
        self.late = any(unit.device.binding_conditions for unit in self.units)
        """Whether it has devices with binding conditions; such pools are used last."""
        self.columns: dict[tuple[str, ...], Column] = {}
        self.buckets: dict[tuple[tuple[str, ...], ...] | None, Bucket] = {}
        """Per set of paths, the pools alike in them that it belongs to; filled as it is asked for."""
        self.invalid: Mapping[int, SelectorFault] | None = None
        """Units on which every selector fails; None until it is asked for."""
        self.seat: Seat | None = None
        """Of the pool's one node."""
        self.multiple = sum(1 << unit.index for unit in self.units if unit.device.allow_multiple)
        self.tainted = 0
        self._tolerated: dict[tuple[Toleration, ...], int] = {}
        self.busy = self.shared = self._held = 0
        self._allowed = self.layout.every
        self._stale = set(range(len(self.layout.members)))
        for unit in self.units:
            if (use := uses.get(unit.id)) is not None:
                self.set_use(unit, use)
            if unit.taints:
                self.set_taints(unit, unit.taints)

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

    def _read_devices(self) -> list[Unit]:
        seen: set[str] = set()
        units: list[Unit] = []
        for part in self.parts:
            for device in part.devices:
                if device.name in seen:
                    self._fault(f"has two devices named {device.name!r}")
                seen.add(device.name)
                units.append(Unit(self, part, device, len(units), self._draws(device) if device.consumes else ()))
        return units

    def _draws(self, device: Device) -> Draws:
        draws: list[tuple[int, int]] = []
        for consumption in device.consumes:
            if consumption.compatibility_groups:
                self.grouped.add(consumption.counter_set)
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

    # Usage

    def set_use(self, unit: Unit, use: Use) -> None:
        """Note what holds the unit now; counters follow: drawn once while anything does."""
        change = bool(use.holders) - bool(unit.use.holders)
        unit.use = use
        bit = 1 << unit.index
        if change:
            self._held ^= bit
            for index, amount in unit.draws:
                self.free[index] -= change * amount
            if unit.draws:
                self._stale.add(self.layout.groups[unit.index])
        self.shared = self.shared | bit if use.shares else self.shared & ~bit
        busy = use.exclusive or (use.shares and not unit.device.allow_multiple)
        self.busy = self.busy | bit if busy else self.busy & ~bit

    @property
    def held(self) -> int:
        """Devices in use by anything: their counters are drawn already."""
        return self._held

    @property
    def available(self) -> int:
        """Devices that are not busy and whose counters, if they still have to be drawn, are left.

        Of those that can be shared, the capacity may still be used up.
        """
        while self._stale:
            group = self._stale.pop()
            self._allowed = self._allowed & ~self.layout.members[group] | self.layout.allowed(group, self.free)
        return (self._allowed | self._held) & ~self.busy

    def soundly_drawn(self, unit: Unit) -> bool:
        """Whether what the unit draws is not negative, and no more than there was."""
        return all(amount >= 0 and self.free[index] >= 0 for index, amount in unit.draws)

    def counter_name(self, index: int) -> CounterName:
        """The counter at ``index`` of ``free`` and ``total``."""
        return self.names[index]

    # Taints

    def set_taints(self, unit: Unit, taints: tuple[Taint, ...]) -> None:
        """Note which taints the unit has."""
        unit.taints = taints
        bit = 1 << unit.index
        self.tainted = self.tainted | bit if taints else self.tainted & ~bit
        self._tolerated.clear()

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> int:
        """The devices whose taints do not keep off a request with these tolerations."""
        if not self.tainted:
            return self.layout.every
        known = self._tolerated.get(tolerations)
        if known is None:
            if len(self._tolerated) >= 64:
                self._tolerated.clear()
            known = self.layout.every
            for unit in self.units:
                if unit.taints and untolerated(unit.taints, tolerations) is not None:
                    known &= ~(1 << unit.index)
            self._tolerated[tolerations] = known
        return known
