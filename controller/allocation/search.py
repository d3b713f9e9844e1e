"""The search for devices: depth first, first fit, in the order kube-scheduler's allocator tries them.

Skipping never changes which solution is found first, because only branches that cannot succeed are skipped:

- a device like one that has failed at the same point (same selectors matched, same attributes in constraints, same
  counters and remaining capacity) would fail in the same way;
- a request that needs more devices than are left, or more of one value of its matchAttribute, fails at once;
- a state in which the remaining requests have failed before, up to exchanging such devices, fails again.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from controller.allocation.attempt import Attempt, Candidate, FaultyDevice, Pick
from controller.allocation.constraints import values_of
from controller.allocation.demand import RESULTS_LIMIT, Choice, Demand
from controller.allocation.pools import Unit
from controller.allocation.search_task import Option, Task
from controller.allocation.symmetry import Symmetry
from driver.model import Claim

STEP_LIMIT: Final = 4_000
"""Devices tried before a search gives up; far above what any satisfiable request of a real node needs."""
_MEMORY: Final = 10_000


class SearchEnded(Exception):
    """The step budget is spent: neither a solution nor a proof that there is none."""


def first_fit(attempt: Attempt, offers: Iterable[tuple[Demand, int, Iterable[Candidate]]]) -> list[Pick] | None:
    """The picks where every device that fits first leads to a solution; None if one would have to be taken back.

    ``offers`` gives, per demand, how many devices its first choice wants and its candidates in order. It is asked for
    a demand when all before it have been put into ``attempt``, which is empty at first.

    Raises:
        FaultyDevice: a selector fails on a device that has to be looked at.
    """
    for demand, wanted, candidates in offers:
        choice = demand.choices[0]
        left = wanted
        if attempt.counts[demand.claim] + wanted > RESULTS_LIMIT:
            return None
        for candidate in candidates:
            if candidate.fault is not None:
                raise FaultyDevice(choice, candidate.unit, candidate.fault)
            if not attempt.hindrance(demand.claim, choice, candidate):
                attempt.put(demand.claim, choice, candidate)
                left -= 1
                if not left:
                    break
        if left:
            return None
    return attempt.picks


class Search:
    """One search over the tasks of a pod's claims."""

    def __init__(self, claims: Sequence[Claim], tasks: Sequence[Task], limit: int = STEP_LIMIT):
        self._tasks = tasks
        self._attempt = Attempt(claims)
        self._limit = limit
        self._symmetry: Symmetry | None = None
        self._failed: set[Hashable] = set()
        self.steps = 0
        """Devices tried so far."""
        self.deepest = -1
        """The furthest task that could not be satisfied; ``losses`` says why, in candidates per reason."""
        self.losses: Mapping[str, int] = {}

    @property
    def picks(self) -> Sequence[Pick]:
        """The devices chosen, once ``run`` has found a solution."""
        return self._attempt.picks

    def run(self) -> bool:
        """Whether there is a solution; then it is in ``picks``.

        Raises:
            SearchEnded: the step budget is spent.
            FaultyDevice: a selector fails on a device that has to be looked at.
        """
        return self._enough_values() and self._task(0)

    def _enough_values(self) -> bool:
        """Whether each distinctAttribute has as many values as devices that need one of their own."""
        for claim, trackers in enumerate(self._attempt.trackers):
            for number, tracker in enumerate(trackers):
                if tracker.distinct and not self._distinct_values(claim, number, tracker.attribute):
                    return False
        return True

    def _distinct_values(self, claim: int, number: int, attribute: str) -> bool:
        needed, values = 0, set[object]()
        for index, task in enumerate(self._tasks):
            options = [option for option in task.options if number in option.choice.constraints]
            if task.demand.claim != claim or len(options) < len(task.options):
                continue
            needed += min(option.wanted for option in options)
            values.update(*(values_of(one.unit.device, attribute) for option in options for one in option.candidates))
            if needed > len(values) and not any(one.fault for option in options for one in option.candidates):
                self.deepest = index
                self.losses = {f"distinctAttribute {attribute}: only {len(values)} values": needed}
        return self.deepest < 0

    def _task(self, index: int) -> bool:
        if index == len(self._tasks):
            return True
        task = self._tasks[index]
        if self._failed and self._state(index) in self._failed:
            return False
        for option in task.options:
            if self._attempt.counts[task.demand.claim] + option.wanted > RESULTS_LIMIT:
                continue
            if self._choose(index, option, option.candidates, option.wanted, frozenset()):
                return True
        if index and len(self._failed) < _MEMORY:
            self._failed.add(self._state(index))
        return False

    def _state(self, index: int) -> Hashable:
        """What the remaining tasks depend on: devices taken, up to exchanging like ones, and constraints."""
        if self._symmetry is None:
            self._symmetry = Symmetry(self._tasks, self._attempt)
        trackers = tuple(tuple(tracker.state for tracker in claim) for claim in self._attempt.trackers)
        return index, self._symmetry.taken(), trackers, tuple(self._attempt.counts)

    def _choose(
        self, index: int, option: Option, candidates: Sequence[Candidate], left: int, banned: frozenset[Hashable]
    ) -> bool:
        """Choose ``left`` more of ``candidates``, then go on with the next task."""
        if left == 0:
            return self._task(index + 1)
        attempt, choice = self._attempt, option.choice
        claim = self._tasks[index].demand.claim
        if left > 1:
            candidates = self._possible(claim, choice, candidates, left)
        tried = False
        for position, candidate in enumerate(candidates):
            if len(candidates) - position < left:
                break
            if candidate.fault is not None:
                raise FaultyDevice(choice, candidate.unit, candidate.fault)
            if attempt.hindrance(claim, choice, candidate) or (banned and self._like(candidate.unit) in banned):
                continue
            tried = True
            self._step()
            attempt.put(claim, choice, candidate)
            if self._choose(index, option, candidates[position + 1 :], left - 1, banned):
                return True
            attempt.take_back()
            banned |= {self._like(candidate.unit)}
        if not tried:
            self._note(index, option)
        return False

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._limit:
            raise SearchEnded

    def _possible(self, claim: int, choice: Choice, candidates: Sequence[Candidate], left: int) -> Sequence[Candidate]:
        """The candidates that could be part of ``left`` devices, by what each meets alone and by counting values."""
        rest = [one for one in candidates if one.fault or not self._attempt.hindrance(claim, choice, one)]
        for number in choice.constraints:
            tracker = self._attempt.trackers[claim][number]
            if any(one.fault for one in rest) or (tracker.fixed and not tracker.distinct):
                continue
            values = [values_of(one.unit.device, tracker.attribute) for one in rest]
            if tracker.distinct:
                rest = rest if len(frozenset[object]().union(*values)) >= left else []
                continue
            counts = Counter(value for some in values for value in some)
            rest = [one for one, some in zip(rest, values, strict=True) if any(counts[value] >= left for value in some)]
        return rest

    def _like(self, unit: Unit) -> Hashable:
        if self._symmetry is None:
            self._symmetry = Symmetry(self._tasks, self._attempt)
        return self._symmetry.like(unit)

    def _note(self, index: int, option: Option) -> None:
        """Remember why the furthest task so far failed."""
        if index <= self.deepest:
            return
        claim = self._tasks[index].demand.claim
        self.deepest = index
        sound = (one for one in option.candidates if one.fault is None)
        reasons = (self._attempt.hindrance(claim, option.choice, one) for one in sound)
        self.losses = Counter(reason for reason in reasons if reason)
