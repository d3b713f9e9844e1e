"""What can go wrong with a selector: before it runs (its author must act), or on one device (a third outcome)."""

from driver.errors import LodeError


class SelectorError(LodeError):
    """The expression cannot be compiled; whoever wrote the claim or device class must change it.

    Attributes:
        expression: the whole CEL expression.
        position: offset into it, in characters, of what is wrong.
        message: what is wrong, and the remedy where there is one.
        unsupported: the expression may be valid CEL; it is beyond what this evaluator does.
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
    """Evaluating a selector on one device failed: neither a match nor a mismatch."""


class BudgetSpent(SelectorFault):
    """Evaluation cost more than Kubernetes allows. Unlike other faults, ``||`` and ``&&`` do not absorb it."""


class Cancelled(BudgetSpent):
    """Evaluation ended where upstream's own bookkeeping fails; like a spent budget, nothing absorbs it."""


class NoOverload(SelectorFault):
    """A function or operator met values of types it is not defined for."""


def no_overload(function: str) -> NoOverload:
    """The fault for a call whose run-time types fit no overload."""
    return NoOverload(f"no such overload: {function}")
