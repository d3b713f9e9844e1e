"""How much selectors may be evaluated for one question, and what one turn of the deciding thread has left. Pure.

`controller.selectors.cost.limits` says what a step is, and why the limits are as they are.
"""

from collections import Counter
from collections.abc import Mapping
from math import inf


class TurnEnded(Exception):
    """The turn has no steps left. What was found is remembered, so the next turn goes on from there."""


class TooCostly(Exception):
    """Selectors take more steps than they may.

    Attributes:
        expression: the one that takes most.
        on_one_device: whether it alone takes too many on one device.
    """

    def __init__(self, expression: str, *, on_one_device: bool):
        super().__init__(expression)
        self.expression = expression
        self.on_one_device = on_one_device


class Turn:
    """The steps of one turn of the deciding thread. Without ``begin`` there is no limit.

    Attributes:
        spent: the steps of all turns so far.
    """

    def __init__(self) -> None:
        self._left: float = inf
        self.spent = 0

    def begin(self, steps: float) -> None:
        """A new turn, with so many steps."""
        self._left = steps

    def go_on(self) -> None:
        """Before a piece of work.

        Raises:
            TurnEnded: it has to wait for the next turn.
        """
        if self._left <= 0:
            raise TurnEnded

    def work(self, steps: int) -> None:
        """A piece of work was done."""
        self._left -= steps
        self.spent += steps


class Meter:
    """Counts what the selectors of one claim take. What is remembered counts like what is evaluated.

    So the answer does not depend on what was asked before.

    Attributes:
        steps: all that were counted.
        by_expression: the same by what takes them.

    Args:
        allowed: steps.
        turn: pays for what has to be evaluated.
        before: what was counted before.
    """

    def __init__(self, allowed: int, turn: Turn, before: Mapping[str, int] | None = None) -> None:
        self.turn = turn
        self.by_expression: Counter[str] = Counter(before)
        self.steps = self.by_expression.total()
        self._allowed = allowed

    def count(self, expression: str, steps: int) -> None:
        """Count steps that a selector takes.

        Raises:
            TooCostly: they are too many, together with those before.
        """
        self.steps += steps
        self.by_expression[expression] += steps
        if self.steps > self._allowed:
            most = max(self.by_expression, key=lambda one: (self.by_expression[one], one))
            raise TooCostly(most, on_one_device=False)

    def gave_up(self, expression: str) -> None:
        """The evaluation of a selector on one device was ended, because it took too many steps.

        Raises:
            TooCostly: always.
        """
        raise TooCostly(expression, on_one_device=True)


class _Unlimited(Meter):
    """Counts nothing: for what was counted before."""

    def __init__(self) -> None:
        super().__init__(0, Turn())

    def count(self, expression: str, steps: int) -> None:
        """Do nothing."""

    def gave_up(self, expression: str) -> None:
        """Do nothing: the selector fails on the device."""


UNLIMITED = _Unlimited()
