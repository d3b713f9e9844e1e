"""Pools of devices: the newest generation of each, checked, with counters as integers (nanos) and devices as bitsets.

A set of devices of one pool is an integer with a bit for each device, by ``PoolDevice.index``. Everything here changes
with events only; questions read it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from controller.allocation.devices.layout import Draws, Layouts
from controller.allocation.devices.usage import IDLE, Use
from controller.allocation.rules.taints import untolerated
from driver.model import Device, DeviceId, NodeScope, Slice, Taint, Toleration

PoolKey = tuple[str, str]
"""Driver and pool name."""


class PoolDevice:
    """A device of a pool that can be allocated.

    Attributes:
        spec: the device as its slice publishes it.
        index: its place in the pool, in the order of slices and devices.
        draws: the counters it consumes while it is in use: (index of the counter in the pool, nanos).
        scope: the nodes it can be used from.
        taints: those of the slice and of DeviceTaintRules.
        use: what holds it.
    """

    __slots__ = ("draws", "id", "index", "pool", "scope", "slice", "spec", "taints", "use")

    def __init__(self, pool: "Pool", published: Slice, spec: Device, index: int, draws: Draws):
        self.pool = pool
        self.slice = published
        self.spec = spec
        self.index = index
        self.id = DeviceId(published.driver, published.pool, spec.name)
        self.draws = draws
        self.scope: NodeScope = spec.scope or NodeScope() if published.scope.per_device else published.scope
        self.taints: tuple[Taint, ...] = spec.taints
        self.use = IDLE

    @property
    def node_local(self) -> bool:
        """Whether an allocation of the device binds its claim to one node."""
        return bool(self.scope.node_name) or self.spec.binds_to_node


@dataclass(frozen=True, slots=True)
class CounterName:
    """A counter of a pool."""

    counter_set: str
    counter: str

    def __str__(self) -> str:
        return f"{self.counter_set}.{self.counter}"


class NodeSlot:
    """A node, or the name of a node that so far only slices mention.

    Attributes:
        bit: its place in sets of nodes (``NodeAvailability``); 0 if it has none.
        listed: whether the node exists, so that it may be chosen.
        pools: the pools that belong to this node alone.
        available: how many devices of these pools are available.
        clock: grows with every change to these pools, their usage or the node's labels.
    """

    __slots__ = ("available", "bit", "clock", "labels", "listed", "name", "pools")

    def __init__(self, name: str, labels: Mapping[str, str]):
        self.name = name
        self.labels = labels
        self.bit = 0
        self.listed = False
        self.pools: dict[PoolKey, Pool] = {}
        self.available = 0
        self.clock = 0


class Pool:
    """The newest generation of one pool. Recreated when one of its slices changes; its usage is kept up to date.

    Attributes:
        problem: why no device of the pool can be allocated, "" if they can.
        counters: the counters in the order of ``free`` and ``total``.
        total, free: each counter's nanos, in all and not consumed.
        compatibility_sets: counter sets of which devices have compatibilityGroups.
        one_node: the node that the whole pool belongs to, "" if that differs by slice or device.
        slot: of this node.
        binding_conditions: whether a device has binding conditions; such pools are used last.
        shareable: devices that allow multiple allocations.
        shared: devices of which shares are in use.
        used: devices in use by anything: their counters are consumed.
        exhausted: devices of which nothing can be allocated, because they are in use as a whole.
        tainted: the devices that have taints, by these.
    """

    __slots__ = (
        "_allowed",
        "binding_conditions",
        "compatibility_sets",
        "counters",
        "devices",
        "exhausted",
        "free",
        "key",
        "layout",
        "one_node",
        "problem",
        "shareable",
        "shared",
        "slices",
        "slot",
        "tainted",
        "total",
        "used",
    )

    def __init__(self, key: PoolKey, slices: Iterable[Slice], uses: Mapping[DeviceId, Use], layouts: Layouts):
        self.key = key
        every = list(slices)
        newest = max(part.generation for part in every)
        self.slices = sorted((part for part in every if part.generation == newest), key=attrgetter("name"))
        self.problem = self._incomplete()
        self.counters: list[CounterName] = []
        self.total: list[int] = []
        numbers = self._read_counters()
        self.free = list(self.total)
        self.compatibility_sets: set[str] = set()
        self.devices = self._read_devices(numbers)
        self.layout = layouts.of(tuple([device.draws for device in self.devices]))
        names = {part.scope.node_name for part in self.slices}
        self.one_node = names.pop() if len(names) == 1 else ""
        self.slot: NodeSlot | None = None
        self.binding_conditions = any(device.spec.binding_conditions for device in self.devices)
        self.shareable = sum(1 << device.index for device in self.devices if device.spec.allow_multiple)
        self.shared = self.used = self.exhausted = 0
        self._allowed = self.layout.every
        self.tainted: dict[tuple[Taint, ...], int] = {}
        for group in range(len(self.layout.members)):
            self._allow(group)
        for device in self.devices:
            if (use := uses.get(device.id)) is not None:
                self.set_use(device, use)
            if device.taints:
                self.tainted[device.taints] = self.tainted.get(device.taints, 0) | 1 << device.index

    def _incomplete(self) -> str:
        wanted = self.slices[0].slice_count
        if len(self.slices) == wanted:
            return ""
        return f"has {len(self.slices)} of {wanted} slices of generation {self.slices[0].generation}"

    def _fault(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _read_counters(self) -> dict[CounterName, int]:
        numbers: dict[CounterName, int] = {}
        sets = Counter(counter_set.name for part in self.slices for counter_set in part.counter_sets)
        for name, count in sets.items():
            if count > 1:
                self._fault(f"declares counter set {name!r} {count} times")
        for part in self.slices:
            for counter_set in part.counter_sets:
                for counter, amount in counter_set.counters.items():
                    numbers.setdefault(CounterName(counter_set.name, counter), len(self.total))
                    self.counters.append(CounterName(counter_set.name, counter))
                    self.total.append(amount.nanos)
        return numbers

    def _read_devices(self, numbers: Mapping[CounterName, int]) -> list[PoolDevice]:
        seen: set[str] = set()
        devices: list[PoolDevice] = []
        for part in self.slices:
            for spec in part.devices:
                if spec.name in seen:
                    self._fault(f"has two devices named {spec.name!r}")
                seen.add(spec.name)
                draws = self._draws(spec, numbers) if spec.consumes else ()
                devices.append(PoolDevice(self, part, spec, len(devices), draws))
        return devices

    def _draws(self, spec: Device, numbers: Mapping[CounterName, int]) -> Draws:
        draws: list[tuple[int, int]] = []
        for consumption in spec.consumes:
            if consumption.compatibility_groups:
                self.compatibility_sets.add(consumption.counter_set)
            for counter, amount in consumption.counters.items():
                index = numbers.get(CounterName(consumption.counter_set, counter))
                if index is None:
                    self._fault(f"device {spec.name!r} draws on {consumption.counter_set}.{counter}, which it lacks")
                else:
                    draws.append((index, amount.nanos))
        return tuple(draws)

    # Usage

    def set_use(self, device: PoolDevice, use: Use) -> None:
        """Record what holds the device now. Its counters are consumed once, as long as anything holds it."""
        # Shares of one device consume its counters together: only the first and the last holder matter.
        change = bool(use.holders) - bool(device.use.holders)
        device.use = use
        bit = 1 << device.index
        if change:
            self.used ^= bit
            for index, amount in device.draws:
                self.free[index] -= change * amount
            if device.draws:
                self._allow(self.layout.groups[device.index])
        self.shared = self.shared | bit if use.shares else self.shared & ~bit
        exhausted = use.exclusive or (use.shares and not device.spec.allow_multiple)
        self.exhausted = self.exhausted | bit if exhausted else self.exhausted & ~bit

    def _allow(self, group: int) -> None:
        """Bring up to date which devices of a counter group the free counters allow."""
        self._allowed = self._allowed & ~self.layout.members[group] | self.layout.allowed(group, self.free)

    @property
    def available(self) -> int:
        """Devices that are not exhausted and whose counters, unless they are consumed already, are free.

        The capacity of a shareable device may still be used up.
        """
        return (self._allowed | self.used) & ~self.exhausted

    def draws_soundly(self, device: PoolDevice) -> bool:
        """Whether what the device draws is not negative and none of its counters is overdrawn."""
        return all(amount >= 0 and self.free[index] >= 0 for index, amount in device.draws)

    # Taints

    def set_taints(self, device: PoolDevice, taints: tuple[Taint, ...]) -> None:
        """Record which taints the device has."""
        bit = 1 << device.index
        if device.taints:
            self.tainted[device.taints] &= ~bit
            if not self.tainted[device.taints]:
                del self.tainted[device.taints]
        if taints:
            self.tainted[taints] = self.tainted.get(taints, 0) | bit
        device.taints = taints

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> int:
        """The devices whose taints a request with these tolerations tolerates."""
        found = self.layout.every
        for taints, devices in self.tainted.items():
            if untolerated(taints, tolerations) is not None:
                found &= ~devices
        return found
