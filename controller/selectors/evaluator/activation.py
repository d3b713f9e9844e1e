"""What compiled code runs in: a list of the device, the budget, then one slot for each variable of a macro."""

from collections.abc import Callable
from typing import Any, TypeAlias

from controller.selectors.errors import BudgetSpent, SelectorFault

Frame: TypeAlias = list[Any]
Code: TypeAlias = Callable[[Frame], Any]

DEVICE, BUDGET, FIRST_VARIABLE = 0, 1, 2
UNSET = object()
"""In the slot of a variable of cel.bind() that nothing has read yet."""


def constant(value: Any) -> Code:
    """Code that yields ``value``."""
    return lambda _: value


def charged(code: Code, cost: int) -> Code:
    """``code``, which costs ``cost`` more."""
    if not cost:
        return code

    def run(frame: Frame) -> Any:
        frame[BUDGET].charge(cost)
        return code(frame)

    return run


def variable(slot: int) -> Code:
    """Read a variable; one bound to a failure fails when it is read."""

    def read(frame: Frame) -> Any:
        value = frame[slot]
        if isinstance(value, SelectorFault):
            raise value
        return value

    return read


def bound(slot: int, value: Code) -> Code:
    """Read a variable of cel.bind(): its value is computed when it is first read, and then kept."""

    def read(frame: Frame) -> Any:
        held = frame[slot]
        if held is UNSET:
            try:
                held = value(frame)
            except BudgetSpent:
                raise
            except SelectorFault as fault:
                held = fault
            frame[slot] = held
        if isinstance(held, SelectorFault):
            raise held
        return held

    return read
