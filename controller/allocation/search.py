"""The search for devices: depth first, first fit, in the order kube-scheduler's allocator tries them.

Skipping never changes which solution is found first, because only branches that cannot succeed are skipped:

- a device like one that has failed at the same point (same selectors matched, same attributes in constraints, same
  counters and remaining capacity) would fail in the same way;
- a request that needs more devices than are left, or more of one value of its matchAttribute, fails at once;
- a state in which the remaining requests have failed before, up to exchanging such devices, fails again.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller.allocation.amounts import Amounts
from controller.allocation.constraints import Tracker, values_of
from controller.allocation.demand import RESULTS_LIMIT, Choice, Demand
from controller.allocation.pools import Pool, Unit
from controller.selectors import SelectorFault
from driver.model import Claim

STEP_LIMIT: Final = 20_000
"""Devices tried before a search gives up; far above what any satisfiable request of a real node needs."""
_MEMORY: Final = 10_000


class SearchEnded(Exception):
    """The step budget is spent: neither a solution nor a proof that there is none."""


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
class Option:
    """A choice with its candidates in order; ``wanted`` is how many of them it takes."""

    choice: Choice
    candidates: tuple[Candidate, ...]
    wanted: int


@dataclass(frozen=True, slots=True)
class Task:
    """A demand with its options. Options that cannot be satisfied alone have been left out."""

    demand: Demand
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Pick:
    """A device chosen for a request."""

    claim: int
    choice: Choice
    candidate: Candidate


@dataclass(slots=True)
class Held:
    """What this search has put on a device."""

    whole: bool = False
    shares: int = 0
    consumed: dict[str, int] = field(default_factory=dict)
    claims: dict[int, int] = field(default_factory=dict)
    """Results on it by claim, those with admin access too: no claim gets a device twice, but as shares."""

    @property
    def consuming(self) -> bool:
        """Whether it is in use by more than admin access."""
        return self.whole or self.shares > 0


class Search:
    """One search over the tasks of a pod's claims."""

    def __init__(self, claims: Sequence[Claim], tasks: Sequence[Task], limit: int = STEP_LIMIT):
        self._tasks = tasks
        self._trackers = [[Tracker(constraint) for constraint in claim.spec.constraints] for claim in claims]
        self._taken: dict[Unit, Held] = {}
        self._free: dict[Pool, list[int]] = {}
        self._counts = [0] * len(claims)
        self._left = limit
        self._signatures: dict[Unit, Hashable] = {}
        self._failed: set[Hashable] = set()
        self.picks: list[Pick] = []
        self.deepest = -1
        """The furthest task that could not be satisfied, and per reason how many of its candidates it lost."""
        self.losses: Mapping[str, int] = {}

    @property
    def steps(self) -> int:
        """How many devices may still be tried."""
        return self._left

    def run(self) -> bool:
        """Whether there is a solution; then it is in ``picks``.

        Raises:
            SearchEnded: the step budget is spent.
            FaultyDevice: a selector fails on a device that has to be looked at.
        """
        return self._task(0)

    def _task(self, index: int) -> bool:
        if index == len(self._tasks):
            return True
        task = self._tasks[index]
        state = self._state(index) if self._failed else None
        if state is not None and state in self._failed:
            return False
        for option in task.options:
            if self._counts[task.demand.claim] + option.wanted > RESULTS_LIMIT:
                continue
            if self._choose(index, option, option.candidates, option.wanted, frozenset()):
                return True
        if index and len(self._failed) < _MEMORY:
            self._failed.add(self._state(index))
        return False

    def _state(self, index: int) -> Hashable:
        """What the remaining tasks depend on: devices taken, up to exchanging like ones, and constraints."""
        taken = Counter((self._signature(unit), self._extra(unit)) for unit in self._taken)
        trackers = tuple(tuple(tracker.state for tracker in claim) for claim in self._trackers)
        return index, frozenset(taken.items()), trackers, tuple(self._counts)

    def _choose(
        self, index: int, option: Option, candidates: Sequence[Candidate], left: int, banned: frozenset[Hashable]
    ) -> bool:
        """Choose ``left`` more of ``candidates``, then go on with the next task."""
        if left == 0:
            return self._task(index + 1)
        claim, choice = self._tasks[index].demand.claim, option.choice
        if left > 1 or option.choice.want.mode == "All":
            candidates = self._possible(claim, choice, candidates, left)
        if len(candidates) < left:
            self._note(index, option)
            return False
        tried = False
        for position, candidate in enumerate(candidates):
            if len(candidates) - position < left:
                break
            if candidate.fault is not None:
                raise FaultyDevice(choice, candidate.unit, candidate.fault)
            if self._hindrance(claim, choice, candidate) or (banned and self._like(candidate) in banned):
                continue
            tried = True
            self._step()
            self._put(claim, choice, candidate)
            if self._choose(index, option, candidates[position + 1 :], left - 1, banned):
                return True
            self._take_back(claim, choice)
            banned |= {self._like(candidate)}
        if not tried:
            self._note(index, option)
        return False

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise SearchEnded

    def _possible(self, claim: int, choice: Choice, candidates: Sequence[Candidate], left: int) -> Sequence[Candidate]:
        """The candidates that could be part of ``left`` devices, by what each meets alone and by counting values."""
        rest = [one for one in candidates if one.fault or not self._hindrance(claim, choice, one)]
        for number in choice.constraints:
            tracker = self._trackers[claim][number]
            if tracker.distinct or tracker.fixed or any(one.fault for one in rest):
                continue
            per_unit = [values_of(one.unit.device, tracker.attribute) for one in rest]
            counts = Counter(value for values in per_unit for value in values)
            rest = [
                one
                for one, values in zip(rest, per_unit, strict=True)
                if any(counts[value] >= left for value in values)
            ]
        return rest

    def _hindrance(self, claim: int, choice: Choice, candidate: Candidate) -> str:
        """Why the candidate cannot be taken now, given what this search has taken; "" if it can."""
        unit = candidate.unit
        held = self._taken.get(unit)
        if held is not None and (reason := _conflict(claim, choice, candidate, held)):
            return reason
        if unit.draws and not choice.want.admin_access and not unit.use.holders and not (held and held.consuming):
            free = self._free.get(unit.pool, unit.pool.free)
            if any(free[index] < amount for index, amount in unit.draws):
                return "counters taken by other requests"
        for number in choice.constraints:
            tracker = self._trackers[claim][number]
            if not tracker.admits(unit.device):
                return f"{'distinctAttribute' if tracker.distinct else 'matchAttribute'} {tracker.attribute}"
        return ""

    def _put(self, claim: int, choice: Choice, candidate: Candidate) -> None:
        unit = candidate.unit
        self._counts[claim] += 1
        self.picks.append(Pick(claim, choice, candidate))
        for number in choice.constraints:
            self._trackers[claim][number].add(unit.device)
        held = self._taken.setdefault(unit, Held())
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

    def _take_back(self, claim: int, choice: Choice) -> None:
        candidate = self.picks.pop().candidate
        unit = candidate.unit
        self._counts[claim] -= 1
        for number in choice.constraints:
            self._trackers[claim][number].drop()
        held = self._taken[unit]
        held.claims[claim] -= 1
        if not choice.want.admin_access:
            for name, amount in (candidate.takes or {}).items():
                held.consumed[name] -= amount.nanos
            held.shares -= candidate.takes is not None
            held.whole = False
            if not held.consuming and not unit.use.holders:
                self._draw(unit, 1)
        if not any(held.claims.values()):
            del self._taken[unit]

    def _draw(self, unit: Unit, sign: int) -> None:
        if unit.draws:
            free = self._free.setdefault(unit.pool, list(unit.pool.free))
            for index, amount in unit.draws:
                free[index] += sign * amount

    def _like(self, candidate: Candidate) -> Hashable:
        return self._signature(candidate.unit), self._extra(candidate.unit)

    def _extra(self, unit: Unit) -> Hashable:
        held = self._taken.get(unit)
        if held is None:
            return None
        return held.whole, held.shares, frozenset(held.consumed.items()), frozenset(held.claims.items())

    def _signature(self, unit: Unit) -> Hashable:
        """Equal for devices that any remaining choice could exchange."""
        if not self._signatures:
            self._sign_all()
        return self._signatures[unit]

    def _sign_all(self) -> None:
        parts: dict[Unit, list[Hashable]] = {}
        for number, task in enumerate(self._tasks):
            for position, option in enumerate(task.options):
                for one in option.candidates:
                    takes = None if one.takes is None else frozenset((k, v.nanos) for k, v in one.takes.items())
                    parts.setdefault(one.unit, []).append((number, position, takes, id(one.fault)))
        attributes = {tracker.attribute for claim in self._trackers for tracker in claim}
        for unit, memberships in parts.items():
            values = tuple(values_of(unit.device, name) for name in sorted(attributes))
            shared = _room_left(unit) if unit.device.allow_multiple else None
            busy = bool(unit.use.holders)
            counters = (unit.pool.key, unit.draws) if unit.draws else None
            self._signatures[unit] = (tuple(memberships), values, shared, busy, counters)

    def _note(self, index: int, option: Option) -> None:
        """Remember why the furthest task so far failed."""
        if index <= self.deepest:
            return
        claim = self._tasks[index].demand.claim
        self.deepest = index
        reasons = (self._hindrance(claim, option.choice, one) for one in option.candidates if one.fault is None)
        self.losses = Counter(reason for reason in reasons if reason)


def _conflict(claim: int, choice: Choice, candidate: Candidate, held: Held) -> str:
    """Why a device this search has put something on cannot be taken too; "" if it can."""
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


def _room_left(unit: Unit) -> Hashable:
    used = unit.use.consumed
    return frozenset((name, c.value.nanos - used.get(name, 0)) for name, c in unit.device.capacity.items())
