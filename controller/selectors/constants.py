"""What is wrong with an expression whatever the device: constants that can never be converted."""

from typing import Any, Final

from controller.selectors.budget import Budget
from controller.selectors.errors import SelectorError, SelectorFault
from controller.selectors.functions import FUNCTIONS
from controller.selectors.strings import compile_regex
from controller.selectors.syntax import Call, Literal, Node, children
from controller.selectors.values import kind

_CONVERSIONS: Final = frozenset({"int", "uint", "double", "bool", "string", "bytes"})
_UNKNOWN: Final = object()


def check(source: str, node: Node) -> None:
    """Refuse constant patterns and conversions that cannot work.

    Raises:
        SelectorError: at the first of them.
    """
    if isinstance(node, Call):
        _check_pattern(source, node)
        _constant(source, node)
    for child in children(node):
        check(source, child)


def _check_pattern(source: str, node: Call) -> None:
    if node.function != "matches" or not isinstance(node.args[-1], Literal):
        return
    pattern = node.args[-1]
    if isinstance(pattern.value, str):
        try:
            compile_regex(pattern.value)
        except ValueError as error:
            raise SelectorError(source, pattern.position, str(error)) from None


def _constant(source: str, node: Node) -> Any:
    """The value of a literal or of a conversion of one, else _UNKNOWN."""
    if isinstance(node, Literal):
        return node.value
    if not isinstance(node, Call) or node.function not in _CONVERSIONS or node.target or len(node.args) != 1:
        return _UNKNOWN
    value = _constant(source, node.args[0])
    convert = None if value is _UNKNOWN else FUNCTIONS[node.function].get((kind(value),))
    if convert is None:
        return _UNKNOWN
    try:
        return convert(Budget(), value)
    except SelectorFault as fault:
        raise SelectorError(source, node.position, str(fault)) from None
