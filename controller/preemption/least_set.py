"""Finds the least of all sets that are sufficient, with few questions. Pure.

A set is an integer with a bit for each element. More elements never make a set insufficient, nor cheaper. So sets are
tried from the cheapest on; and whatever is part of a set that is known to be insufficient need not be tried. To learn
much from each answer, a set that is insufficient is enlarged as far as it stays so.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

Cost = tuple[int | float, ...]
"""Compared part by part; less is better."""
Sufficient = Callable[[int], bool]
"""Says whether a set is sufficient."""
CostOf = Callable[[int], Cost | None]
"""The cost of a set; None if the set, and so all sets with more in them, are forbidden."""

_MOST_SETS: Final = 4096
"""Most sets that are looked at in one search, apart from trials."""


class Trials:
    """A limit on trials, over all searches of a decision.

    Args:
        most: the trials that may be made.
        is_strict: whether a search may end without any answer; if not, it may use more trials for the first one.
    """

    def __init__(self, most: int, *, is_strict: bool = False):
        self.left = most
        self.is_strict = is_strict

    @property
    def are_used_up(self) -> bool:
        """Whether no trial is left."""
        return self.left <= 0


@dataclass(frozen=True, slots=True)
class Least:
    """The sets that were found, all of the same rank; none if none that is allowed is sufficient.

    Attributes:
        sets: the sets, the cheapest first.
        proven: whether there is no better one.
        forbidden: if there are no sets, one that would be sufficient, but is forbidden; 0 if none would.
    """

    sets: tuple[int, ...] = ()
    proven: bool = True
    forbidden: int = 0


class LeastSet:
    """One search.

    Args:
        elements: number of elements.
        worth: the elements, the first to be spared first.
        rank: how many parts of a cost make its rank.
    """

    def __init__(self, elements: int, worth: Sequence[int], cost: CostOf, sufficient: Sufficient, trials: Trials):
        self._elements = elements
        self._worth = worth
        self._cost = cost
        self._sufficient = sufficient
        self._trials = trials
        self._answers: dict[int, bool] = {}
        self._insufficient: list[int] = []

    def find(self, rank: int, most: int = 1, below: Cost | None = None) -> Least:
        """Find the least sets: up to ``most`` that are equal in the first ``rank`` parts of their cost.

        Args:
            below: sets whose rank is not at most this are not looked for.
        """
        # One trial tells if nobody's end makes room, which is the case on most nodes
        # (test_one_trial_tells_that_nobody_makes_room_on_nodes_that_are_alike).
        if not self._elements or not self._try((1 << self._elements) - 1):
            return Least()
        # A set of which no element can be spared: an answer if the trials do not last, and if none is allowed, what
        # would have been sufficient (test_a_search_that_ends_early_spares_whoever_can_be_spared_on_the_node).
        spared = self._spare((1 << self._elements) - 1)
        found: list[int] = []
        heap = [(cost, 1 << at, at) for at in range(self._elements) if (cost := self._cost(1 << at)) is not None]
        heapq.heapify(heap)
        bound, looked = below, 0
        # Each set is made once, from the one without its last element. That one is no more expensive, so sets leave the
        # heap from the cheapest on, and the first that is sufficient is the least.
        while heap:
            cost, chosen, last = heapq.heappop(heap)
            if (bound is not None and cost[:rank] > bound) or len(found) >= most:
                break
            looked += 1
            answer = self._recall(chosen)
            if looked > _MOST_SETS or (answer is None and self._trials.are_used_up):
                return Least(tuple(found) or self._if_allowed(spared), proven=False)
            if answer or (answer is None and self._learn(chosen)):
                found.append(chosen)
                # Sets of equal rank differ in the ages of pods. On another node of the class these are others, so
                # another one of these sets may be the least there.
                bound = cost[:rank]
                continue
            for at in range(last + 1, self._elements):
                more = chosen | 1 << at
                if (its := self._cost(more)) is not None:
                    heapq.heappush(heap, (its, more, at))
        return Least(tuple(found), forbidden=0 if found or self._if_allowed(spared) else spared)

    def _if_allowed(self, chosen: int) -> tuple[int, ...]:
        return () if not chosen or self._cost(chosen) is None else (chosen,)

    def _recall(self, chosen: int) -> bool | None:
        """Whether the set is sufficient, as far as it is known."""
        # No part of an insufficient set is sufficient. These are large, so a few of them answer for most sets.
        if any(chosen | one == one for one in self._insufficient):
            return False
        return self._answers.get(chosen)

    def _learn(self, chosen: int) -> bool:
        """Whether the set is sufficient. If not, learn as much from that as can be."""
        if self._try(chosen):
            return True
        self._insufficient.append(self._enlarged(chosen))
        return False

    def _try(self, chosen: int) -> bool:
        known = self._answers.get(chosen)
        if known is None:
            self._trials.left -= 1
            known = self._answers[chosen] = self._sufficient(chosen)
        return known

    def _enlarged(self, chosen: int) -> int:
        """The set, with further elements as long as it stays insufficient: those first that are spared last."""
        order = tuple(reversed(self._worth))
        return _change(chosen, order, int.__or__, lambda more: not self._trials.are_used_up and not self._try(more))

    def _spare(self, chosen: int) -> int:
        """The set without all elements that it can do without; 0 if the trials did not last."""
        trials = self._trials
        strict = trials.is_strict
        found = _change(
            chosen,
            self._worth,
            lambda one, bits: one & ~bits,
            lambda less: bool(less) and not (strict and trials.are_used_up) and self._try(less),
        )
        return 0 if strict and trials.are_used_up else found


def _change(chosen: int, order: Sequence[int], change: Callable[[int, int], int], goes: Callable[[int], bool]) -> int:
    """The set after all changes that go, element by element in this order; many at once where many go."""
    # Of a hundred elements that all go, seven trials are enough; where one does not go, the step is halved until it is
    # alone, and it stays.
    at, step = 0, 1
    while at < len(order):
        after = change(chosen, sum([1 << one for one in order[at : at + step]]))
        if after == chosen or goes(after):
            chosen, at, step = after, at + step, 2 * step
        elif step > 1:
            step //= 2
        else:
            at += 1
    return chosen
