"""Partial evaluation: whose devices an expression can match, decided from its text alone. Pure.

The expression is evaluated with a known ``device.driver`` and nothing else. Only ``false`` proves that a driver's
devices do not match: an unknown result, or an expression that does not compile, may match them. So no driver is ever
ruled out wrongly, but the answer is "both" if the text hides its test of the driver.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import SelectorFault
from driver.cel.evaluator.calls import implementation
from driver.cel.language import trampoline
from driver.cel.language.syntax import Bind, Call, Name, Node, Select
from driver.cel.language.trampoline import Steps
from driver.cel.library.functions import functions
from driver.cel.selector import CheckedExpression
from driver.cel.values.runtime import equal

_STEPS: Final = 2_000
"""Steps of the calls with known arguments, for each as of `CostBudget.of_steps`."""


class _Special(Enum):
    """A value that is not known."""

    ANY = "anything, or a fault"
    OTHER_NAME = "the name of any driver but those that were asked for"


def can_select(checked: CheckedExpression | None, *drivers: str) -> tuple[bool, ...]:
    """Whether an expression can match devices of each of the ``drivers`` and, at the end, those of any other driver.

    Args:
        checked: the expression; None if it does not compile, so that nothing is known about it.
    """
    ours = frozenset(drivers)
    return tuple(_can_match(checked, name, ours) for name in (*drivers, _Special.OTHER_NAME))


def _can_match(checked: CheckedExpression | None, name: Any, ours: frozenset[str]) -> bool:
    if checked is None:
        return True
    result = trampoline.run(_Evaluation(checked, name, ours).visit(checked.node, {}))
    return result is not False


ValueScope = Mapping[str, Any]
"""The variables of macros around a node; _Special.ANY for those that are not known."""


class _Evaluation:
    """An evaluation of one expression for a device of which only the driver is known.

    A known value stands for that value or a fault: a fault is never a match, and no operator makes a match of it that
    would not also be one with the value.
    """

    def __init__(self, checked: CheckedExpression, name: Any, ours: frozenset[str]):
        self._constants = checked.constants
        self._functions = functions(checked.types.release)
        self._name = name
        self._ours = ours
        self._budget = CostBudget.of_steps(_STEPS)

    def visit(self, node: Node, scope: ValueScope) -> Steps[Any]:
        if node in self._constants:
            return self._constants[node]
        match node:
            case Name(name=name, absolute=False) if name in scope:
                return scope[name]
            case Select(operand=Name(name="device") as device, field="driver", test=False, optional=False):
                shadowed = not device.absolute and device.name in scope
                return _Special.ANY if shadowed else self._name
            case Call(function="_&&_" | "_||_" as function, args=args):
                return (yield from self._logical(args, scope, absorbing=function == "_||_"))
            case Call(function="_?_:_", args=(condition, then, otherwise)):
                chosen = yield self.visit(condition, scope)
                if isinstance(chosen, bool):
                    return (yield self.visit(then if chosen else otherwise, scope))
            case Call():
                return (yield from self._call(node, scope))
            case Bind(name=name, value=value, body=body):
                bound = yield self.visit(value, scope)
                return (yield self.visit(body, {**scope, name: bound}))
        # Loops, fields, lists and maps: what they hold is not followed.
        return _Special.ANY

    def _logical(self, terms: Sequence[Node], scope: ValueScope, *, absorbing: bool) -> Steps[Any]:
        known = True
        for term in terms:
            value = yield self.visit(term, scope)
            if value is absorbing:
                return absorbing
            known = known and value is (not absorbing)
        return not absorbing if known else _Special.ANY

    def _call(self, node: Call, scope: ValueScope) -> Steps[Any]:
        values: list[Any] = []
        for part in node.args if node.target is None else (node.target, *node.args):
            value = yield self.visit(part, scope)
            if value is _Special.ANY:
                return value
            values.append(value)
        if any(value is _Special.OTHER_NAME for value in values):
            return self._call_with_other_name(node.function, values)
        try:
            match node.function:
                case "_==_":
                    return equal(*values)
                case "_!=_":
                    return not equal(*values)
            return implementation(node.function, self._functions.get(node.function, {}), values)(self._budget, *values)
        except SelectorFault:
            return _Special.ANY

    def _call_with_other_name(self, function: str, values: Sequence[Any]) -> Any:
        """A call with the name of another driver: only a comparison with names of ours alone is decided."""
        ours = [value for value in values if value is not _Special.OTHER_NAME]
        match function, ours:
            case ("_==_" | "_!=_", [str(name)]) if name in self._ours:
                return function == "_!=_"
            case ("@in", [list() as names]) if values[0] is _Special.OTHER_NAME and self._ours.issuperset(
                map(str, names)
            ):
                return False
        return _Special.ANY
