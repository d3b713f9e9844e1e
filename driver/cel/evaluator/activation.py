"""The activation of one evaluation: a list of the device, the budget, and a slot for each variable of a macro.

It is a list, and not an object, because reading an element by a constant index is the fastest access in Python.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from driver.cel.errors import BudgetExceeded, SelectorFault

Activation: TypeAlias = list[Any]
CompiledNode: TypeAlias = Callable[[Activation], Any]

DEVICE, BUDGET, FIRST_VARIABLE = 0, 1, 2
UNSET = object()
"""In the slot of a variable of cel.bind() that was not read yet."""


def constant(value: Any) -> CompiledNode:
    """Code that returns ``value``."""
    return lambda _: value


def charged(code: CompiledNode, cost: int) -> CompiledNode:
    """``code`` with ``cost`` added to its cost."""
    if not cost:
        return code

    def run(activation: Activation) -> Any:
        activation[BUDGET].charge(cost)
        return code(activation)

    return run


def charged_after(code: CompiledNode, cost: int) -> CompiledNode:
    """``code`` with ``cost`` added to its cost, unless it fails."""

    def run(activation: Activation) -> Any:
        value = code(activation)
        activation[BUDGET].charge(cost)
        return value

    return run


def variable(slot: int) -> CompiledNode:
    """Code that reads a variable. If its value is a fault, reading it raises the fault."""

    def read(activation: Activation) -> Any:
        value = activation[slot]
        if isinstance(value, SelectorFault):
            raise value
        return value

    return read


def bound(slot: int, value: CompiledNode) -> CompiledNode:
    """Code that reads a variable of cel.bind(): its value is computed on the first read, and then kept."""

    def read(activation: Activation) -> Any:
        result = activation[slot]
        if result is UNSET:
            try:
                result = value(activation)
            except BudgetExceeded:
                raise
            except SelectorFault as fault:
                result = fault
            activation[slot] = result
        if isinstance(result, SelectorFault):
            raise result
        return result

    return read
