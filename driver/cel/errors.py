"""Errors of selectors: found in the text (its author must act), or on one device (a third outcome)."""

from driver.errors import LodeError


class SelectorError(LodeError):
    """The expression cannot be compiled; the author of the claim or device class must change it.

    Attributes:
        expression: the whole CEL expression.
        position: the offset of the error in it, in characters.
        message: what is wrong, with a remedy where there is one.
        unsupported: the expression may be valid CEL, but this evaluator does not support it.
    """

    def __init__(self, expression: str, position: int, message: str, *, unsupported: bool = False):
        self.expression = expression
        self.position = position
        self.message = message
        self.unsupported = unsupported
        line = expression.count("\n", 0, position) + 1
        column = position - (expression.rfind("\n", 0, position) + 1) + 1
        near = expression[position : position + 24].split("\n")[0]
        where = f"line {line}, column {column}" if "\n" in expression.strip() else f"position {column}"
        super().__init__(f"CEL {where}{f', at {near!r}' if near else ', at the end'}: {message}")


class SelectorFault(LodeError):
    """The evaluation of a selector failed on one device, which is neither a match nor a mismatch."""


class BudgetExceeded(SelectorFault):
    """The evaluation cost more than its limits allow. Unlike other faults, ``||`` and ``&&`` do not absorb it."""


class Cancelled(BudgetExceeded):
    """Kubernetes' own count of the cost fails at this point and ends the evaluation. Nothing absorbs it either."""


class NoOverload(SelectorFault):
    """A function or operator is not defined for the types of its arguments."""


def no_overload(function: str) -> NoOverload:
    """The fault of a call whose run-time types match no overload."""
    return NoOverload(f"no such overload: {function}")
