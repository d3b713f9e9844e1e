"""The search for devices: depth first, in the order in which kube-scheduler's allocator tries them.

Pruning never changes which solution is found first, because only branches that cannot succeed are pruned:

- a branch that needs more devices than are available (``bounds``);
- a device that is interchangeable with one that failed at the same point (``symmetry``);
- a state in which the remaining requests failed before, up to interchangeable devices.

A device on which a selector fails ends the search when it is visited, as in kube-scheduler. So bounds consider only the
requests before the first one that could visit such a device.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from controller.allocation.devices.pools import PoolDevice
from controller.allocation.requests import RESULTS_LIMIT, Demand
from controller.allocation.rules import PodValues
from controller.allocation.search.attempt import (
    NO_CAPACITY,
    Attempt,
    Candidate,
    Option,
    Pick,
    Task,
    fault_on,
)
from controller.allocation.search.bounds import Bounds, RequestProgress
from controller.allocation.search.symmetry import Likeness, Symmetry
from controller.allocation.selectors import OutOfSteps
from driver.model import Claim

STEP_LIMIT: Final = 1_000
"""The most devices that a search tries. The largest of the known hard searches take less than a hundred."""
_CHECKS: Final = 64
"""The requests that bounds may check for each step of the limit, so that hundreds of requests end a search sooner."""
_MOST_FAILED: Final = 10_000
_WORK_PER_STEP: Final = 20
_WORK_PER_CANDIDATE: Final = 3
"""The work of a step, and of each candidate of a request, in the unit of ``Fleet.work``."""


def first_fit(attempt: Attempt, offers: Iterable[tuple[Demand, int, Iterable[Candidate]]]) -> list[Pick] | None:
    """The picks if the first eligible devices are a solution; None if a pick would have to be undone.

    ``offers`` yields, per demand, how many devices its first choice wants and its candidates in order.

    Raises:
        SelectorFault: a selector fails on a device that must be visited.
    """
    for demand, wanted, candidates in offers:
        choice = demand.choices[0]
        left = wanted
        if attempt.counts[demand.claim] + wanted > RESULTS_LIMIT:
            return None
        # Without a look at later requests, the first that fits may be wrong. Then a later request gets too few, and the
        # search decides (``test_the_search_of_the_example_takes_the_steps_that_it_says``).
        for candidate in candidates:
            if candidate.fault is not None:
                if attempt.skips(demand.claim, choice, candidate.device):
                    continue
                raise fault_on(choice, candidate)
            if not attempt.conflict(demand.claim, choice, candidate):
                attempt.pick(demand.claim, choice, candidate)
                left -= 1
                if not left:
                    break
        if left:
            return None
    return attempt.picks if attempt.has_all_values else None


_Tried = tuple[Likeness, set[Hashable]]
"""Devices that failed, with the likeness at that time."""


class _Level:
    """A device to be picked: its task and option, the number left, and the next candidate."""

    __slots__ = ("cells", "closed", "excluded", "index", "likeness", "option", "position", "progress", "tried")

    def __init__(self, index: int, option: Option, progress: RequestProgress, excluded: Sequence[_Tried] = ()):
        self.index = index
        self.option = option
        self.progress = progress
        self.excluded = excluded
        """The failures for earlier devices of the request, each with the likeness at its level."""
        self.position = progress.start
        """The number of the next candidate."""
        self.likeness: Likeness | None = None
        """The interchangeable devices at this level; None until a candidate has failed."""
        self.tried: set[Hashable] = set()
        """The devices that failed here."""
        self.cells: frozenset[int] | None = None
        """The cells that may be picked from; None for any."""
        self.closed = False
        """True if nothing can succeed here."""

    def skips(self, device: PoolDevice) -> bool:
        """True if the device is interchangeable with one that failed here or for an earlier device of the request."""
        if self.likeness is not None and self.likeness.key(device) in self.tried:
            return True
        return any(likeness.key(device) in tried for likeness, tried in self.excluded)


class Search:
    """One search over the tasks of a pod's claims.

    Args:
        limit: the most devices that it tries.
        pod_values: what the values of attributes have to be over all claims of a pod.
    """

    def __init__(
        self,
        claims: Sequence[Claim],
        tasks: Sequence[Task],
        limit: int = STEP_LIMIT,
        pod_values: Sequence[PodValues] = (),
    ):
        self._claims = claims
        self._tasks = tasks
        self._pod_values = pod_values
        self._attempt = Attempt(claims, pod_values)
        self._limit = limit
        self._symmetry = Symmetry(tasks, self._attempt)
        self._bounds = Bounds(tasks, self._attempt, self._symmetry)
        # Beyond it, bounds must not count: they would end a search that must visit the device and fail on it
        # (``test_a_device_on_which_a_selector_fails_counts_exactly_if_it_is_visited``).
        self._sound = next((index for index, task in enumerate(tasks) if any(map(_faulty, task.options))), len(tasks))
        """The first task that could visit a device on which a selector fails."""
        self._live = [_limits(tasks[index:]) for index in range(len(tasks))]
        self._tight = _tight(tasks)
        self._failed: set[Hashable] = set()
        self._checks = 0
        """The number of requests that bounds have checked."""
        self.steps = 0
        """The number of devices tried."""

    @property
    def picks(self) -> Sequence[Pick]:
        """The devices picked, once ``run`` has found a solution."""
        return self._attempt.picks

    @property
    def work(self) -> int:
        """The work so far, in the unit of ``Fleet.work``."""
        candidates = sum(len(option.candidates) for task in self._tasks for option in task.options)
        return self.steps * _WORK_PER_STEP + self._checks + candidates * _WORK_PER_CANDIDATE

    def run(self) -> bool:
        """Find a solution; returns whether there is one, which then is in ``picks``.

        Raises:
            OutOfSteps: the budget of steps is used up.
            SelectorFault: a selector fails on a device that must be visited.
        """
        if not self._tasks:
            return True
        # An explicit stack: a claim may want 32 devices, and several claims more than Python's recursion allows.
        levels = [self._enter(0, 0)]
        while levels:
            level = levels[-1]
            candidate = self._next(level)
            if candidate is not None:
                self._step()
                self._attempt.pick(self._tasks[level.index].demand.claim, level.option.choice, candidate)
                if level.progress.left > 1:
                    levels.append(self._deeper(level))
                elif level.index + 1 < len(self._tasks):
                    levels.append(self._enter(level.index + 1, 0))
                elif self._attempt.has_all_values:
                    return True
                else:
                    # A request got fewer devices than it could have had, so that a value did not come.
                    self._undo(level)
                continue
            levels.pop()
            if (other := self._other(level)) is not None:
                levels.append(other)
            elif levels:
                self._undo(levels[-1])
        return False

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._limit:
            raise OutOfSteps

    def _undo(self, level: _Level) -> None:
        """Undo the pick of the level, because neither it nor any interchangeable device leads to a solution."""
        self._attempt.undo()
        # Most levels never fail, so likeness is found when the first pick has failed. It must be found without that
        # pick, whose device would be like no other; and it holds for all later picks of the level.
        if level.likeness is None:
            level.likeness = self._symmetry.likeness(self._live[level.index])
        level.tried.add(level.likeness.key(level.option.candidates[level.position - 1].device))

    def _next(self, level: _Level) -> Candidate | None:
        """The next candidate that may lead to a solution."""
        if level.closed:
            return None
        claim, option = self._tasks[level.index].demand.claim, level.option
        while level.position < len(option.candidates):
            candidate = option.candidates[level.position]
            level.position += 1
            if candidate.fault is not None:
                if self._attempt.skips(claim, option.choice, candidate.device):
                    continue
                raise fault_on(option.choice, candidate)
            # The bounds that opened the level have ruled out all cells but these.
            if level.cells is not None and self._bounds.cell(candidate.device) not in level.cells:
                continue
            if not self._attempt.conflict(claim, option.choice, candidate) and not level.skips(candidate.device):
                return candidate
        return None

    # Levels

    def _enter(self, index: int, number: int) -> _Level:
        """The first level of a task, with one of its options."""
        option = self._tasks[index].options[number]
        level = _Level(index, option, RequestProgress(number, 0, option.wanted))
        # A state is known to fail once the last option of the request has failed there (``_other``), so only before the
        # first option is it looked up.
        if number == 0 and self._failed and self._state(index) in self._failed:
            level.closed = True
        else:
            self._bound(level)
        return level

    def _deeper(self, level: _Level) -> _Level:
        """The level of the next device of the same request."""
        progress = RequestProgress(level.progress.number, level.position, level.progress.left - 1)
        # The order of a combination does not matter, so a device that failed as an earlier one of the request need not
        # be tried as a later one.
        excluded = level.excluded if level.likeness is None else (*level.excluded, (level.likeness, level.tried))
        deeper = _Level(level.index, level.option, progress, excluded)
        self._bound(deeper)
        return deeper

    def _bound(self, level: _Level) -> None:
        claim = self._tasks[level.index].demand.claim
        # A claim may hold so many devices, and a shorter alternative may still be possible
        # (``test_a_claim_that_cannot_hold_all_of_a_longer_alternative_gets_a_shorter_one``).
        if self._attempt.counts[claim] + level.progress.left > RESULTS_LIMIT:
            level.closed = True
        elif level.index < self._sound:
            # A check looks at all requests that are left, so hundreds of requests make each step as costly as hundreds
            # of steps. The limit counts them, too.
            self._checks += self._sound - level.index
            if self._checks > self._limit * _CHECKS:
                raise OutOfSteps
            level.cells = self._bounds.possible(level.index, self._sound, level.progress)
            level.closed = level.cells is None

    def _other(self, level: _Level) -> _Level | None:
        """The first level of the task with its next option, after one has failed; None if there is no other option."""
        # Not the first device of the request: the device before it has to be another one first.
        if level.progress.left < level.option.wanted:
            return None
        if level.progress.number + 1 < len(self._tasks[level.index].options):
            return self._enter(level.index, level.progress.number + 1)
        if level.index and len(self._failed) < _MOST_FAILED:
            self._failed.add(self._state(level.index))
        return None

    def _state(self, index: int) -> Hashable:
        """The key of the remaining search: devices picked, up to interchangeable ones, and constraints."""
        # How many devices a claim has matters only where it could get too many. Elsewhere, states that differ in this
        # alone are one, and what failed in one of them is not tried in the other.
        counts = tuple(self._attempt.counts[claim] for claim in self._tight)
        values = self._attempt.pod_values.state if self._attempt.pod_values else None
        return index, self._symmetry.likeness(self._live[index]).state, counts, values

    # Reasons

    def loss(self) -> tuple[int, Mapping[str, int]]:
        """The task that the first fit does not satisfy (-1 if none), and the number of its candidates by conflict.

        Must be called before the usage of devices changes.
        """
        attempt = Attempt(self._claims, self._pod_values)
        for index, task in enumerate(self._tasks):
            if not any(_fills(attempt, task.demand.claim, option) for option in task.options):
                claim, option = task.demand.claim, task.options[-1]
                before = len(attempt.picks)
                _fills(attempt, claim, option, keep=True)
                # The picks stay, so that the other candidates are asked as they were when the request got too few.
                own = {pick.candidate.device for pick in attempt.picks[before:]}
                others = (one for one in option.candidates if one.fault is None and one.device not in own)
                reasons = (_conflict(attempt, claim, option, candidate) for candidate in others)
                return index, Counter(reason for reason in reasons if reason)
        return -1, {}


def _conflict(attempt: Attempt, claim: int, option: Option, candidate: Candidate) -> str:
    """The reason why a candidate cannot be picked, with the amounts of a capacity that is taken."""
    reason = attempt.conflict(claim, option.choice, candidate)
    return attempt.beside(candidate.device, candidate.consumes or {}) or reason if reason == NO_CAPACITY else reason


def _fills(attempt: Attempt, claim: int, option: Option, *, keep: bool = False) -> bool:
    """Pick the first candidates that fit; returns whether they are enough. If not, undo all of them unless ``keep``."""
    left = option.wanted
    for candidate in option.candidates:
        if left and candidate.fault is None and not attempt.conflict(claim, option.choice, candidate):
            attempt.pick(claim, option.choice, candidate)
            left -= 1
    for _ in range(option.wanted - left if left and not keep else 0):
        attempt.undo()
    return not left


def _faulty(option: Option) -> bool:
    return any(candidate.fault is not None for candidate in option.candidates)


def _limits(tasks: Sequence[Task]) -> Sequence[tuple[int, int]]:
    """The constraints of any of the tasks."""
    found = {
        (task.demand.claim, number) for task in tasks for option in task.options for number in option.choice.constraints
    }
    return sorted(found)


def _tight(tasks: Sequence[Task]) -> Sequence[int]:
    """The claims that could request more devices than a claim may hold."""
    most: Counter[int] = Counter()
    for task in tasks:
        most[task.demand.claim] += max(option.wanted for option in task.options)
    return [claim for claim, count in most.items() if count > RESULTS_LIMIT]
