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
STEP_LIMIT: Final = 12_000_000
"""Elements that one evaluation may visit inside functions and comparisons."""


class Budget:
    """What one evaluation may still spend.

    Attributes:
        cost: what it has cost so far, as Kubernetes counts.
    """

    __slots__ = ("_growth", "_limit", "_steps", "cost")

    def __init__(self, limit: int = COST_LIMIT):
        self.cost = 0
        self._limit = limit
        self._growth = GROWTH_LIMIT
        self._steps = STEP_LIMIT

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

    def walk(self, value: Any) -> None:
        """Account for visiting all that ``value`` holds, however often it holds the same.

        Raises:
            BudgetSpent: it holds too much.
        """
        if isinstance(value, list):
            self.spend(len(value))
            for element in value:
                self.walk(element)
        elif isinstance(value, dict):
            self.spend(len(value))
            for element in value.values():
                self.walk(element)
        elif isinstance(value, str | bytes):
            self.spend(len(value) // 100)


class Unmetered(Budget):
    """For expressions that cannot reach a limit, as their text shows: counts nothing."""

    __slots__ = ()

    def charge(self, cost: int) -> None:
        """Nothing to do."""

    def spend(self, steps: int) -> None:
        """Nothing to do."""

    def grow(self, size: int) -> None:
        """Nothing to do."""


UNMETERED: Final = Unmetered()
