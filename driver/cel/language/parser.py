"""CEL text to a syntax tree, by precedence climbing. Macros become nodes of their own while parsing.

The limits on depth are those of cel-go's parser, which differ for each rule of its grammar; see `MAX_DEPTH`.
"""

from driver.cel.errors import SelectorError
from driver.cel.language import macros, trampoline
from driver.cel.language.environment import NAMESPACED_FUNCTIONS, TYPE_NAMES
from driver.cel.language.syntax import Call, Index, ListOf, Literal, MapOf, Name, Node, Select
from driver.cel.language.tokens import Token, tokenize
from driver.cel.language.trampoline import Steps

MAX_LENGTH = 100_000
"""The characters of an expression that Kubernetes' parser accepts. The API accepts fewer (`Environment.max_length`)."""
MAX_DEPTH = 250
"""The depth to which Kubernetes' parser follows each rule of the grammar, and nested operators, calls and indexes."""

_RESERVED = frozenset(
    """
    as break const continue else for function if import let loop package namespace return var void while
    """.split()
)
_RELATIONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_INT_MAX = (1 << 63) - 1
_MESSAGES = frozenset(
    f"google.protobuf.{name}"
    for name in """
    Any BoolValue BytesValue DoubleValue Duration Empty FloatValue Int32Value Int64Value ListValue StringValue Struct
    Timestamp UInt32Value UInt64Value Value
    """.split()
)
"""Messages that Kubernetes can construct. They become plain values at once, so that selectors do not need them."""


def parse(source: str) -> Node:
    """The syntax tree of ``source``.

    Raises:
        SelectorError: it is not a CEL expression, or it is beyond the limits.
    """
    if len(source) > MAX_LENGTH:
        raise SelectorError(source, 0, f"too long; the limit in characters is {MAX_LENGTH}")
    return trampoline.run(_Parser(source).complete_expression())


class _Parser:
    def __init__(self, source: str):
        self.source = source
        self._tokens = tokenize(source)
        self._at = -1
        self._advance()
        self._depth_in = dict.fromkeys(("expression", "relation", "calculation"), 0)
        self._depth: dict[Node, int] = {}

    def _advance(self) -> None:
        self._at += 1
        self.current = self._tokens[self._at]
        self._operator = self.current.text if self.current.kind == "op" else ""

    def complete_expression(self) -> Steps[Node]:
        node: Node = yield self.expression()
        if self.current.kind != "end":
            raise self.error(f"unexpected text after the expression: {self.current.text!r}")
        return node

    def error(self, message: str, position: int | None = None) -> SelectorError:
        return SelectorError(self.source, self.current.position if position is None else position, message)

    def _is_operator(self, *operators: str) -> bool:
        return self._operator in operators

    def _take(self) -> Token:
        token = self.current
        if token.kind != "end":
            self._advance()
        return token

    def _accept(self, operator: str) -> bool:
        if self._operator == operator:
            self._advance()
            return True
        return False

    def _expect(self, operator: str) -> None:
        if not self._accept(operator):
            found = repr(self.current.text) if self.current.kind != "end" else "the end"
            raise self.error(f"expected {operator!r}, found {found}")

    def _enter(self, rule: str) -> None:
        self._depth_in[rule] += 1
        if self._depth_in[rule] > MAX_DEPTH:
            raise self.error(f"nested too deeply; the limit in levels is {MAX_DEPTH}")

    def _leave(self, rule: str) -> None:
        self._depth_in[rule] -= 1

    def _node(self, node: Node, *parts: Node, counts: bool = True) -> Node:
        """``node``, one level deeper than the deepest of ``parts`` (on the same level unless it ``counts``)."""
        depth = max([self._depth.get(part, 0) for part in parts], default=0) + counts
        if depth > MAX_DEPTH:
            message = f"too many nested operators, calls or indexes; the limit is {MAX_DEPTH}"
            raise SelectorError(self.source, node.position, message)
        self._depth[node] = depth
        return node

    def expression(self) -> Steps[Node]:
        self._enter("expression")
        node = yield from self._logical("||")
        if self._is_operator("?"):
            position = self._take().position
            then = yield from self._logical("||")
            self._expect(":")
            otherwise = yield self.expression()
            node = self._node(Call(position, "_?_:_", None, (node, then, otherwise)), node, then, otherwise)
        self._leave("expression")
        return node

    def _logical(self, operator: str) -> Steps[Node]:
        inner = self._conjunction if operator == "||" else self._relation
        terms = [(yield from inner())]
        position = self.current.position
        while self._accept(operator):
            terms.append((yield from inner()))
        if len(terms) == 1:
            return terms[0]
        return self._node(Call(position, f"_{operator}_", None, tuple(terms)), *terms, counts=False)

    def _conjunction(self) -> Steps[Node]:
        return (yield from self._logical("&&"))

    def _relation(self) -> Steps[Node]:
        self._enter("relation")
        left = yield from self._calculation(1)
        while self._operator in _RELATIONS:
            operator = self._take()
            self._enter("relation")
            right = yield from self._calculation(1)
            self._leave("relation")
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            left = self._node(Call(operator.position, name, None, (left, right)), left, right)
        self._leave("relation")
        return left

    def _calculation(self, lowest: int) -> Steps[Node]:
        self._enter("calculation")
        left = yield from self._unary()
        while (strength := _STRENGTH.get(self._operator, 0)) >= lowest:
            operator = self._take()
            right = yield from self._calculation(strength + 1)
            left = self._node(Call(operator.position, f"_{operator.text}_", None, (left, right)), left, right)
        self._leave("calculation")
        return left

    def _unary(self) -> Steps[Node]:
        if not self._is_operator("!", "-"):
            return (yield from self._member((yield from self._primary())))
        operator = self.current
        count = 0
        while self._is_operator(operator.text):
            last = self._take()
            count += 1
        if operator.text == "-" and count == 1 and self.current.kind == "literal" and _is_number(self.current.value):
            primary = self._literal(negative=True, position=last.position)
            count -= 1
        else:
            primary = yield from self._primary()
        node = yield from self._member(primary)
        if count % 2 == 0:
            return node
        return self._node(Call(operator.position, f"{operator.text}_", None, (node,)), node, counts=False)

    def _member(self, node: Node) -> Steps[Node]:
        while self._is_operator(".", "["):
            position = self._take().position
            if self._tokens[self._at - 1].text == "[":
                optional = self._accept("?")
                key = yield self.expression()
                self._expect("]")
                node = self._node(Index(position, node, key, optional), node, key)
                continue
            optional = self._accept("?")
            field = self._take()
            if field.kind not in ("ident", "escaped"):
                raise self.error("expected a field name", field.position)
            if self._is_operator("(") and not optional and field.kind == "ident":
                args = yield from self._arguments()
                node = self._node(self._method(node, field, args), node, *args)
            else:
                node = self._node(_select(position, node, field.text, optional), node)
        if self._is_operator("{") and dotted(node):
            raise self._message(node)
        return node

    def _message(self, node: Node) -> SelectorError:
        name = dotted(node)
        if name not in _MESSAGES:
            return SelectorError(self.source, node.position, f"unknown message type {name!r}")
        remedy = "write the value itself, or timestamp() or duration()"
        message = f"messages are not supported: {name}{{}}; {remedy}"
        return SelectorError(self.source, node.position, message, unsupported=True)

    def _method(self, target: Node, name: Token, args: tuple[Node, ...]) -> Node:
        path = dotted(target)
        if path and f"{path}.{name.text}" in NAMESPACED_FUNCTIONS:
            return Call(name.position, f"{path}.{name.text}", None, args)
        macro = macros.member(self.source, target, name.text, args, name.position)
        return macro or Call(name.position, name.text, target, args)

    def _arguments(self) -> Steps[tuple[Node, ...]]:
        self._expect("(")
        args: list[Node] = []
        while not self._is_operator(")"):
            args.append((yield self.expression()))
            if not self._accept(","):
                break
            if self._is_operator(")"):
                raise self.error("expected an argument after ','")
        self._expect(")")
        return tuple(args)

    def _primary(self) -> Steps[Node]:
        token = self.current
        if token.kind == "literal":
            return self._literal(negative=False, position=token.position)
        if self._accept("("):
            inner: Node = yield self.expression()
            self._expect(")")
            return inner
        if self._accept("["):
            return (yield from self._list(token.position))
        if self._accept("{"):
            return (yield from self._map(token.position))
        absolute = self._accept(".")
        name = self._take()
        if name.kind != "ident":
            found = repr(name.text) if name.kind != "end" else "the end"
            raise self.error(f"expected a value, found {found}", name.position)
        if name.text in _RESERVED:
            raise self.error(f"reserved word: {name.text!r}", name.position)
        if not self._is_operator("("):
            return Name(name.position, name.text, absolute)
        args = yield from self._arguments()
        macro = None if absolute else macros.function(self.source, name.text, args, name.position)
        return self._node(macro or Call(name.position, name.text, None, args), *args, counts=False)

    def _list(self, position: int) -> Steps[Node]:
        items: list[Node] = []
        optional: set[int] = set()
        while not self._is_operator("]", ","):
            if self._accept("?"):
                optional.add(len(items))
            items.append((yield self.expression()))
            if not self._is_operator(",") or self._next_is("]"):
                break
            self._take()
        self._accept(",")
        self._expect("]")
        return self._node(ListOf(position, tuple(items), frozenset(optional)), *items, counts=False)

    def _map(self, position: int) -> Steps[Node]:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._is_operator("}", ","):
            optional = self._accept("?")
            key = yield self.expression()
            self._expect(":")
            entries.append((key, (yield self.expression()), optional))
            if not self._is_operator(",") or self._next_is("}"):
                break
            self._take()
        self._accept(",")
        self._expect("}")
        parts = [part for key, value, _ in entries for part in (key, value)]
        return self._node(MapOf(position, tuple(entries)), *parts, counts=False)

    def _next_is(self, operator: str) -> bool:
        following = self._tokens[self._at + 1]
        return following.kind == "op" and following.text == operator

    def _literal(self, *, negative: bool, position: int) -> Node:
        token = self._take()
        value = token.value
        if type(value) is int:
            value = -value if negative else value
            if not -_INT_MAX - 1 <= value <= _INT_MAX:
                raise self.error(f"does not fit a signed 64-bit integer: {token.text}", token.position)
        elif negative:
            assert isinstance(value, float)
            value = -value
        return Literal(position, value)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _select(position: int, operand: Node, field: str, optional: bool) -> Node:
    path = dotted(operand)
    if path and not optional and f"{path}.{field}" in TYPE_NAMES:
        return Name(position, f"{path}.{field}")
    return Select(position, operand, field, optional=optional)


def dotted(node: Node) -> str:
    """``a.b.c`` if ``node`` consists of names joined by dots, else "". No declared name has more than three dots."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional and len(parts) < 3:
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Name) else ""
