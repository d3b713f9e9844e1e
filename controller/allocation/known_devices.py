"""Every device of the cluster and what is in use, kept up to date by events."""

from collections.abc import Mapping

from controller.allocation.devices.device_index import DeviceIndex
from controller.allocation.devices.pools import PoolKey
from controller.allocation.devices.usage import DeviceUse, Usage, consuming
from driver.model import Allocation, Claim, DeviceId, Slice, Taint, TaintRule


class KnownDevices:
    """All pools and usage. Events change it and nothing is ever rebuilt.

    Args:
        driver: the name of our driver.
    """

    def __init__(self, driver: str) -> None:
        self._usage = Usage(driver)
        self._index = DeviceIndex(self._usage.uses)
        self._names: dict[str, str] = {}
        """Keys of claims by UID."""
        self._held = 0

    # Events

    def upsert_node(self, name: str, labels: Mapping[str, str]) -> None:
        """A node was added, or its labels changed."""
        self._index.upsert_node(name, labels)

    def remove_node(self, name: str) -> None:
        """A node was deleted. Its pools and what is allocated from them stay known."""
        self._index.remove_node(name)

    def upsert_slice(self, part: Slice) -> None:
        """A ResourceSlice was added or changed."""
        self._index.upsert_slice(part)

    def remove_slice(self, name: str) -> None:
        """A ResourceSlice was deleted. What is allocated from it stays in use."""
        self._index.remove_slice(name)

    def upsert_claim(self, claim: Claim) -> None:
        """A claim was added or changed. What it holds is in use; if it holds nothing, what was assumed for it stays."""
        self._names[claim.uid] = claim.key
        self._index.note(self._usage.write(claim.uid, claim.allocation))

    def remove_claim(self, uid: str) -> None:
        """A claim was deleted, and with it what it held or was assumed to hold."""
        self._names.pop(uid, None)
        self._index.note(self._usage.remove(uid))

    def assume(self, uid: str, allocation: Allocation) -> None:
        """A decision is being written. Its devices are in use until the claim shows it or ``forget`` is called."""
        self._index.note(self._usage.assume(uid, allocation))

    def forget(self, uid: str) -> None:
        """The decision assumed for the claim was not written."""
        self._index.note(self._usage.forget(uid))

    def upsert_taint_rule(self, rule: TaintRule) -> None:
        """A DeviceTaintRule was added or changed."""
        self._index.upsert_taint_rule(rule)

    def remove_taint_rule(self, name: str) -> None:
        """A DeviceTaintRule was deleted."""
        self._index.remove_taint_rule(name)

    def hold(self, claim: Claim, allocation: Allocation) -> str:
        """Count an allocation as in use on trial; returns the UID to ``release`` it. A claim may be held repeatedly."""
        self._held += 1
        uid = f"{claim.uid}#{self._held}"
        self._names[uid] = claim.key
        self.assume(uid, allocation)
        return uid

    def release(self, uid: str) -> None:
        """End a ``hold``."""
        self._names.pop(uid, None)
        self.forget(uid)

    # What is known

    def usage_snapshot(self) -> Mapping[DeviceId, DeviceUse]:
        """What is in use, by device. Equal to that of a new fleet with the same objects."""
        return dict(self._usage.uses)

    def conflicting_claims(self, claim: Claim) -> Mapping[str, str]:
        """The other claims (by key) that together with this one hold more than there is, and of what.

        It costs a look at the devices of the claim. There are none unless two programs allocated.
        """
        found: dict[str, str] = {}
        for result in consuming(claim.allocation):
            for uid, what in self._index.overuse(result.device).items():
                if uid != claim.uid and uid in self._names:
                    found.setdefault(self._names[uid], f"{what} of {result.device}")
        return found

    def taints(self, device: DeviceId) -> tuple[Taint, ...]:
        """The taints of a device, those of DeviceTaintRules included; none if no slice publishes it."""
        found = self._index.device(device)
        return found.taints if found else ()

    def free_counters(self) -> Mapping[PoolKey, tuple[int, ...]]:
        """The free counters of every pool that has counters (nanos, in the pool's order)."""
        return self._index.free_counters()
