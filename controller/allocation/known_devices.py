"""All devices of the cluster and their use, kept up to date by events."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller.allocation.devices.card_parts import Card, card_of, card_parts
from controller.allocation.devices.device_index import DeviceIndex, Versions
from controller.allocation.devices.layout import NO_GROUP
from controller.allocation.devices.pools import PoolKey, PublishedPool
from controller.allocation.devices.usage import DeviceUse, Usage, UsageChanges, UseChange, consuming
from controller.allocation.rules import untolerated
from driver.model import Allocation, Claim, Device, DeviceId, NodeScope, Result, Slice, Taint, TaintRule, Toleration
from driver.names import Names


class KnownDevices:
    """All pools and their usage. Events change it; nothing is ever rebuilt.

    Args:
        names: of our driver.
    """

    def __init__(self, names: Names) -> None:
        self._usage = Usage(names)
        self._index = DeviceIndex(self._usage.uses)
        self._names: dict[str, str] = {}
        """Keys of claims by UID."""
        self._trials: list[tuple[UseChange, UsageChanges, Versions]] = []
        """The changes on trial that are not undone yet."""

    # Events

    def upsert_node(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a node, or replace its labels."""
        self._index.upsert_node(name, labels)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pools and their usage stay known."""
        self._index.remove_node(name)

    def upsert_slice(self, part: Slice) -> None:
        """Add or replace a ResourceSlice."""
        self._index.upsert_slice(part)

    def remove_slice(self, name: str) -> None:
        """Remove a ResourceSlice. Its devices stay in use."""
        self._index.remove_slice(name)

    def upsert_claim(self, claim: Claim) -> None:
        """Add or replace a claim. Its allocation is in use; if it has none, an assumed one still counts."""
        self._names[claim.uid] = claim.key
        self._index.change_use(self._usage.write(claim.uid, claim.allocation))

    def remove_claim(self, uid: str) -> None:
        """Remove a claim, with its allocation or the assumed one."""
        self._names.pop(uid, None)
        self._index.change_use(self._usage.remove(uid))

    def assume(self, uid: str, allocation: Allocation) -> None:
        """Count an allocation that is being written, until the claim shows it or ``forget`` is called."""
        self._index.change_use(self._usage.assume(uid, allocation))

    def forget(self, uid: str) -> None:
        """Stop counting the allocation that was assumed for the claim: it was not written."""
        self._index.change_use(self._usage.forget(uid))

    def upsert_taint_rule(self, rule: TaintRule) -> None:
        """Add or replace a DeviceTaintRule."""
        self._index.upsert_taint_rule(rule)

    def remove_taint_rule(self, name: str) -> None:
        """Remove a DeviceTaintRule."""
        self._index.remove_taint_rule(name)

    # Changes on trial (``controller.cluster.WhatIf``)

    def counted(self, uid: str) -> Allocation | None:
        """The allocation that counts for a holder of devices (UID of a claim); None if none does."""
        return self._usage.counted(uid)

    def apply(self, change: UseChange) -> None:
        """Make a change on trial. Until it is undone, no event may come."""
        changes = self._usage.apply(change)
        self._trials.append((change, changes, self._index.apply(changes)))

    def revert(self, change: UseChange) -> None:
        """Undo a change on trial: the last one. All versions are as before, so answers from before count again."""
        last, changes, versions = self._trials.pop()
        assert last is change, "changes on trial are undone in reverse order"
        self._usage.revert(change, changes)
        self._index.revert(changes, versions)

    def copy_nodes(self, to: "KnownDevices", copies: Mapping[str, str]) -> None:
        """Add copies of nodes to other devices: by name of the node, the name of its copy.

        They have the pools of the one node. Taint rules that name a pool or a device are left out. The nodes themselves
        are not added: their labels are for ``upsert_node``.
        """
        for rule in self._index.taint_rules:
            if not rule.pool and not rule.device:
                to.upsert_taint_rule(rule)
        for node, copy in copies.items():
            for part in self._index.slices_of(node):
                to.upsert_slice(replace(part, scope=NodeScope(copy)))

    # What is known

    def usage_snapshot(self) -> Mapping[DeviceId, DeviceUse]:
        """The use of each device. A new fleet with the same objects has the same."""
        return dict(self._usage.uses)

    def conflicting_claims(self, claim: Claim) -> Mapping[str, str]:
        """The claims (by key) that together with this one overuse a device, and what they overuse.

        There are none unless two programs allocated, or something is kept for others (``assume`` under a name that is
        no claim's). It looks at each device of the claim.
        """
        found: dict[str, str] = {}
        for result in consuming(claim.allocation):
            for uid, what in self._index.overuse(result.device).items():
                if uid != claim.uid and uid in self._names:
                    found.setdefault(self._names[uid], f"{what} of {result.device}")
        return found

    def card_parts(self, allocation: Allocation) -> Mapping[Card, int]:
        """The cards that the allocation takes, and how much of each, in parts of ``CARD``; admin access takes none."""
        found: dict[Card, int] = {}
        for result in consuming(allocation):
            device = self._index.device(result.device)
            card = card_of(device, result)
            found[card] = found.get(card, 0) + card_parts(device, result)
        return found

    def has_only_shares(self, device: DeviceId) -> bool:
        """Whether nothing of the device's card is in use but shares of the device, if anything is."""
        found = self._index.device(device)
        if found is None or found.use.exclusive:
            return False
        layout, group = found.pool.layout, found.pool.layout.groups[found.index]
        return group == NO_GROUP or not layout.members[group] & found.pool.used & ~(1 << found.index)

    def shared_beside(self, device: DeviceId) -> Sequence[DeviceId]:
        """The other devices of the device's card of which claims hold shares."""
        found = self._index.device(device)
        if found is None:
            return ()
        layout, group = found.pool.layout, found.pool.layout.groups[found.index]
        if group == NO_GROUP:
            return ()
        others = layout.members[group] & found.pool.shared & ~(1 << found.index)
        return [one.id for one in found.pool.devices if others >> one.index & 1]

    def taints(self, device: DeviceId) -> tuple[Taint, ...]:
        """The taints of a device, those of DeviceTaintRules included; none if no slice publishes it."""
        found = self._index.device(device)
        return found.taints if found else ()

    def untolerated(self, device: DeviceId, tolerations: tuple[Toleration, ...]) -> Taint | None:
        """The taint that keeps the device from a request with these tolerations; None if there is none."""
        return untolerated(self.taints(device), tolerations)

    def is_whole(self, device: DeviceId) -> bool:
        """Whether all slices of the device's pool are there: only then, one that none of them has is gone for good."""
        pool = self._index.pool_of(device)
        return pool is not None and not pool.incomplete

    def published_device(self, device: DeviceId) -> Device | None:
        """The device as it is published; None if no slice publishes it."""
        found = self._index.device(device)
        return found.spec if found else None

    def published_and_part(self, result: Result) -> tuple[Device | None, int]:
        """The device of a result as it is published, and how much of its card it takes, in parts of ``CARD``."""
        found = self._index.device(result.device)
        return (found.spec if found else None), card_parts(found, result)

    def published_pools(self, driver: str) -> Sequence[PublishedPool]:
        """All pools of the driver as they are now, for other threads."""
        self._index.settle()
        return [
            PublishedPool(pool.key[1], pool.one_node, pool.slices, not pool.problem, dict(pool.tainted))
            for pool in self._index.pools.values()
            if pool.key[0] == driver
        ]

    def free_counters(self) -> Mapping[PoolKey, tuple[int, ...]]:
        """The free counters of every pool that has counters (nanos, in the pool's order)."""
        return self._index.free_counters()
