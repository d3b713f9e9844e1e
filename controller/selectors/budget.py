"""A bound on what one evaluation may cost, so that no expression can burn CPU or memory."""

from typing import Final

from controller.selectors.errors import BudgetSpent

COST_LIMIT: Final = 1_000_000
"""Kubernetes' limit on the run-time cost of one evaluation (resource.k8s.io CELSelectorExpressionMaxCost)."""
SIZE_LIMIT: Final = 1_000_000
"""Characters of a string, or elements of a list, one evaluation may build."""
TURN_LIMIT: Final = 30_000
"""Elements the macros of one evaluation may visit, far above what the 48 values of a device can cause.

Kubernetes lets up to a few hundred thousand pass; evaluating them would keep a controller busy for seconds.
"""


class Budget:
    """What one evaluation may still spend."""

    __slots__ = ("_turns", "left")

    def __init__(self, limit: int = COST_LIMIT):
        self.left = limit
        self._turns = TURN_LIMIT

    def spend(self, cost: int) -> None:
        """Account for ``cost`` steps.

        Raises:
            BudgetSpent: nothing is left.
        """
        self.left -= cost
        if self.left < 0:
            raise BudgetSpent("operation cancelled: actual cost limit exceeded")

    def turn(self) -> None:
        """Account for visiting one element of a list or map.

        Raises:
            BudgetSpent: too many have been visited.
        """
        self._turns -= 1
        if self._turns < 0:
            raise BudgetSpent(f"operation cancelled: more than {TURN_LIMIT} elements visited; simplify the expression")

    def grow(self, size: int) -> None:
        """Account for building a string or list of ``size``.

        Raises:
            BudgetSpent: it is too large.
        """
        if size > SIZE_LIMIT:
            raise BudgetSpent(f"operation cancelled: a value of {size} elements exceeds the limit of {SIZE_LIMIT}")
        self.spend(size // 100)
