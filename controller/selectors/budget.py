"""A bound on what one evaluation may cost, so that no expression can burn CPU or memory."""

from typing import Final

from controller.selectors.errors import BudgetSpent

COST_LIMIT: Final = 1_000_000
"""Kubernetes' limit on the run-time cost of one evaluation (resource.k8s.io CELSelectorExpressionMaxCost)."""
SIZE_LIMIT: Final = 1_000_000
"""Characters of a string, or elements of a list, one evaluation may build."""


class Budget:
    """What one evaluation may still spend. Never counts more than Kubernetes' own cost of the same steps."""

    __slots__ = ("left",)

    def __init__(self, limit: int = COST_LIMIT):
        self.left = limit

    def spend(self, cost: int) -> None:
        """Account for ``cost`` steps.

        Raises:
            BudgetSpent: nothing is left.
        """
        self.left -= cost
        if self.left < 0:
            raise BudgetSpent("operation cancelled: actual cost limit exceeded")

    def grow(self, size: int) -> None:
        """Account for building a string or list of ``size``.

        Raises:
            BudgetSpent: it is too large.
        """
        if size > SIZE_LIMIT:
            raise BudgetSpent(f"operation cancelled: a value of {size} elements exceeds the limit of {SIZE_LIMIT}")
        self.spend(size // 100)
