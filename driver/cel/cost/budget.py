"""The limits of one evaluation, so that no expression can use up CPU or memory.

Two kinds of limits hold. The cost is Kubernetes' own count (see `call_costs`), with Kubernetes' limit: what fails there
fails here. The other limits are Lode's, for the characters and elements that Kubernetes does not count: those that
functions build, and those that they visit.
"""

from typing import Any, Final

from driver.cel.errors import BudgetExceeded

COST_LIMIT: Final = 1_000_000
"""The limit on the cost of one evaluation (resource.k8s.io CELSelectorExpressionMaxCost)."""
GROWTH_LIMIT: Final = 12_000_000
"""Characters and elements that one evaluation may build. Concatenation alone cannot exceed it: its cost is counted."""
STEP_LIMIT: Final = 4_000_000
"""Elements that one evaluation may visit inside functions and comparisons."""
PATTERN_LIMIT: Final = 80
"""Different regular expressions that one evaluation may compile; a list attribute holds at most 48 values."""
_VISITED_PER_STEP: Final = 2
_BUILT_PER_STEP: Final = 12
_PER_INSTRUCTION: Final = 2
"""Elements that compiling one instruction of a regular expression counts as: a microsecond."""
_SEARCHED_PER_ELEMENT: Final = 25
"""Characters times instructions of a search that count as one element. RE2 may look at every instruction at every
character, which takes 20 ns each."""
_REFUSED_PATTERN: Final = 20_000
"""Elements that a regular expression counts as which RE2 gives up compiling."""


class CostBudget:
    """What remains of the limits of one evaluation.

    Attributes:
        cost: the cost so far, as Kubernetes counts it.
    """

    __slots__ = ("_growth", "_limit", "_most_growth", "_most_steps", "_patterns", "_steps", "cost")

    def __init__(self, limit: int = COST_LIMIT, growth: int = GROWTH_LIMIT, visits: int = STEP_LIMIT):
        self.cost = 0
        self._limit = limit
        self._most_growth = self._growth = growth
        self._most_steps = self._steps = visits
        self._patterns: frozenset[str] = frozenset()

    @classmethod
    def of_steps(cls, steps: int) -> "CostBudget":
        """A budget of so many steps (`cost.steps`) for loops, for text and for comparisons each."""
        return cls(steps, steps * _BUILT_PER_STEP, steps * _VISITED_PER_STEP)

    @property
    def steps(self) -> int:
        """The steps (`cost.steps`) that were taken. What was refused because it is too much was not done."""
        built, visited = self._most_growth - max(self._growth, 0), self._most_steps - max(self._steps, 0)
        return min(self.cost, self._limit) + built // _BUILT_PER_STEP + visited // _VISITED_PER_STEP

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
            self.spend(len(pattern))
            if len(self._patterns) > PATTERN_LIMIT:
                raise BudgetExceeded("operation cancelled: too many regular expressions; simplify the expression")

    def prepared(self, instructions: int | None) -> None:
        """Count what was compiled to so many ``instructions``; None if RE2 gave up.

        Raises:
            BudgetExceeded: the expressions are too large.
        """
        self.spend(_REFUSED_PATTERN if instructions is None else instructions * _PER_INSTRUCTION)

    def search(self, text: int, instructions: int) -> None:
        """Count the search of ``text`` characters for a regular expression.

        Raises:
            BudgetExceeded: that is too much.
        """
        self.spend(text * instructions // _SEARCHED_PER_ELEMENT)

    def walk(self, value: Any, times: int = 1) -> None:
        """Count ``times`` visits of each element inside ``value``; one that occurs repeatedly counts each time.

        Raises:
            BudgetExceeded: that is too many.
        """
        if not isinstance(value, list | dict):
            return
        self.spend(len(value) * times)
        for element in value if isinstance(value, list) else dict.values(value):
            if isinstance(element, list | dict):
                self.walk(element, times)


class Unmetered(CostBudget):
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

    def prepared(self, instructions: int | None) -> None:
        """Do nothing."""

    def search(self, text: int, instructions: int) -> None:
        """Do nothing."""


UNMETERED: Final = Unmetered()
