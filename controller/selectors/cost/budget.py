"""A bound on what one evaluation may cost, so that no expression can burn CPU or memory.

Two bounds hold. The cost is Kubernetes' own count (see `charges`), with its limit: what fails there fails here. The
rest is ours: Kubernetes counts neither the characters that replace() or format() make nor the elements that comparing
lists of shared lists visits, and such expressions would take it hours; here they fail.
"""

from typing import Any, Final

from controller.selectors.errors import BudgetSpent

COST_LIMIT: Final = 1_000_000
"""The limit on the cost of one evaluation, estimated and actual (resource.k8s.io CELSelectorExpressionMaxCost)."""
GROWTH_LIMIT: Final = 12_000_000
"""Characters and elements that one evaluation may build. Concatenation alone cannot pass it: its cost is counted."""
STEP_LIMIT: Final = 4_000_000
"""Elements that one evaluation may visit inside functions and comparisons."""
PATTERN_STEPS: Final = 50_000
"""As how many elements visited a regular expression counts that is compiled: more than a list attribute can hold."""


class Budget:
    """What one evaluation may still spend.

    Attributes:
        cost: what it has cost so far, as Kubernetes counts.
    """

    __slots__ = ("_growth", "_limit", "_patterns", "_steps", "cost")

    def __init__(self, limit: int = COST_LIMIT):
        self.cost = 0
        self._limit = limit
        self._growth = GROWTH_LIMIT
        self._steps = STEP_LIMIT
        self._patterns: frozenset[str] = frozenset()

    @property
    def effort(self) -> int:
        """All that was spent, each kind in millionths of its limit: at most some 3,000,000."""
        grown, visited = GROWTH_LIMIT - self._growth, STEP_LIMIT - self._steps
        return sum(
            spent * 1_000_000 // limit
            for spent, limit in ((self.cost, COST_LIMIT), (grown, GROWTH_LIMIT), (visited, STEP_LIMIT))
        )

    def charge(self, cost: int) -> None:
        """Add ``cost`` to what Kubernetes counts.

        Raises:
            BudgetSpent: the limit is passed.
        """
        self.cost += cost
        if self.cost > self._limit:
            raise BudgetSpent("operation cancelled: actual cost limit exceeded; simplify the expression")

    def spend(self, steps: int) -> None:
        """Account for ``steps`` of work inside a function.

        Raises:
            BudgetSpent: nothing is left.
        """
        self._steps -= steps
        if self._steps < 0:
            raise BudgetSpent(f"operation cancelled: more than {STEP_LIMIT} elements visited; simplify the expression")

    def grow(self, size: int) -> None:
        """Account for building a string or list of ``size``, before it is built.

        Raises:
            BudgetSpent: with it, too much has been built.
        """
        self._growth -= size
        if self._growth < 0:
            raise BudgetSpent(f"operation cancelled: more than {GROWTH_LIMIT} characters or elements built")

    def prepare(self, pattern: str) -> None:
        """Account for compiling a regular expression, which can take many milliseconds; once for each.

        Raises:
            BudgetSpent: there are too many.
        """
        if pattern not in self._patterns:
            self._patterns |= {pattern}
            self.spend(PATTERN_STEPS)

    def walk(self, value: Any, times: int = 1) -> None:
        """Account for visiting all that ``value`` holds ``times`` times, however often it holds the same.

        Raises:
            BudgetSpent: it holds too much.
        """
        if not isinstance(value, list | dict):
            return
        self.spend(len(value) * times)
        for element in value if isinstance(value, list) else value.values():
            if isinstance(element, list | dict):
                self.walk(element, times)


class Unmetered(Budget):
    """For expressions that cannot reach a limit, as their text shows: counts nothing."""

    __slots__ = ()

    def charge(self, cost: int) -> None:
        """Nothing to do."""

    def spend(self, steps: int) -> None:
        """Nothing to do."""

    def grow(self, size: int) -> None:
        """Nothing to do."""

    def prepare(self, pattern: str) -> None:
        """Nothing to do."""


UNMETERED: Final = Unmetered()
