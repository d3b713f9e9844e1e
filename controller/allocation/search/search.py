"""The search for devices: depth first, first fit, in the order kube-scheduler's allocator tries them.

Skipping never changes which solution is found first, because only branches that cannot succeed are skipped:

- where what is left to be found is more than there is (``bounds``);
- a device like one that has failed at the same point (same selectors matched, same attributes in constraints, same
  counters and remaining capacity), which would fail in the same way (``symmetry``);
- a state in which the remaining requests have failed before, up to exchanging such devices.

A device on which a selector fails ends the search when it is visited, as upstream's would. So bounds look only at the
requests before the first that could visit one.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from controller.allocation.requests.demand import RESULTS_LIMIT, Demand
from controller.allocation.search.attempt import Attempt, Candidate, FaultyDevice, Pick
from controller.allocation.search.bounds import Bounds
from controller.allocation.search.needs import Begun
from controller.allocation.search.search_task import Option, Task
from controller.allocation.search.symmetry import Symmetry, View
from controller.allocation.stock.pools import Unit
from driver.model import Claim

STEP_LIMIT: Final = 1_000
"""Devices tried before a search gives up; the largest known hard searches take less than a hundred."""
_LOOKS: Final = 64
"""Requests looked at for each step of the limit: hundreds of requests end a search sooner than a few."""
_MEMORY: Final = 10_000


class SearchEnded(Exception):
    """The step budget is spent: neither a solution nor a proof that there is none."""


def first_fit(attempt: Attempt, offers: Iterable[tuple[Demand, int, Iterable[Candidate]]]) -> list[Pick] | None:
    """The picks where every device that fits first leads to a solution; None if one would have to be taken back.

    ``offers`` gives, per demand, how many devices its first choice wants and its candidates in order.

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
                if attempt.passes_over(demand.claim, choice, candidate.unit):
                    continue
                raise FaultyDevice(choice, candidate.unit, candidate.fault)
            if not attempt.hindrance(demand.claim, choice, candidate):
                attempt.put(demand.claim, choice, candidate)
                left -= 1
                if not left:
                    break
        if left:
            return None
    return attempt.picks


class _Level:
    """A device to be chosen: for which task and option, how many are left with it, and from which position on."""

    __slots__ = ("begun", "cells", "closed", "excluded", "index", "option", "position", "tried", "view")

    def __init__(self, index: int, option: Option, begun: Begun, excluded: Sequence[tuple[View, set[Hashable]]] = ()):
        self.index = index
        self.option = option
        self.begun = begun
        self.excluded = excluded
        """What failed for earlier devices of the request, as those levels saw it."""
        self.position = begun.start
        """Of the next candidate."""
        self.view: View | None = None
        """Likeness here; None until a candidate has failed."""
        self.tried: set[Hashable] = set()
        """What failed here, up to likeness."""
        self.cells: frozenset[int] | None = None
        """Where devices may come from; None for anywhere."""
        self.closed = False
        """Whether it is known that nothing can succeed here."""

    def skips(self, unit: Unit) -> bool:
        """Whether the device is like one that failed here or for an earlier device of the request."""
        if self.view is not None and self.view.like(unit) in self.tried:
            return True
        return any(view.like(unit) in tried for view, tried in self.excluded)


class Search:
    """One search over the tasks of a pod's claims."""

    def __init__(self, claims: Sequence[Claim], tasks: Sequence[Task], limit: int = STEP_LIMIT):
        self._claims = claims
        self._tasks = tasks
        self._attempt = Attempt(claims)
        self._limit = limit
        self._symmetry = Symmetry(tasks, self._attempt)
        self._bounds = Bounds(tasks, self._attempt, self._symmetry)
        self._sound = next((index for index, task in enumerate(tasks) if any(map(_faulty, task.options))), len(tasks))
        """Tasks before this one visit no device on which a selector fails."""
        self._live = [_limits(tasks[index:]) for index in range(len(tasks))]
        self._tight = _tight(tasks)
        self._failed: set[Hashable] = set()
        self._looks = 0
        """Requests that bounds have looked at so far."""
        self.steps = 0
        """Devices tried so far."""

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
        if not self._tasks:
            return True
        levels = [self._enter(0, 0)]
        while levels:
            level = levels[-1]
            candidate = self._next(level)
            if candidate is not None:
                self._step()
                self._attempt.put(self._tasks[level.index].demand.claim, level.option.choice, candidate)
                if level.begun.left > 1:
                    levels.append(self._deeper(level))
                elif level.index + 1 < len(self._tasks):
                    levels.append(self._enter(level.index + 1, 0))
                else:
                    return True
                continue
            levels.pop()
            if (other := self._other(level)) is not None:
                levels.append(other)
            elif levels:
                self._take_back(levels[-1])
        return False

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._limit:
            raise SearchEnded

    def _take_back(self, level: _Level) -> None:
        """Undo the pick made at the level: neither it nor any like it leads to a solution."""
        self._attempt.take_back()
        if level.view is None:
            level.view = self._symmetry.view(self._live[level.index])
        level.tried.add(level.view.like(level.option.candidates[level.position - 1].unit))

    def _next(self, level: _Level) -> Candidate | None:
        """The next candidate that may lead to a solution."""
        if level.closed:
            return None
        claim, option = self._tasks[level.index].demand.claim, level.option
        while level.position < len(option.candidates):
            candidate = option.candidates[level.position]
            level.position += 1
            if candidate.fault is not None:
                if self._attempt.passes_over(claim, option.choice, candidate.unit):
                    continue
                raise FaultyDevice(option.choice, candidate.unit, candidate.fault)
            if level.cells is not None and self._bounds.cell(candidate.unit) not in level.cells:
                continue
            if not self._attempt.hindrance(claim, option.choice, candidate) and not level.skips(candidate.unit):
                return candidate
        return None

    # Levels

    def _enter(self, index: int, number: int) -> _Level:
        """The first level of a task with one of its options."""
        option = self._tasks[index].options[number]
        level = _Level(index, option, Begun(number, 0, option.wanted))
        if number == 0 and self._failed and self._state(index) in self._failed:
            level.closed = True
        else:
            self._bound(level)
        return level

    def _deeper(self, level: _Level) -> _Level:
        """The level of one more device for the same request."""
        begun = Begun(level.begun.number, level.position, level.begun.left - 1)
        excluded = level.excluded if level.view is None else (*level.excluded, (level.view, level.tried))
        deeper = _Level(level.index, level.option, begun, excluded)
        self._bound(deeper)
        return deeper

    def _bound(self, level: _Level) -> None:
        claim = self._tasks[level.index].demand.claim
        if self._attempt.counts[claim] + level.begun.left > RESULTS_LIMIT:
            level.closed = True
        elif level.index < self._sound:
            self._looks += self._sound - level.index
            if self._looks > self._limit * _LOOKS:
                raise SearchEnded
            level.cells = self._bounds.possible(level.index, self._sound, level.begun)
            level.closed = level.cells is None

    def _other(self, level: _Level) -> _Level | None:
        """The first level of the next option of the task, once one has failed; None if there is no other."""
        if level.begun.left < level.option.wanted:
            return None
        if level.begun.number + 1 < len(self._tasks[level.index].options):
            return self._enter(level.index, level.begun.number + 1)
        if level.index and len(self._failed) < _MEMORY:
            self._failed.add(self._state(level.index))
        return None

    def _state(self, index: int) -> Hashable:
        """What the remaining tasks depend on: devices taken, up to exchanging like ones, and constraints."""
        counts = tuple(self._attempt.counts[claim] for claim in self._tight)
        return index, self._symmetry.view(self._live[index]).state, counts

    # Reasons

    def loss(self) -> tuple[int, Mapping[str, int]]:
        """The task that first fit does not satisfy, and what takes its devices, in candidates per reason; -1 if none.

        To be asked while what is in use is what the search has seen.
        """
        attempt = Attempt(self._claims)
        for index, task in enumerate(self._tasks):
            if not any(_fills(attempt, task.demand.claim, option) for option in task.options):
                claim, option = task.demand.claim, task.options[-1]
                before = len(attempt.picks)
                _fills(attempt, claim, option, keep=True)
                own = {pick.candidate.unit for pick in attempt.picks[before:]}
                sound = (one for one in option.candidates if one.fault is None and one.unit not in own)
                reasons = (attempt.hindrance(claim, option.choice, one) for one in sound)
                return index, Counter(reason for reason in reasons if reason)
        return -1, {}


def _fills(attempt: Attempt, claim: int, option: Option, *, keep: bool = False) -> bool:
    """Pick what fits first for the option; whether that is enough. If not, all of it is taken back, unless kept."""
    left = option.wanted
    for candidate in option.candidates:
        if left and candidate.fault is None and not attempt.hindrance(claim, option.choice, candidate):
            attempt.put(claim, option.choice, candidate)
            left -= 1
    for _ in range(option.wanted - left if left and not keep else 0):
        attempt.take_back()
    return not left


def _faulty(option: Option) -> bool:
    return any(candidate.fault is not None for candidate in option.candidates)


def _limits(tasks: Sequence[Task]) -> Sequence[tuple[int, int]]:
    """The constraints that any of the tasks takes part in."""
    found = {
        (task.demand.claim, number) for task in tasks for option in task.options for number in option.choice.constraints
    }
    return sorted(found)


def _tight(tasks: Sequence[Task]) -> Sequence[int]:
    """The claims that could want more devices than a claim may hold."""
    most: Counter[int] = Counter()
    for task in tasks:
        most[task.demand.claim] += max(option.wanted for option in task.options)
    return [claim for claim, count in most.items() if count > RESULTS_LIMIT]
