"""Limits on the evaluation of selectors, for one question and for one turn of the deciding thread. Pure.

No claim or device class may keep the one deciding thread from the others. Work is counted in steps of at most two
microseconds (`driver.cel.cost.steps`). Counts and not clocks decide, so the same claims and devices always get the same
answer.

kube-apiserver admits far more than this: 108,000 rounds of a loop in one selector, 32 selectors in a request, 32
requests in a claim.
"""

from collections import Counter
from collections.abc import Mapping
from math import inf
from typing import Final

DEVICE_STEPS: Final = 50_000
"""Steps of one selector on one device, for loops, for text and for comparisons each. A loop over 1,000 names takes
about 20,000."""
CLAIM_STEPS: Final = 400_000
"""Steps of all selectors of one claim and of the device classes that it names, on all devices: less than a second."""
POD_STEPS: Final = 600_000
"""Steps of the selectors of all claims of a pod."""
STEPS_OF_EACH_DEVICE: Final = 200
"""Further steps of a claim, and of a pod, for each device of the cluster: five selectors that tell every device from
every other one. Such work is spread over turns."""
TURN_STEPS: Final = 200_000
"""Steps that one turn of the deciding thread takes before others get theirs. The last piece of work may exceed it: one
selector on one device, or one expression that is compiled."""
FILTER_STEPS: Final = 200
"""Steps of each request, and of each alternative, besides its selectors."""


class TurnEnded(Exception):
    """The turn has no steps left. Results so far are remembered, so the next turn goes on from there."""


class OutOfSteps(Exception):
    """The steps that a question may take are used up: a search has neither found anything nor proved that there is
    nothing, or selectors take more than they may.

    Attributes:
        expression: the selector that takes most; "" of a search.
        on_one_device: whether it alone takes too many on one device.
    """

    def __init__(self, expression: str = "", *, on_one_device: bool = False):
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
            OutOfSteps: they are too many, together with those before.
        """
        self.steps += steps
        self.by_expression[expression] += steps
        if self.steps > self._allowed:
            most = max(self.by_expression, key=lambda one: (self.by_expression[one], one))
            raise OutOfSteps(most)

    def gave_up(self, expression: str) -> None:
        """The evaluation of a selector on one device was ended, because it took too many steps.

        Raises:
            OutOfSteps: always.
        """
        raise OutOfSteps(expression, on_one_device=True)


class _Unlimited(Meter):
    """Counts nothing: for what was counted before."""

    def __init__(self) -> None:
        super().__init__(0, Turn())

    def count(self, expression: str, steps: int) -> None:
        """Do nothing."""

    def gave_up(self, expression: str) -> None:
        """Do nothing: the selector fails on the device."""


UNLIMITED = _Unlimited()
