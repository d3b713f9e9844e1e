"""The use of each device: the sum over the allocations of all live claims and of decisions that are not written yet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from driver.model import Allocation, DeviceId, Result
from driver.names import Names
from driver.parameters import sharing_of


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of one device: exclusive allocations, shares, the capacity that these consume (nanos), and the claims."""

    exclusive: int = 0
    shares: int = 0
    consumed: Mapping[str, int] = field(default_factory=dict)
    holders: Mapping[str, int] = field(default_factory=dict)
    """Claim UID to the number of its results on the device."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """The number of shares by their sharing (``driver.parameters.sharing_of``); of devices of ours only."""

    def excludes(self, sharing: str) -> str:
        """The sharing in use that excludes this one; "" if none does.

        Shares of one card must agree. Processes outside of MPS cannot use a card of MPS, and a card has one time
        slice.
        """
        return next((other for other in self.sharing if other != sharing), "")


IDLE: Final = DeviceUse()


def only_more(before: DeviceUse, after: DeviceUse) -> bool:
    """True if the change can only have made less of the device available."""
    if after.exclusive < before.exclusive or after.shares < before.shares:
        return False
    if any(after.consumed.get(name, 0) < amount for name, amount in before.consumed.items()):
        return False
    return all(amount >= 0 for amount in after.consumed.values())


UsageChanges = Sequence[tuple[DeviceId, DeviceUse, DeviceUse]]
"""Devices whose use changed, in order: the device, its use before, its use after."""


class UseChange(NamedTuple):
    """A change on trial: an allocation counts for a claim, besides whatever else does; or what did counts no longer.

    Attributes:
        uid: of the claim.
        ends: whether the allocation stops counting.
    """

    uid: str
    allocation: Allocation
    ends: bool = False


class Usage:
    """The use of each device. A claim counts with its allocation or, while it has none, with the assumed one.

    Args:
        names: of the driver whose parameters say how devices are shared.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self.uses: dict[DeviceId, DeviceUse] = {}
        self._written: dict[str, Allocation] = {}
        self._assumed: dict[str, Allocation] = {}
        self._ended: set[str] = set()
        """The claims whose own allocation does not count, on trial."""

    def counted(self, uid: str) -> Allocation | None:
        """The allocation that counts for the claim."""
        return None if uid in self._ended else self._own(uid)

    def _own(self, uid: str) -> Allocation | None:
        return self._written.get(uid) or self._assumed.get(uid)

    def apply(self, change: UseChange) -> UsageChanges:
        """Make a change on trial. Returns the changes of devices, which ``revert`` needs."""
        if change.ends and change.allocation is self._own(change.uid):
            self._ended.add(change.uid)
        return self._add(change.uid, change.allocation, -1 if change.ends else 1)

    def revert(self, change: UseChange, changes: UsageChanges) -> None:
        """Undo the last change on trial that was not undone yet."""
        if change.ends and change.allocation is self._own(change.uid):
            self._ended.discard(change.uid)
        for device, before, _ in reversed(changes):
            if before.holders:
                self.uses[device] = before
            else:
                del self.uses[device]

    def write(self, uid: str, allocation: Allocation | None) -> UsageChanges:
        """Record the claim's allocation in the API. It replaces an assumed one. Returns the changes."""
        before = self.counted(uid)
        if allocation is None:
            self._written.pop(uid, None)
        else:
            self._written[uid] = allocation
            self._assumed.pop(uid, None)
        return self._exchange(uid, before)

    def assume(self, uid: str, allocation: Allocation) -> UsageChanges:
        """Count an allocation that the API does not have yet. Returns the changes."""
        before = self.counted(uid)
        self._assumed[uid] = allocation
        return self._exchange(uid, before)

    def forget(self, uid: str) -> UsageChanges:
        """Stop counting the assumed allocation. Returns the changes."""
        before = self.counted(uid)
        self._assumed.pop(uid, None)
        return self._exchange(uid, before)

    def remove(self, uid: str) -> UsageChanges:
        """Remove a claim. Returns the changes."""
        before = self.counted(uid)
        self._written.pop(uid, None)
        self._assumed.pop(uid, None)
        return self._exchange(uid, before)

    def _exchange(self, uid: str, before: Allocation | None) -> UsageChanges:
        after = self.counted(uid)
        if before is after or (before is not None and after is not None and _is_same(before, after)):
            return ()
        taken = [] if before is None else self._add(uid, before, -1)
        return taken if after is None else [*taken, *self._add(uid, after, 1)]

    def _add(self, uid: str, allocation: Allocation, sign: int) -> list[tuple[DeviceId, DeviceUse, DeviceUse]]:
        return [
            (result.device, *self._count(uid, result, sign, self.sharing(allocation, result)))
            for result in consuming(allocation)
        ]

    def sharing(self, allocation: Allocation, result: Result) -> Mapping[str, int]:
        """How the result shares its device, counted once; nothing if it is no share of ours."""
        if not result.share_id or result.device.driver != self._names.driver:
            return {}
        return {sharing_of(allocation.config, self._names, result.request): 1}

    def _count(self, uid: str, result: Result, sign: int, sharing: Mapping[str, int]) -> tuple[DeviceUse, DeviceUse]:
        """Add the result to the use of its device, or subtract it; returns the use before and after."""
        use = self.uses.get(result.device, IDLE)
        holders = _plus(use.holders, {uid: 1}, sign)
        if not holders:
            del self.uses[result.device]
            return use, IDLE
        share = bool(result.share_id)
        # What was stored below 0 would give others more than the device has.
        amounts = {name: max(0, amount.nanos) for name, amount in result.consumed.items()} if share else {}
        after = self.uses[result.device] = DeviceUse(
            use.exclusive + (0 if share else sign),
            use.shares + (sign if share else 0),
            _plus(use.consumed, amounts, sign),
            holders,
            _plus(use.sharing, sharing, sign),
        )
        return use, after


def _is_same(before: Allocation, after: Allocation) -> bool:
    return before.results == after.results and before.config == after.config


def consuming(allocation: Allocation | None) -> Iterable[Result]:
    """The results that use their device. Admin access does not."""
    return () if allocation is None else (result for result in allocation.results if not result.admin_access)


def _plus(total: Mapping[str, int], change: Mapping[str, int], sign: int) -> dict[str, int]:
    result = dict(total)
    for name, amount in change.items():
        value = result.get(name, 0) + sign * amount
        if value:
            result[name] = value
        else:
            result.pop(name, None)
    return result
