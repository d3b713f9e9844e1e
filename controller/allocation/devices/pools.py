"""Pools of devices: the newest generation of each, checked, with counters as integers (nanos) and devices as bitsets.

A set of devices of one pool is an integer with a bit for each device, by ``PoolDevice.index``. Everything here changes
with events only; questions read it.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from controller.allocation.devices.layout import CounterName, Draws, PoolBlueprints
from controller.allocation.devices.usage import IDLE, DeviceUse
from controller.allocation.rules import untolerated
from driver.model import Device, DeviceId, NodeScope, Slice, Taint, Toleration

PoolKey = tuple[str, str]
"""Driver and pool name."""


_MOST_COUNTS: Final = 3
"""Most numbers of slices that a message names."""


class PoolDevice:
    """A device of a pool that can be allocated.

    Attributes:
        spec: the device as its slice publishes it.
        index: its position in the pool, in the order of slices and devices.
        draws: the counters that it consumes while it is in use: (index of the counter in the pool, nanos).
        scope: the nodes from which it can be used.
        taints: the taints of the slice and of DeviceTaintRules.
        use: the allocations that hold it.
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
        """True if an allocation of the device binds its claim to one node."""
        return bool(self.scope.node_name) or self.spec.binds_to_node


class PublishedPool(NamedTuple):
    """A pool as it is at one moment; it does not change.

    Attributes:
        node: of the whole pool; "" if it has not one.
        is_usable: whether its devices can be allocated at all.
        tainted: its devices with each set of taints, as bits in the order of slices and devices.
    """

    name: str
    node: str
    slices: Sequence[Slice]
    is_usable: bool
    tainted: Mapping[tuple[Taint, ...], int]


class NodeSlot:
    """A node, or a name of a node in slices before the node exists.

    Attributes:
        bit: its position in sets of nodes (``NodeAvailability``); 0 if it has none.
        listed: whether the node exists, so that it may be chosen.
        pools: the pools of this node alone.
        available: the number of available devices of these pools.
        clock: a version of these pools, their usage and the node's labels. Each change gives it another value than it
            ever had, and undoing a change on trial the value before.
        made: grows when one of these pools is added or removed, and so when its devices are published anew.
        within: values of attributes (``columns.by_value``); devices with other values do not count.
    """

    __slots__ = ("available", "bit", "clock", "labels", "listed", "made", "name", "pools", "within")

    def __init__(self, name: str, labels: Mapping[str, str], within: tuple[tuple[str, str], ...] = ()):
        self.name = name
        self.labels = labels
        self.within = within
        self.bit = 0
        self.listed = False
        self.pools: dict[PoolKey, Pool] = {}
        self.available = 0
        self.clock = 0
        self.made = 0


class Pool:
    """The newest generation of one pool. Recreated when one of its slices changes; its usage is kept up to date.

    Attributes:
        incomplete: how many of its slices are there, if some are missing; "" if none is.
        problem: the reason why no device of the pool can be allocated; "" if they can.
        counters: the counters in the order of ``free`` and ``total``.
        total, free: each counter's nanos, in all and not consumed.
        compatibility_sets: counter sets whose devices have compatibilityGroups.
        one_node: the node of the whole pool; "" if slices or devices have different ones.
        slot: the slot of this node.
        binding_conditions: whether a device has binding conditions; such pools are used last.
        shareable: devices that allow multiple allocations.
        shared: devices with shares in use.
        used: devices in use by anything: their counters are consumed.
        exhausted: devices that are in use as a whole.
        crowded: devices that more than one holder counts on: several shares, or a place that is kept on a card in use.
        tainted: the devices with each taint.
    """

    __slots__ = (
        "_allowed",
        "binding_conditions",
        "compatibility_sets",
        "counters",
        "crowded",
        "devices",
        "exhausted",
        "free",
        "incomplete",
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

    def __init__(
        self, key: PoolKey, slices: Iterable[Slice], uses: Mapping[DeviceId, DeviceUse], blueprints: PoolBlueprints
    ):
        self.key = key
        every = list(slices)
        newest = max(part.generation for part in every)
        self.slices = sorted((part for part in every if part.generation == newest), key=attrgetter("name"))
        blueprint = blueprints.blueprint_of(self.slices)
        self.incomplete = self._incomplete()
        self.problem = self.incomplete or self._scattered() or blueprint.problem
        self.counters: Sequence[CounterName] = blueprint.counters
        self.total: Sequence[int] = blueprint.total
        self.free = list(self.total)
        self.compatibility_sets = blueprint.compatibility_sets
        self.layout = blueprint.layout
        self.devices = self._read_devices()
        names = {part.scope.node_name for part in self.slices}
        self.one_node = names.pop() if len(names) == 1 else ""
        self.slot: NodeSlot | None = None
        self.binding_conditions = blueprint.binding_conditions
        self.shareable = blueprint.shareable
        self.shared = self.used = self.exhausted = self.crowded = 0
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
        """Return why the slices are not the whole pool; "" if they are."""
        there, generation = len(self.slices), self.slices[0].generation
        counts = sorted({part.slice_count for part in self.slices})
        if len(counts) > 1:
            said = " and ".join(map(str, counts[:_MOST_COUNTS]))
            return f"has slices of generation {generation} that contradict each other: resourceSliceCount {said}"
        if there > counts[0]:
            return f"has {there} slices of generation {generation}, and each says that there are {counts[0]}"
        return f"has {there} of {counts[0]} slices of generation {generation}" if there < counts[0] else ""

    def _scattered(self) -> str:
        """Return which device selects nodes by several terms; "" if none does.

        An allocation has one term, in which the selectors of its devices have to hold together.
        """
        devices = (device for part in self.slices if part.scope.per_device for device in part.devices)
        for device in devices:
            terms = len(device.scope.selector.terms) if device.scope and device.scope.selector else 1
            if terms > 1:
                return f"device {device.name!r}: nodeSelector has {terms} terms; it may have one"
        return ""

    def _read_devices(self) -> list[PoolDevice]:
        published = ((part, spec) for part in self.slices for spec in part.devices)
        return [
            PoolDevice(self, part, spec, index, self.layout.draws[index])
            for index, (part, spec) in enumerate(published)
        ]

    # Usage

    def set_use(self, device: PoolDevice, use: DeviceUse) -> None:
        """Record the use of the device. Its counters are consumed once, as long as anything holds it."""
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
        self.crowded = self.crowded | bit if use.exclusive + use.shares > 1 else self.crowded & ~bit

    def _allow(self, group: int) -> None:
        """Bring the available devices of a counter group up to date."""
        self._allowed = self._allowed & ~self.layout.members[group] | self.layout.allowed(group, self.free)

    @property
    def available(self) -> int:
        """Devices that are not exhausted and either in use already or within the free counters.

        The capacity of a shareable device may still be used up.
        """
        return (self._allowed | self.used) & ~self.exhausted

    def draws_soundly(self, device: PoolDevice) -> bool:
        """True if none of the counters that the device draws on is overdrawn."""
        return all(self.free[index] >= 0 for index, _ in device.draws)

    # Taints

    def set_taints(self, device: PoolDevice, taints: tuple[Taint, ...]) -> None:
        """Record the taints of the device."""
        bit = 1 << device.index
        if device.taints:
            self.tainted[device.taints] &= ~bit
            if not self.tainted[device.taints]:
                del self.tainted[device.taints]
        if taints:
            self.tainted[taints] = self.tainted.get(taints, 0) | bit
        device.taints = taints

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> int:
        """The devices without a taint that these tolerations do not tolerate."""
        found = self.layout.every
        for taints, devices in self.tainted.items():
            if untolerated(taints, tolerations) is not None:
                found &= ~devices
        return found
