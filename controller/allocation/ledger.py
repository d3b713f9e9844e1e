"""All devices of the cluster and what is in use of them, kept up to date by events.

What is in use
    The use of a device is the sum of the allocations that count: for each claim the one in the API or, until that is
    written, the one that was decided (``assume``). What is free is not stored a second time. It follows from the use:

    - A **whole device** has one holder, and nobody else gets it.
    - A **share** is one of several holders of a device that allows multiple allocations. It consumes capacities of the
      device, and these add up. All shares of a card of ours are shared in the same way (``DeviceUse.excludes``).
    - A **partition** draws on a part of the counters of its card. Every device that has counters draws on them once,
      from its first holder to its last, however many shares there are.
    - Access for monitoring (``adminAccess``) uses nothing.

    Each pool keeps its devices in use (``used``), those that are in use as a whole (``exhausted``), and the free amount
    of each counter. A device is **available** if it is not exhausted and either in use, for it has drawn its counters
    then, or able to draw what it needs. How much capacity is left of a device is compared when a request asks for it.

An example
    A card has four slices. Its devices are ``whole``, which draws on 4, ``half-0`` and ``half-1``, which draw on 2
    each, and ``share``, which draws on 4 and has 40 Gi of memory for shares.

        =============================  ====  ======  =========  ==============================  ======
        event                          free  used    exhausted  available                       memory
        =============================  ====  ======  =========  ==============================  ======
        nothing is in use              4     -       -          whole, half-0, half-1, share    40
        a has half-0                   2     half-0  half-0     half-1                          40
        a ends, b has 10 Gi of share   0     share   -          share                           30
        c has 30 Gi of share           0     share   -          share                           0
        b ends                         0     share   -          share                           10
        c ends                         4     -       -          whole, half-0, half-1, share    40
        =============================  ====  ======  =========  ==============================  ======

    ``tests/unit/controller/allocation/test_ledger.py`` plays this. If two programs allocate, more may be in use than
    there is: counters are below 0 then, and ``conflicting_claims`` names the claims.

How much of a card that is
    So that devices of all kinds can be added up, each use is a part of a card, too (``card_parts``). In the example,
    half-0 is half a card, and 10 Gi of share are a quarter.

Trials
    A change on trial is undone in reverse order. Then everything is as before, versions included, so that what was
    learnt before is still known, and what was learnt meanwhile is not (``tests/unit/controller/test_cluster.py``).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from controller.allocation.devices.device_index import DeviceIndex, Versions
from controller.allocation.devices.layout import NO_GROUP, bits
from controller.allocation.devices.pools import PoolDevice, PoolKey, PublishedPool
from controller.allocation.devices.usage import DeviceUse, Usage, UsageChanges, UseChange, consuming
from controller.allocation.rules import untolerated
from driver.model import Allocation, Claim, Device, DeviceId, NodeScope, Result, Slice, Taint, TaintRule, Toleration
from driver.names import Names

CARD: Final = 5_040_000
"""A whole card. Sevenths, eighths, ninths and hundredths of a card are whole numbers, so that parts add up exactly."""
Card = tuple[PoolKey, int | str]
"""Devices that draw on the same counters are one card, and so is a device without counters."""
_SHARED: Final = ("memory", "cores")
"""Capacities of a shareable device that tell how much of its card a share takes."""
_SLOTS: Final = ("slots",)
_SIZES: Final = ("memory-slice", "aicore")
"""Counters that tell how large a partition is, if its card has them: a MIG partition has memory slices, each a counter
of its own, and a vNPU has cores."""
_NUMBER: Final = re.compile(r"-\d+$")


class DeviceLedger:
    """All pools and what is in use of them. Events change it; nothing is ever rebuilt.

    Attributes:
        index: the pools with their devices, and the nodes that reach them.
        usage: the use of each device.
        claim_keys: ``namespace/name`` of claims by UID.

    Args:
        names: of our driver.
    """

    def __init__(self, names: Names) -> None:
        self.usage = Usage(names)
        self.index = DeviceIndex(self.usage.uses)
        self.claim_keys: dict[str, str] = {}
        self._trials: list[tuple[UseChange, UsageChanges, Versions]] = []
        """The changes on trial that are not undone yet."""

    # Events

    def upsert_node(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a node, or replace its labels."""
        self.index.upsert_node(name, labels)

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pools and their usage stay known."""
        self.index.remove_node(name)

    def upsert_slice(self, part: Slice) -> None:
        """Add or replace a ResourceSlice."""
        self.index.upsert_slice(part)

    def remove_slice(self, name: str) -> None:
        """Remove a ResourceSlice. Its devices stay in use."""
        self.index.remove_slice(name)

    def upsert_claim(self, claim: Claim) -> None:
        """Add or replace a claim. Its allocation is in use; if it has none, an assumed one still counts."""
        self.claim_keys[claim.uid] = claim.key
        self.index.change_use(self.usage.write(claim.uid, claim.allocation))

    def remove_claim(self, uid: str) -> None:
        """Remove a claim, with its allocation or the assumed one."""
        self.claim_keys.pop(uid, None)
        self.index.change_use(self.usage.remove(uid))

    def assume(self, uid: str, allocation: Allocation) -> None:
        """Count an allocation that is being written, until the claim shows it or ``forget`` is called."""
        self.index.change_use(self.usage.assume(uid, allocation))

    def forget(self, uid: str) -> None:
        """Stop counting the allocation that was assumed for the claim: it was not written."""
        self.index.change_use(self.usage.forget(uid))

    def upsert_taint_rule(self, rule: TaintRule) -> None:
        """Add or replace a DeviceTaintRule."""
        self.index.upsert_taint_rule(rule)

    def remove_taint_rule(self, name: str) -> None:
        """Remove a DeviceTaintRule."""
        self.index.remove_taint_rule(name)

    # Changes on trial (``controller.cluster.WhatIf``)

    def counted(self, uid: str) -> Allocation | None:
        """The allocation that counts for a holder of devices (UID of a claim); None if none does."""
        return self.usage.counted(uid)

    def apply(self, change: UseChange) -> None:
        """Make a change on trial. Until it is undone, no event may come."""
        changes = self.usage.apply(change)
        self._trials.append((change, changes, self.index.apply(changes)))

    def revert(self, change: UseChange) -> None:
        """Undo a change on trial: the last one. All versions are as before, so answers from before count again."""
        last, changes, versions = self._trials.pop()
        assert last is change, "changes on trial are undone in reverse order"
        self.usage.revert(change, changes)
        self.index.revert(changes, versions)

    def copy_nodes(self, to: "DeviceLedger", copies: Mapping[str, str]) -> None:
        """Add copies of nodes to other devices: by name of the node, the name of its copy.

        They have the pools of the one node. Taint rules that name a pool or a device are left out. The nodes themselves
        are not added: their labels are for ``upsert_node``.
        """
        for rule in self.index.taint_rules:
            if not rule.pool and not rule.device:
                to.upsert_taint_rule(rule)
        for node, copy in copies.items():
            for part in self.index.slices_of(node):
                to.upsert_slice(replace(part, scope=NodeScope(copy)))

    # What is known

    def usage_snapshot(self) -> Mapping[DeviceId, DeviceUse]:
        """The use of each device. A new fleet with the same objects has the same."""
        return dict(self.usage.uses)

    def conflicting_claims(self, claim: Claim) -> Mapping[str, str]:
        """The claims (by key) that together with this one overuse a device, and what they overuse.

        There are none unless two programs allocated, or something is kept for others (``assume`` under a name that is
        no claim's). It looks at each device of the claim.
        """
        found: dict[str, str] = {}
        for result in consuming(claim.allocation):
            for uid, what in self._overuse(result.device).items():
                if uid != claim.uid and uid in self.claim_keys:
                    found.setdefault(self.claim_keys[uid], f"{what} of {result.device}")
        return found

    def _overuse(self, device: DeviceId) -> Mapping[str, str]:
        use = self.usage.uses.get(device)
        return {} if use is None else overuse(use, self.index.device(device))

    def card_parts(self, allocation: Allocation) -> Mapping[Card, int]:
        """The cards that the allocation takes, and how much of each, in parts of ``CARD``; admin access takes none."""
        found: dict[Card, int] = {}
        for result in consuming(allocation):
            device = self.index.device(result.device)
            card = _card_of(device, result)
            found[card] = found.get(card, 0) + _card_part(device, result)
        return found

    def has_only_shares(self, device: DeviceId) -> bool:
        """Whether nothing of the device's card is in use but shares of the device, if anything is."""
        found = self.index.device(device)
        if found is None or found.use.exclusive:
            return False
        layout, group = found.pool.layout, found.pool.layout.groups[found.index]
        return group == NO_GROUP or not layout.members[group] & found.pool.used & ~(1 << found.index)

    def shared_beside(self, device: DeviceId) -> Sequence[DeviceId]:
        """The other devices of the device's card of which claims hold shares."""
        found = self.index.device(device)
        if found is None:
            return ()
        layout, group = found.pool.layout, found.pool.layout.groups[found.index]
        if group == NO_GROUP:
            return ()
        others = layout.members[group] & found.pool.shared & ~(1 << found.index)
        return [one.id for one in found.pool.devices if others >> one.index & 1]

    def taints(self, device: DeviceId) -> tuple[Taint, ...]:
        """The taints of a device, those of DeviceTaintRules included; none if no slice publishes it."""
        found = self.index.device(device)
        return found.taints if found else ()

    def untolerated(self, device: DeviceId, tolerations: tuple[Toleration, ...]) -> Taint | None:
        """The taint that keeps the device from a request with these tolerations; None if there is none."""
        return untolerated(self.taints(device), tolerations)

    def is_whole(self, device: DeviceId) -> bool:
        """Whether all slices of the device's pool are there: only then, one that none of them has is gone for good."""
        pool = self.index.pool_of(device)
        return pool is not None and not pool.incomplete

    def published_device(self, device: DeviceId) -> Device | None:
        """The device as it is published; None if no slice publishes it."""
        found = self.index.device(device)
        return found.spec if found else None

    def published_and_part(self, result: Result) -> tuple[Device | None, int]:
        """The device of a result as it is published, and how much of its card it takes, in parts of ``CARD``."""
        found = self.index.device(result.device)
        return (found.spec if found else None), _card_part(found, result)

    def published_pools(self, driver: str) -> Sequence[PublishedPool]:
        """All pools of the driver as they are now, for other threads."""
        self.index.settle()
        return [
            PublishedPool(pool.key[1], pool.one_node, pool.slices, not pool.problem, dict(pool.tainted))
            for pool in self.index.pools.values()
            if pool.key[0] == driver
        ]

    def free_counters(self) -> Mapping[PoolKey, tuple[int, ...]]:
        """The free counters of every pool that has counters (nanos, in the pool's order)."""
        return self.index.free_counters()


def overuse(use: DeviceUse, device: PoolDevice | None) -> Mapping[str, str]:
    """The claims (by UID) that together overuse a device, and what they overuse; empty if there are none.

    Args:
        use: the use of the device.
        device: None if no slice publishes it (any more); then its capacities and counters are not known.
    """
    if use.exclusive + bool(use.shares) > 1 or (use.shares > 1 and device and not device.spec.allow_multiple):
        return dict.fromkeys(use.holders, "the device")
    if device is None or device.pool.problem:
        return {}
    found: dict[str, str] = {}
    for name, amount in use.consumed.items():
        capacity = device.spec.capacity.get(name)
        if capacity is not None and amount > capacity.value.nanos:
            found |= dict.fromkeys(use.holders, f"capacity {name}")
    for index, drawn in device.draws:
        if drawn and device.pool.free[index] < 0:
            found |= dict.fromkeys(_drawing_on(device, index), f"counter {device.pool.counters[index]}")
    return found


def _drawing_on(device: PoolDevice, index: int) -> Iterable[str]:
    pool = device.pool
    for number in bits(pool.layout.members[pool.layout.groups[device.index]] & pool.used):
        other = pool.devices[number]
        if any(drawn and at == index for at, drawn in other.draws):
            yield from other.use.holders


def _card_of(device: PoolDevice | None, result: Result) -> Card:
    """The card of an allocated device."""
    name = result.device
    group = NO_GROUP if device is None else device.pool.layout.groups[device.index]
    return (name.driver, name.pool), name.device if group == NO_GROUP else group


def _card_part(device: PoolDevice | None, result: Result) -> int:
    """The part of a card that the result takes: of ``CARD``, rounded to the nearest number.

    A share takes the larger one of its parts of memory and cores, or if it has neither, as of a device plugin that says
    nothing of memory, its part of the slots; a partition, its part of the memory slices (MIG) or cores (vNPU), or of a
    card that has neither, the largest of its parts of the counters. Any other device is a whole card. One that no slice
    publishes any more is taken for one, too.
    """
    if device is None:
        return CARD
    if result.share_id:
        amounts = _consumed(device, result, _SHARED) or _consumed(device, result, _SLOTS)
    else:
        amounts = _drawn(device)
    parts = [_part(amount, total) for amount, total in amounts if amount > 0]
    return max(parts) if parts else CARD


def _drawn(device: PoolDevice) -> list[tuple[int, int]]:
    """How much the partition draws of each counter of its card, and how much there is; of its size alone, if it can.

    Counters that differ by a number at the end, as slices of memory do, are one.
    """
    pool, drawn, total = device.pool, dict[str, int](), dict[str, int]()
    sets = {pool.counters[index].counter_set for index, _ in device.draws}
    for index, counter in enumerate(pool.counters):
        if counter.counter_set in sets:
            name = _NUMBER.sub("", counter.counter)
            total[name] = total.get(name, 0) + pool.total[index]
    for index, amount in device.draws:
        name = _NUMBER.sub("", pool.counters[index].counter)
        drawn[name] = drawn.get(name, 0) + amount
    names = [name for name in _SIZES if drawn.get(name)][:1] or [*drawn]
    return [(drawn[name], total[name]) for name in names]


def _consumed(device: PoolDevice, result: Result, names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Of these capacities that the share takes something of, how much, and how much the device has."""
    capacity = device.spec.capacity
    return [
        (amount.nanos, capacity[name].value.nanos)
        for name, amount in result.consumed.items()
        if name.rpartition("/")[2] in names and name in capacity and amount.nanos > 0
    ]


def _part(amount: int, total: int) -> int:
    return CARD if amount >= total else (2 * amount * CARD + total) // (2 * total)
