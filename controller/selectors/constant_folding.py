"""What is wrong with an expression whatever the device: constants that cannot be converted, matched or formatted."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller.selectors.cost.budget import Budget
from controller.selectors.errors import BudgetSpent, SelectorError, SelectorFault
from controller.selectors.language.checker import Checked
from controller.selectors.language.environment import TYPE_NAMES
from controller.selectors.language.syntax import (
    Bind,
    Call,
    Fold,
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
from controller.selectors.language.types import Type
from controller.selectors.library import formatting
from controller.selectors.library.functions import FUNCTIONS
from controller.selectors.library.strings import compile_regex
from controller.selectors.values.types import TypeValue, key_in, kind

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_PATTERNS: Final = frozenset({"matches", "find", "findAll"})
_KEYS: Final = frozenset({"bool", "double", "int", "string", "uint"})
_UNKNOWN: Final = object()


def check(source: str, node: Node, checked: Checked) -> Mapping[Node, Any]:
    """Refuse literals of mixed types, and constant patterns, conversions and formats that cannot work.

    Returns the values of all nodes that are constant.

    Raises:
        SelectorError: at the first of them.
    """
    checks = _Checks(source, checked)
    checks.literals(node)
    for inner in reversed(list(walk(node))):  # those inside come first
        checks.visit(inner)
    return checks.values


class _Checks:
    def __init__(self, source: str, checked: Checked):
        self._source = source
        self._types = checked.types
        self.values: dict[Node, Any] = {}
        self._budget = Budget()

    def _error(self, node: Node, message: str) -> SelectorError:
        return SelectorError(self._source, node.position, message)

    def visit(self, node: Node) -> None:
        """Work out the value of ``node`` if it is constant, and check what it makes of its constants."""
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
        if isinstance(node, Index) and node.key in self.values and kind(self.values[node.key]) not in _KEYS:
            found = kind(self.values[node.key])
            raise self._error(node.key, f"a value of type {found} is no index; it must be {', '.join(sorted(_KEYS))}")

    def _type_variable(self, node: Node) -> None:
        """Upstream takes a variable that holds a type for the name of a type, which it then does not know."""
        match node:
            case Name(name=name):
                variable = name not in TYPE_NAMES and self._types[node].kind == "type"
            case Bind(value=value):
                variable = self._types[value].kind == "type"
            case OptionalMap(target=target):
                variable = self._types[target].of[:1] != () and self._types[target].of[0].kind == "type"
            case Fold(kind="filter"):
                variable = self._types[node].of[:1] != () and self._types[node].of[0].kind == "type"
            case _:
                variable = False
        if variable:
            raise self._error(node, "a variable cannot hold a type here; wrap it as dyn(...)")

    def _constant(self, node: Node) -> Any:
        """The value upstream computes in advance: of literals, and of conversions of such values."""
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
                raise self._error(key, "bytes cannot be the key of a map")
        try:
            return {key_in(self.values[key]): self.values[value] for key, value, _ in entries}
        except SelectorFault:
            return _UNKNOWN

    def _converted(self, node: Node, function: str, value: Any) -> Any:
        table = FUNCTIONS[function]
        convert = table.get((kind(value),)) or table.get(1)
        if convert is None:
            raise self._error(node, f"{function}() does not take a value of type {kind(value)}")
        try:
            return convert(Budget(), value)
        except SelectorFault as fault:
            raise self._error(node, str(fault)) from None

    def _pattern(self, node: Call) -> None:
        """A constant pattern must be one; upstream also takes the first argument of the global matches() for one."""
        args = node.args if node.target is None else (node.target, *node.args)
        patterns = [args[1]]
        if node.target is None and isinstance(args[0], Literal):
            patterns.append(args[0])
        for pattern in patterns:
            value = self.values.get(pattern)
            if isinstance(value, str):
                self._prepare(pattern, value)
                try:
                    compile_regex(value)
                except ValueError as error:
                    raise self._error(pattern, str(error)) from None

    def _prepare(self, node: Node, pattern: str) -> None:
        try:
            self._budget.prepare(pattern)
        except BudgetSpent:
            message = "more different regular expressions than are supported"
            raise SelectorError(self._source, node.position, message, unsupported=True) from None

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
                        raise ValueError(f"the format asks for more than the {len(args)} arguments it is given")
                    self._fits(part.letter, args[used])
                    used += 1
        except ValueError as error:
            raise self._error(node.target, str(error)) from None
        if used < len(args):
            raise self._error(args[used], f"the format has places for {used} arguments only, but {len(args)} are given")

    def _fits(self, letter: str, arg: Node) -> None:
        waiting = [arg]
        while waiting:
            node = waiting.pop()
            found = self._types[node]
            if found.kind != "dyn" and found.kind not in formatting.TAKES[letter]:
                raise self._error(node, formatting.misfit(letter, str(found)))
            if letter == "s" and isinstance(node, ListOf | MapOf):
                waiting.extend(children(node))

    def literals(self, root: Node) -> None:
        """List and map literals must hold one type each; only around and inside format() they may differ."""
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
            found = self._types[node]
            if unwrap and found.kind != "optional_type":
                raise self._error(node, f"expected an optional value, found {found}: its type must be known here")
            found = found.of[0] if unwrap else found
            if first is not None and found != first:
                raise self._error(node, f"expected type {first} but found {found}; all entries need one type")
            first = first or found
