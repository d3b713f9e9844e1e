"""The values of constant nodes, and the checks of cel-go's validators: bad constants are refused for all devices.

Kubernetes folds literals and conversions of literals only; other calls of constants are run by the evaluator.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import BudgetExceeded, SelectorError, SelectorFault
from driver.cel.language.checker import Checked
from driver.cel.language.environment import TYPE_NAMES
from driver.cel.language.syntax import (
    Bind,
    Call,
    Comprehension,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    OptionalMap,
    children,
    walk,
)
from driver.cel.language.types import Type
from driver.cel.library import formatting
from driver.cel.library.functions import functions
from driver.cel.library.strings import compile_regex
from driver.cel.values.runtime import TypeValue, literal_key, type_name

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_PATTERNS: Final = frozenset({"matches", "find", "findAll"})
_KEYS: Final = frozenset({"bool", "double", "int", "string", "uint"})
_UNKNOWN: Final = object()


def check(source: str, node: Node, checked: Checked, budget: CostBudget | None = None) -> Mapping[Node, Any]:
    """The values of all nodes that are constant.

    Args:
        budget: counts what constant regular expressions take.

    Raises:
        SelectorError: a list or map literal has entries of different types, or a constant pattern, conversion or format
            cannot work. The error is that of the first such node.
    """
    checks = _Checks(source, checked, budget or CostBudget())
    checks.literals(node)
    for inner in reversed(list(walk(node))):  # operands before the nodes that hold them
        checks.visit(inner)
    return checks.values


class _Checks:
    def __init__(self, source: str, checked: Checked, budget: CostBudget):
        self._source = source
        self._types = checked.types
        self._functions = functions(checked.release)
        self.values: dict[Node, Any] = {}
        self._budget = budget

    def _error(self, node: Node, message: str) -> SelectorError:
        return SelectorError(self._source, node.position, message)

    def visit(self, node: Node) -> None:
        """Record the value of ``node`` if it is constant, and check how it uses its constant operands."""
        value = self._constant(node)
        if value is not _UNKNOWN:
            self.values[node] = value
        self._index(node)
        self._type_variable(node)
        if isinstance(node, Call) and node.function in _PATTERNS:
            self._pattern(node)
        if isinstance(node, Call) and node.function == "format" and node.target is not None:
            self._format(node)

    def _index(self, node: Node) -> None:
        if isinstance(node, Index) and node.key in self.values and type_name(self.values[node.key]) not in _KEYS:
            message = f"an index must be {', '.join(sorted(_KEYS))}, not: {type_name(self.values[node.key])}"
            raise self._error(node.key, message)

    def _type_variable(self, node: Node) -> None:
        """Refuse a variable that holds a type: cel-go takes it for the name of a type, which it then does not know."""
        match node:
            case Name(name=name):
                variable = name not in TYPE_NAMES and self._types[node].kind == "type"
            case Bind(value=value):
                variable = self._types[value].kind == "type"
            case OptionalMap(target=target):
                variable = self._types[target].of[:1] != () and self._types[target].of[0].kind == "type"
            case Comprehension(kind="filter"):
                variable = self._types[node].of[:1] != () and self._types[node].of[0].kind == "type"
            case _:
                variable = False
        if variable:
            raise self._error(node, "a variable cannot hold a type here; wrap it as dyn(...)")

    def _constant(self, node: Node) -> Any:
        """The value that cel-go computes in advance: that of a literal, or of a conversion of such a value."""
        match node:
            case Literal(value=value):
                return value
            case Name(name=name) if name in TYPE_NAMES and self._types[node] == Type("type", (Type(name),)):
                return TypeValue(name)
            case ListOf(items=items) if not node.optional and all(item in self.values for item in items):
                return [self.values[item] for item in items]
            case MapOf(entries=entries) if not any(optional for _, _, optional in entries):
                return self._map(entries)
            case Call(function=function, target=None, args=(arg,)) if function in _CONVERSIONS and arg in self.values:
                return self._converted(node, function, self.values[arg])
        return _UNKNOWN

    def _map(self, entries: Sequence[tuple[Node, Node, bool]]) -> Any:
        if not all(key in self.values and value in self.values for key, value, _ in entries):
            return _UNKNOWN
        for key, _, _ in entries:
            if isinstance(self.values[key], bytes):
                raise self._error(key, "bytes cannot be a key of a map")
        try:
            return {literal_key(self.values[key]): self.values[value] for key, value, _ in entries}
        except SelectorFault:
            return _UNKNOWN

    def _converted(self, node: Node, function: str, value: Any) -> Any:
        table = self._functions[function]
        convert = table.get((type_name(value),)) or table.get(1)
        if convert is None:
            raise self._error(node, f"{function}() is not defined for type: {type_name(value)}")
        try:
            return convert(CostBudget(), value)
        except SelectorFault as fault:
            raise self._error(node, str(fault)) from None

    def _pattern(self, node: Call) -> None:
        """Check a constant regular expression. cel-go also checks the first argument of the global matches()."""
        args = node.args if node.target is None else (node.target, *node.args)
        patterns = [args[1]]
        if node.target is None and isinstance(args[0], Literal):
            patterns.append(args[0])
        for pattern in patterns:
            value = self.values.get(pattern)
            if isinstance(value, str):
                self._compile(pattern, value)

    def _compile(self, node: Node, pattern: str) -> None:
        try:
            self._budget.prepare(pattern)
            self._budget.prepared(compile_regex(pattern).programsize)
        except BudgetExceeded:
            message = "more different or larger regular expressions than are supported"
            raise SelectorError(self._source, node.position, message, unsupported=True) from None
        except ValueError as error:
            raise self._error(node, str(error)) from None

    def _format(self, node: Call) -> None:
        if not (isinstance(node.target, Literal) and isinstance(node.target.value, str)):
            return
        if not isinstance(node.args[0], ListOf):
            return
        args = node.args[0].items
        used = 0
        try:
            for part in formatting.parse(node.target.value):
                if isinstance(part, formatting.Directive):
                    if used >= len(args):
                        raise ValueError(formatting.missing_argument(len(args)))
                    self._fits(part.letter, args[used])
                    used += 1
        except ValueError as error:
            raise self._error(node.target, str(error)) from None
        if used < len(args):
            raise self._error(args[used], f"too many arguments for the format; it takes {used}, not: {len(args)}")

    def _fits(self, letter: str, arg: Node) -> None:
        waiting = [arg]
        while waiting:
            node = waiting.pop()
            type_ = self._types[node]
            if type_.kind != "dyn" and type_.kind not in formatting.TAKES[letter]:
                raise self._error(node, formatting.wrong_type(letter, str(type_)))
            if letter == "s" and isinstance(node, ListOf | MapOf):
                waiting.extend(children(node))

    def literals(self, root: Node) -> None:
        """Refuse list and map literals with entries of different types, except in and around format()."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Call) and node.function == "format":
                continue
            match node:
                case ListOf(items=items):
                    self._same(items, [index in node.optional for index in range(len(items))])
                case MapOf(entries=entries):
                    self._same([key for key, _, _ in entries], [False] * len(entries))
                    self._same([value for _, value, _ in entries], [optional for _, _, optional in entries])
            waiting.extend(reversed(children(node)))

    def _same(self, nodes: Sequence[Node], optional: Sequence[bool]) -> None:
        first: Type | None = None
        for node, unwrap in zip(nodes, optional, strict=True):
            type_ = self._types[node]
            if unwrap and type_.kind != "optional_type":
                raise self._error(node, f"expected an optional value whose type is known, found {type_}")
            type_ = type_.of[0] if unwrap else type_
            if first is not None and type_ != first:
                raise self._error(node, f"all entries must have one type; expected {first}, found {type_}")
            first = first or type_
