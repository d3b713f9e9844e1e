"""All devices of the fleet and the nodes that reach them, kept up to date by events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from controller.allocation.devices.columns import Columns, having
from controller.allocation.devices.layout import PoolBlueprints
from controller.allocation.devices.node_availability import NodeAvailability
from controller.allocation.devices.pools import NodeSlot, Pool, PoolDevice, PoolKey
from controller.allocation.devices.selector_index import SelectorIndex
from controller.allocation.devices.usage import DeviceUse, UsageChanges, only_more
from controller.allocation.rules import applies
from driver.model import DeviceId, NodeScope, Slice, TaintRule
from driver.node_selectors import selects

Order = Sequence[tuple[Pool, int]]
"""The pools with devices that reach a node, in the order of allocation, each with these devices."""
_EVERYWHERE: Final = ""

Versions = tuple[int, Sequence[tuple[NodeSlot, int]]]
"""``shared_usage_version``, and the clocks of some nodes."""


class DeviceIndex:
    """All pools, the nodes that reach them, and the available devices. A change to a slice touches only its pool.

    Attributes:
        columns: the columns of all pools.
        selectors: the devices of usable pools that selectors select.
        availability: the nodes, and how many devices each has available.
        pools: all pools; those whose slices changed are missing until ``settle``.
        shared_pools: the pools that do not belong to one node.
        shared_usage_version: a version of the shared pools and their usage; it changes as ``NodeSlot.clock`` does.
        shared_pools_version: grows when a shared pool is added or removed.
        pools_version: grows when any pool is added or removed.

    Args:
        uses: the use of each device. Each change must be passed to ``change_use``.
    """

    def __init__(self, uses: Mapping[DeviceId, DeviceUse]) -> None:
        self.columns = Columns()
        self.selectors = SelectorIndex(self.columns)
        self.availability = NodeAvailability()
        self.shared_pools: dict[PoolKey, Pool] = {}
        self.shared_usage_version = 0
        self.shared_pools_version = 0
        self.pools_version = 0
        self._uses = uses
        self._blueprints = PoolBlueprints()
        self._slices: dict[str, Slice] = {}
        self._members: dict[PoolKey, dict[str, Slice]] = {}
        self._at: dict[str, dict[PoolKey, int]] = {}
        """Per node name ("" for slices that are not of one named node): pools with slices there, and how many."""
        self.pools: dict[PoolKey, Pool] = {}
        self._outdated: dict[PoolKey, None] = {}
        self._devices: dict[DeviceId, PoolDevice] = {}
        self._rules: dict[str, TaintRule] = {}
        self._slots: dict[str, NodeSlot] = {}
        self._orders: dict[NodeSlot, tuple[int, Order]] = {}
        """Per node, the version of the shared pools in its order, and the order."""

    # Events

    def upsert_node(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a node, or replace its labels."""
        slot = self._slot(name)
        if slot.listed and slot.labels == labels:
            return
        slot.labels = labels
        self._orders.pop(slot, None)
        self.availability.list(slot)
        self.availability.change(slot)
        self.availability.free(slot)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pools and their usage stay known."""
        if slot := self._slots.get(name):
            slot.labels = {}
            self._orders.pop(slot, None)
            self.availability.unlist(slot)
            self._tidy()

    def upsert_slice(self, part: Slice) -> None:
        """Add or replace a ResourceSlice."""
        before = self._slices.get(part.name)
        if before == part:
            return
        if before is not None:
            self._unlink(before)
        self._slices[part.name] = part
        key = (part.driver, part.pool)
        self._members.setdefault(key, {})[part.name] = part
        at = self._at.setdefault(part.scope.node_name, {})
        at[key] = at.get(key, 0) + 1
        self._outdate(key)

    def remove_slice(self, name: str) -> None:
        """Remove a ResourceSlice. Its devices stay in use."""
        before = self._slices.pop(name, None)
        if before is not None:
            self._unlink(before)

    def upsert_taint_rule(self, rule: TaintRule) -> None:
        """Add or replace a DeviceTaintRule."""
        before = self._rules.get(rule.name)
        self._rules[rule.name] = rule
        self._taint([rule] if before is None else [before, rule])

    def remove_taint_rule(self, name: str) -> None:
        """Remove a DeviceTaintRule."""
        if before := self._rules.pop(name, None):
            self._taint([before])

    @property
    def taint_rules(self) -> Iterable[TaintRule]:
        """All DeviceTaintRules."""
        return self._rules.values()

    def slices_of(self, node: str) -> Iterator[Slice]:
        """The slices of the pools that belong to this node alone."""
        self.settle()
        slot = self._slots.get(node)
        for pool in slot.pools.values() if slot else ():
            yield from pool.slices

    def change_use(self, changes: UsageChanges) -> None:
        """Take in changes to the use of devices."""
        for name, before, after in changes:
            device = self._devices.get(name)
            if device is not None:
                device.pool.set_use(device, after)
                only_less = only_more(before, after) and device.pool.draws_soundly(device)
                self._changed(device.pool, only_less=only_less)

    def apply(self, changes: UsageChanges) -> Versions:
        """Take in changes to the use of devices on trial. Returns the versions before, which ``revert`` needs."""
        # What is read late belongs to the state before, and so do its versions.
        for key in tuple(self._outdated):
            self._pool(key)
        devices = [device for name, _, _ in changes if (device := self._devices.get(name)) is not None]
        slots = dict.fromkeys([device.pool.slot for device in devices])
        before = self.shared_usage_version, [(slot, slot.clock) for slot in slots if slot is not None]
        self.change_use(changes)
        return before

    def revert(self, changes: UsageChanges, versions: Versions) -> None:
        """Undo the last changes on trial that were not undone yet."""
        self.change_use([(name, after, before) for name, before, after in reversed(changes)])
        self.shared_usage_version, clocks = versions
        for slot, clock in clocks:
            slot.clock = clock

    # Questions

    def settle(self) -> None:
        """Bring everything up to date with the events so far."""
        for key in tuple(self._outdated):
            self._pool(key)
        self.availability.settle()

    def prepare(self, attributes: Sequence[str]) -> None:
        """Find the pools of every node, and the values of these attributes; both are kept until they change."""
        self.settle()
        for slot in self._slots.values():
            self.order(slot)
        for pool in self.pools.values():
            for attribute in attributes:
                self.columns.values(pool, attribute)

    def free_counters(self) -> Mapping[PoolKey, tuple[int, ...]]:
        """The free counters of every pool that has counters (nanos, in the pool's order)."""
        self.settle()
        return {key: tuple(pool.free) for key, pool in self.pools.items() if pool.free}

    @property
    def device_count(self) -> int:
        """The number of devices, as far as pools are up to date (``settle``)."""
        return len(self._devices)

    @property
    def slots(self) -> Mapping[str, NodeSlot]:
        """The nodes that exist or that slices mention, by name."""
        return self._slots

    def slot(self, name: str, labels: Mapping[str, str], within: tuple[tuple[str, str], ...] = ()) -> NodeSlot:
        """The node of this name as if it had these labels, whether it exists or not.

        ``within`` restricts it to the devices with these values of attributes (``columns.by_value``).
        """
        for key in (*self._at.get(name, ()), *self._at.get(_EVERYWHERE, ())):
            self._pool(key)
        slot = self._slots.get(name)
        if slot is None or within or (slot.labels != labels and self.shared_pools):
            slot = NodeSlot(name, labels, within)
            slot.pools = {key: pool for key in self._at.get(name, ()) if (pool := self._pool(key)).one_node == name}
        return slot

    def device(self, name: DeviceId) -> PoolDevice | None:
        """The device; None if no slice publishes it."""
        self.pool_of(name)
        return self._devices.get(name)

    def pool_of(self, name: DeviceId) -> Pool | None:
        """The device's pool, whether it has the device or not; None if it has no slices."""
        key = (name.driver, name.pool)
        return self._pool(key) if key in self._members else None

    def order(self, slot: NodeSlot) -> Order:
        """The pools that reach the node, in the order of allocation, each with those of its devices that do."""
        known = self._orders.get(slot)
        if known is not None and known[0] == self.shared_pools_version:
            return known[1]
        reached = self._reached(slot)
        if slot.within:
            reached = [(pool, mask & having(pool, slot.within, self.columns)) for pool, mask in reached]
        order = sorted(reached, key=lambda entry: (entry[0].binding_conditions, entry[0].key))
        if self._slots.get(slot.name) is slot:
            self._orders[slot] = self.shared_pools_version, order
        return order

    def beyond(self, slot: NodeSlot) -> Order:
        """The devices that reach the node, but are outside of ``within``; none for a whole node."""
        reached = self._reached(slot) if slot.within else []
        outside = [(pool, mask & ~having(pool, slot.within, self.columns)) for pool, mask in reached]
        return [(pool, mask) for pool, mask in outside if mask]

    def _reached(self, slot: NodeSlot) -> list[tuple[Pool, int]]:
        """The pools with devices that reach the node, in any order, each with these devices."""
        reached = [(pool, pool.layout.every) for pool in slot.pools.values()]
        for pool in self.shared_pools.values():
            visible = sum(1 << device.index for device in pool.devices if _reaches(device.scope, slot))
            if visible or any(_reaches(part.scope, slot) for part in pool.slices):
                reached.append((pool, visible))
        return reached

    # Upkeep

    def _slot(self, name: str) -> NodeSlot:
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = NodeSlot(name, {})
        return slot

    def _tidy(self) -> None:
        """Forget the names of deleted nodes without pools, once there are many."""
        if len(self._slots) > 2 * len(self.availability.slots) + 64:
            used = {name: slot for name, slot in self._slots.items() if slot.listed or slot.pools or slot.bit}
            self._slots = used
            self._orders = {slot: order for slot, order in self._orders.items() if used.get(slot.name) is slot}

    def _unlink(self, part: Slice) -> None:
        key = (part.driver, part.pool)
        del self._members[key][part.name]
        at = self._at[part.scope.node_name]
        at[key] -= 1
        if not at[key]:
            del at[key]
        if not at:
            del self._at[part.scope.node_name]
        if not self._members[key]:
            del self._members[key]
        self._outdate(key)

    def _outdate(self, key: PoolKey) -> None:
        """Forget the pool, because its slices changed. It is recreated when it is needed."""
        if key in self._members:
            self._outdated[key] = None
        else:
            self._outdated.pop(key, None)
        pool = self.pools.pop(key, None)
        if pool is None:
            return
        self.pools_version += 1
        for device in pool.devices:
            if self._devices.get(device.id) is device:
                del self._devices[device.id]
        self.columns.forget(pool)
        self.selectors.drop(pool)
        if pool.slot is None:
            del self.shared_pools[key]
            self.shared_pools_version += 1
        else:
            del pool.slot.pools[key]
            pool.slot.made += 1
            self._orders.pop(pool.slot, None)
        self._changed(pool, only_less=False)

    def _pool(self, key: PoolKey) -> Pool:
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = Pool(key, self._members[key].values(), self._uses, self._blueprints)
            self._outdated.pop(key, None)
            self.pools_version += 1
            self._devices.update((device.id, device) for device in pool.devices)
            if self._rules:
                self._taint_devices(pool)
            if pool.one_node:
                pool.slot = self._slot(pool.one_node)
                pool.slot.pools[key] = pool
                pool.slot.made += 1
                self._orders.pop(pool.slot, None)
            else:
                self.shared_pools[key] = pool
                self.shared_pools_version += 1
            if not pool.problem:
                self.selectors.add(pool)
            self._changed(pool, only_less=False)
        return pool

    def _changed(self, pool: Pool, *, only_less: bool) -> None:
        """Note a change of the pool: one that only made less available, or any other."""
        if pool.slot is None:
            self.shared_usage_version = self.availability.tick()
        else:
            self.availability.change(pool.slot)
        if not only_less:
            self.availability.free(pool.slot)

    def _taint(self, rules: Sequence[TaintRule]) -> None:
        """Apply rules that were added, changed or removed."""
        for pool in self.pools.values():
            if any(rule.driver in ("", pool.key[0]) and rule.pool in ("", pool.key[1]) for rule in rules):
                self._taint_devices(pool)
                self._changed(pool, only_less=False)

    def _taint_devices(self, pool: Pool) -> None:
        rules = [rule for _, rule in sorted(self._rules.items())]
        for device in pool.devices:
            added = tuple(rule.taint for rule in rules if applies(rule, device.id))
            # A rule that is served in two versions is there twice.
            pool.set_taints(device, tuple(dict.fromkeys(device.spec.taints + added)))


def _reaches(scope: NodeScope, node: NodeSlot) -> bool:
    """True if devices of this scope can be used from the node."""
    if scope.all_nodes:
        return True
    if scope.node_name:
        return scope.node_name == node.name
    return scope.selector is not None and selects(scope.selector, node.name, node.labels)
