"""The limits of one evaluation, so that no expression can use up CPU or memory.

Two kinds of limits hold. The cost is Kubernetes' own count (see `call_costs`), with Kubernetes' limit: what fails there
fails here. The other limits are Lode's. Kubernetes counts neither the characters that replace() or format() build nor
the elements that a comparison of lists of shared lists visits. Such expressions run for hours there; here they fail.
"""

from typing import Any, Final

from controller.selectors.errors import BudgetExceeded

COST_LIMIT: Final = 1_000_000
"""The limit on the cost of one evaluation (resource.k8s.io CELSelectorExpressionMaxCost)."""
GROWTH_LIMIT: Final = 12_000_000
"""Characters and elements that one evaluation may build. Concatenation alone cannot exceed it: its cost is counted."""
STEP_LIMIT: Final = 4_000_000
"""Elements that one evaluation may visit inside functions and comparisons."""
PATTERN_STEPS: Final = 50_000
"""The elements that compiling one regular expression counts as: 80 different ones are allowed, and a list attribute
holds at most 48."""


class Budget:
    """What remains of the limits of one evaluation.

    Attributes:
        cost: the cost so far, as Kubernetes counts it.
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
        """All that was used, as the sum of the millionths of each limit: at most about 3,000,000."""
        built, visited = GROWTH_LIMIT - self._growth, STEP_LIMIT - self._steps
        return sum(
            used * 1_000_000 // limit
            for used, limit in ((self.cost, COST_LIMIT), (built, GROWTH_LIMIT), (visited, STEP_LIMIT))
        )

    def charge(self, cost: int) -> None:
        """Add ``cost`` to the count of Kubernetes.

        Raises:
            BudgetExceeded: the count is above the limit.
        """
        self.cost += cost
        if self.cost > self._limit:
            raise BudgetExceeded("operation cancelled: actual cost limit exceeded; simplify the expression")

    def spend(self, steps: int) -> None:
        """Count ``steps`` elements that a function visits.

        Raises:
            BudgetExceeded: too many elements were visited.
        """
        self._steps -= steps
        if self._steps < 0:
            raise BudgetExceeded("operation cancelled: visited too many elements; simplify the expression")

    def grow(self, size: int) -> None:
        """Count a string or list of ``size``, before it is built.

        Raises:
            BudgetExceeded: together with it, too much was built.
        """
        self._growth -= size
        if self._growth < 0:
            raise BudgetExceeded("operation cancelled: built too many characters or elements; simplify the expression")

    def prepare(self, pattern: str) -> None:
        """Count a regular expression once, before it is compiled, which can take many milliseconds.

        Raises:
            BudgetExceeded: there are too many different ones.
        """
        if pattern not in self._patterns:
            self._patterns |= {pattern}
            self.spend(PATTERN_STEPS)

    def walk(self, value: Any, times: int = 1) -> None:
        """Count ``times`` visits of each element inside ``value``; one that occurs repeatedly counts each time.

        Raises:
            BudgetExceeded: that is too many.
        """
        if not isinstance(value, list | dict):
            return
        self.spend(len(value) * times)
        for element in value if isinstance(value, list) else value.values():
            if isinstance(element, list | dict):
                self.walk(element, times)


class Unmetered(Budget):
    """Counts nothing: for expressions whose text shows that they cannot reach a limit."""

    __slots__ = ()

    def charge(self, cost: int) -> None:
        """Do nothing."""

    def spend(self, steps: int) -> None:
        """Do nothing."""

    def grow(self, size: int) -> None:
        """Do nothing."""

    def prepare(self, pattern: str) -> None:
        """Do nothing."""


UNMETERED: Final = Unmetered()
