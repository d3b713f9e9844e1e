"""One attempt to place claims: what it has put on devices so far, what that leaves, and taking it back."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.allocation.requests.demand import Choice
from controller.allocation.search.constraints import Tracker
from controller.allocation.stock.amounts import Amounts
from controller.allocation.stock.compatibility import go_together, groups_of
from controller.allocation.stock.layout import bits
from controller.allocation.stock.pools import Pool, Unit
from controller.selectors import SelectorFault
from driver.model import Claim

MOST_SHARES: Final = 1 << 20
"""Stands for any number of shares of a device that has no capacity they would use up."""


class FaultyDevice(Exception):
    """A device was visited on which a selector fails."""

    def __init__(self, choice: Choice, unit: Unit, fault: SelectorFault):
        self.choice = choice
        self.unit = unit
        self.fault = fault
        super().__init__(str(fault))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device one choice may take: what it would consume, or the fault of its selectors."""

    unit: Unit
    takes: Amounts | None = None
    """Per capacity, for a share; None where the device is taken whole."""
    fault: SelectorFault | None = None


@dataclass(frozen=True, slots=True)
class Pick:
    """A device chosen for a request."""

    claim: int
    choice: Choice
    candidate: Candidate


@dataclass(slots=True)
class Held:
    """What an attempt has put on a device."""

    whole: bool = False
    shares: int = 0
    consumed: dict[str, int] = field(default_factory=dict)
    claims: dict[int, int] = field(default_factory=dict)
    """Results on it by claim, those with admin access too: no claim gets a device twice, but as shares."""

    @property
    def consuming(self) -> bool:
        """Whether it is in use by more than admin access."""
        return self.whole or self.shares > 0


class Attempt:
    """Devices picked for the claims of a pod, on top of what is in use; ``put`` and ``take_back`` nest."""

    def __init__(self, claims: Sequence[Claim]):
        self.trackers = [[Tracker(constraint) for constraint in claim.spec.constraints] for claim in claims]
        self.held: dict[Unit, Held] = {}
        self.counts = [0] * len(claims)
        """Devices per claim."""
        self.picks: list[Pick] = []
        self._free: dict[Pool, list[int]] = {}

    def hindrance(self, claim: int, choice: Choice, candidate: Candidate) -> str:
        """Why the candidate cannot be picked now, given what this attempt has picked; "" if it can."""
        unit = candidate.unit
        held = self.held.get(unit)
        if held is not None and (reason := _conflict(claim, choice, candidate, held)):
            return reason
        drawing = not choice.want.admin_access and not unit.use.holders and not (held and held.consuming)
        if drawing and self._lacks(unit):
            return "counters taken by other requests"
        if drawing and unit.pool.grouped and not self._mixes(unit):
            return "of other compatibilityGroups than devices in use"
        for number in choice.constraints:
            tracker = self.trackers[claim][number]
            if not tracker.admits(unit.device):
                return f"{'distinctAttribute' if tracker.distinct else 'matchAttribute'} {tracker.attribute}"
        return ""

    def passes_over(self, claim: int, choice: Choice, unit: Unit) -> bool:
        """Whether the unit is not looked at, since this attempt has it in use: its selectors cannot fail then."""
        held = self.held.get(unit)
        if held is None or unit.device.allow_multiple or choice.want.mode != "ExactCount":
            return False
        return bool(held.claims.get(claim)) or (held.whole and not choice.want.admin_access)

    def remaining(self, unit: Unit, capacity: str) -> int:
        """What is left of a capacity of a shareable device (nanos)."""
        held = self.held.get(unit)
        taken = unit.use.consumed.get(capacity, 0) + (held.consumed.get(capacity, 0) if held else 0)
        return unit.device.capacity[capacity].value.nanos - taken

    def shares(self, unit: Unit, takes: Amounts | None) -> int:
        """How often the unit could be picked now without admin access, as far as it goes: 0 or 1 if taken whole."""
        held = self.held.get(unit)
        begun = held is not None and held.consuming
        if begun and (takes is None or (held is not None and held.whole)):
            return 0
        if not begun and not unit.use.holders and (self._lacks(unit) or not self._mixes(unit)):
            return 0
        if takes is None:
            return 1
        fits = [self.remaining(unit, name) // amount.nanos for name, amount in takes.items() if amount.nanos > 0]
        return max(0, min(fits, default=MOST_SHARES))

    def put(self, claim: int, choice: Choice, candidate: Candidate) -> None:
        """Pick the candidate, which nothing hinders."""
        unit = candidate.unit
        self.counts[claim] += 1
        self.picks.append(Pick(claim, choice, candidate))
        for number in choice.constraints:
            self.trackers[claim][number].add(unit.device)
        held = self.held.get(unit)
        if held is None:
            held = self.held[unit] = Held()
        held.claims[claim] = held.claims.get(claim, 0) + 1
        if choice.want.admin_access:
            return
        if not held.consuming and not unit.use.holders:
            self._draw(unit, -1)
        if candidate.takes is None:
            held.whole = True
            return
        held.shares += 1
        for name, amount in candidate.takes.items():
            held.consumed[name] = held.consumed.get(name, 0) + amount.nanos

    def take_back(self) -> None:
        """Undo the last pick."""
        pick = self.picks.pop()
        unit, takes = pick.candidate.unit, pick.candidate.takes
        self.counts[pick.claim] -= 1
        for number in pick.choice.constraints:
            self.trackers[pick.claim][number].drop()
        held = self.held[unit]
        held.claims[pick.claim] -= 1
        if not pick.choice.want.admin_access:
            for name, amount in (takes or {}).items():
                held.consumed[name] -= amount.nanos
            held.shares -= takes is not None
            held.whole = False
            if not held.consuming and not unit.use.holders:
                self._draw(unit, 1)
        if not any(held.claims.values()):
            del self.held[unit]

    def free(self, pool: Pool) -> Sequence[int]:
        """What allocations and this attempt leave of the pool's counters, nanos."""
        return self._free.get(pool, pool.free)

    def consumed(self, unit: Unit) -> Mapping[str, int]:
        """What allocations and this attempt take of a shareable device's capacities, nanos."""
        held = self.held.get(unit)
        if held is None or not held.consumed:
            return unit.use.consumed
        return Counter(unit.use.consumed) + Counter(held.consumed)

    def _lacks(self, unit: Unit) -> bool:
        free = self._free.get(unit.pool, unit.pool.free)
        return any(free[index] < amount for index, amount in unit.draws)

    def _mixes(self, unit: Unit) -> bool:
        """Whether the unit goes with all that are in use on the counter sets it draws on."""
        pool = unit.pool
        sets = [used.counter_set for used in unit.device.consumes if used.counter_set in pool.grouped]
        if not sets:
            return True
        others = [pool.units[index] for index in bits(pool.held)]
        others += [one for one, held in self.held.items() if one.pool is pool and held.consuming]
        for name in sets:
            found = [groups_of(one.device, name) for one in (unit, *others)]
            if not go_together(groups for groups in found if groups is not None):
                return False
        return True

    def _draw(self, unit: Unit, sign: int) -> None:
        if unit.draws:
            free = self._free.get(unit.pool)
            if free is None:
                free = self._free[unit.pool] = list(unit.pool.free)
            for index, amount in unit.draws:
                free[index] += sign * amount

    def on(self, unit: Unit) -> Hashable:
        """What this attempt has put on the unit, as a value."""
        held = self.held.get(unit)
        if held is None:
            return None
        return held.whole, held.shares, frozenset(held.consumed.items()), frozenset(held.claims.items())


def _conflict(claim: int, choice: Choice, candidate: Candidate, held: Held) -> str:
    """Why a device this attempt has put something on cannot be picked too; "" if it can."""
    shared = candidate.takes is not None
    if not shared and held.claims.get(claim):
        return "taken by another request"
    if choice.want.admin_access:
        return ""
    if held.whole or (held.shares and not shared):
        return "taken by another request"
    if candidate.takes is not None and not _room(candidate.unit, held, candidate.takes):
        return "capacity taken by other requests"
    return ""


def _room(unit: Unit, held: Held, takes: Amounts) -> bool:
    used = unit.use.consumed
    return all(
        used.get(name, 0) + held.consumed.get(name, 0) + amount.nanos <= unit.device.capacity[name].value.nanos
        for name, amount in takes.items()
    )
