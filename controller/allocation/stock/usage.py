"""What is in use: the sum over the allocations of all live claims, and over decisions whose writes are in flight."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from driver.model import Allocation, DeviceId, Result


@dataclass(frozen=True, slots=True)
class Use:
    """What holds one device: how many exclusive allocations and shares, what they consume (nanos), and whose."""

    exclusive: int = 0
    shares: int = 0
    consumed: Mapping[str, int] = field(default_factory=dict)
    holders: Mapping[str, int] = field(default_factory=dict)
    """Claim UID to the number of its results on the device."""


IDLE: Final = Use()


def only_more(before: Use, after: Use) -> bool:
    """Whether a change of use can only have taken from what the device had to give."""
    if after.exclusive < before.exclusive or after.shares < before.shares:
        return False
    if any(after.consumed.get(name, 0) < amount for name, amount in before.consumed.items()):
        return False
    return all(amount >= 0 for amount in after.consumed.values())


Changes = Sequence[tuple[DeviceId, Use, Use]]
"""Devices whose use changed, one change after the other: the use before and after."""


class Ledger:
    """Uses by device. A claim counts with its allocation, or with the one assumed for it."""

    def __init__(self) -> None:
        self.uses: dict[DeviceId, Use] = {}
        self._written: dict[str, Allocation] = {}
        self._assumed: dict[str, Allocation] = {}

    def counted(self, uid: str) -> Allocation | None:
        """The allocation that counts for the claim."""
        return self._written.get(uid) or self._assumed.get(uid)

    def write(self, uid: str, allocation: Allocation | None) -> Changes:
        """The claim's allocation as the API has it; it ends what was assumed, if any. Returns what it changed."""
        before = self.counted(uid)
        if allocation is None:
            self._written.pop(uid, None)
        else:
            self._written[uid] = allocation
            self._assumed.pop(uid, None)
        return self._exchange(uid, before)

    def assume(self, uid: str, allocation: Allocation) -> Changes:
        """A decision whose write is not confirmed. Returns what it changed."""
        before = self.counted(uid)
        self._assumed[uid] = allocation
        return self._exchange(uid, before)

    def forget(self, uid: str) -> Changes:
        """The assumed decision was not written. Returns what it changed."""
        before = self.counted(uid)
        self._assumed.pop(uid, None)
        return self._exchange(uid, before)

    def remove(self, uid: str) -> Changes:
        """The claim is gone. Returns what it changed."""
        before = self.counted(uid)
        self._written.pop(uid, None)
        self._assumed.pop(uid, None)
        return self._exchange(uid, before)

    def _exchange(self, uid: str, before: Allocation | None) -> Changes:
        after = self.counted(uid)
        if before is after or (before is not None and after is not None and before.results == after.results):
            return ()
        signed = [(result, sign) for one, sign in ((before, -1), (after, 1)) for result in held(one)]
        return [(result.device, *self._count(uid, result, sign)) for result, sign in signed]

    def _count(self, uid: str, result: Result, sign: int) -> tuple[Use, Use]:
        """The device's use before and after."""
        use = self.uses.get(result.device, IDLE)
        holders = _plus(use.holders, {uid: 1}, sign)
        if not holders:
            del self.uses[result.device]
            return use, IDLE
        share = bool(result.share_id)
        amounts = {name: amount.nanos for name, amount in result.consumed.items()} if share else {}
        after = self.uses[result.device] = Use(
            use.exclusive + (0 if share else sign),
            use.shares + (sign if share else 0),
            _plus(use.consumed, amounts, sign),
            holders,
        )
        return use, after


def held(allocation: Allocation | None) -> Iterable[Result]:
    """The results that take something: admin access does not."""
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
