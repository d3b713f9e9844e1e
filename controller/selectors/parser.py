"""CEL text to syntax nodes: precedence climbing, macros expanded on the way."""

from controller.selectors import macros
from controller.selectors.declarations import NAMESPACED_FUNCTIONS, TYPE_NAMES
from controller.selectors.errors import SelectorError
from controller.selectors.syntax import Call, Index, ListOf, Literal, MapOf, Name, Node, Select
from controller.selectors.tokens import Token, tokenize

MAX_LENGTH = 10 * 1024
"""Bytes of an expression the API accepts (resource.k8s.io CELSelectorExpressionMaxLength)."""
MAX_DEPTH = 60
"""Nesting this parser follows. Kubernetes allows 249; nobody writes more than a handful."""
MAX_CHAIN = 249
"""Operators of one precedence in a row, as Kubernetes' parser allows."""

_RESERVED = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
        "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_BINARY = {
    "==": 1, "!=": 1, "<": 1, "<=": 1, ">": 1, ">=": 1, "in": 1,
    "+": 2, "-": 2,
    "*": 3, "/": 3, "%": 3,
}  # fmt: skip
_INT_MAX = (1 << 63) - 1


def parse(source: str) -> Node:
    """The syntax tree of ``source``.

    Raises:
        SelectorError: no CEL expression, or one beyond the limits.
    """
    if len(source.encode()) > MAX_LENGTH:
        raise SelectorError(source, 0, f"longer than {MAX_LENGTH} bytes; shorten it")
    parser = _Parser(source)
    node = parser.expression()
    if parser.current.kind != "end":
        raise parser.error(f"unexpected {parser.current.text!r} after a complete expression")
    return node


class _Parser:
    def __init__(self, source: str):
        self.source = source
        self._tokens = tokenize(source)
        self._at = 0
        self._depth = 0

    @property
    def current(self) -> Token:
        return self._tokens[self._at]

    def error(self, message: str, position: int | None = None) -> SelectorError:
        return SelectorError(self.source, self.current.position if position is None else position, message)

    def _is(self, *operators: str) -> bool:
        return self.current.kind == "op" and self.current.text in operators

    def _take(self) -> Token:
        token = self.current
        if token.kind != "end":
            self._at += 1
        return token

    def _accept(self, operator: str) -> bool:
        if self._is(operator):
            self._at += 1
            return True
        return False

    def _expect(self, operator: str) -> None:
        if not self._accept(operator):
            found = repr(self.current.text) if self.current.kind != "end" else "the end"
            raise self.error(f"expected {operator!r}, found {found}")

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels, which is not supported"
            raise SelectorError(self.source, self.current.position, message, unsupported=True)
        node = self._logical("||")
        if self._is("?"):
            position = self._take().position
            then = self._logical("||")
            self._expect(":")
            node = Call(position, "_?_:_", None, (node, then, self.expression()))
        self._depth -= 1
        return node

    def _logical(self, operator: str) -> Node:
        terms = [self._logical("&&") if operator == "||" else self._binary(1)]
        position = self.current.position
        while self._accept(operator):
            terms.append(self._logical("&&") if operator == "||" else self._binary(1))
        return terms[0] if len(terms) == 1 else Call(position, f"_{operator}_", None, tuple(terms))

    def _binary(self, lowest: int) -> Node:
        left = self._unary()
        chain = 0
        while self.current.kind == "op" and (strength := _BINARY.get(self.current.text, 0)) >= lowest:
            operator = self._take()
            chain += 1
            if chain > MAX_CHAIN:
                raise self.error(f"more than {MAX_CHAIN} operators in a row", operator.position)
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            left = Call(operator.position, name, None, (left, self._binary(strength + 1)))
        return left

    def _unary(self) -> Node:
        if not self._is("!", "-"):
            return self._member(self._primary())
        operator = self.current
        count = 0
        while self._is(operator.text):
            last = self._take()
            count += 1
        if operator.text == "-" and self.current.kind == "literal" and _is_number(self.current.value):
            node = self._member(self._literal(negative=True, position=last.position))
            count -= 1
        else:
            node = self._member(self._primary())
        return Call(operator.position, f"{operator.text}_", None, (node,)) if count % 2 else node

    def _member(self, node: Node) -> Node:
        while self._is(".", "["):
            position = self._take().position
            if self._tokens[self._at - 1].text == "[":
                optional = self._accept("?")
                key = self.expression()
                self._expect("]")
                node = Index(position, node, key, optional)
                continue
            optional = self._accept("?")
            field = self._take()
            if field.kind not in ("ident", "escaped"):
                raise self.error("expected a field name", field.position)
            if self._is("(") and not optional and field.kind == "ident":
                node = self._method(node, field)
            else:
                node = _select(position, node, field.text, optional)
        return node

    def _method(self, target: Node, name: Token) -> Node:
        args = self._arguments()
        path = dotted(target)
        if path and f"{path}.{name.text}" in NAMESPACED_FUNCTIONS:
            return Call(name.position, f"{path}.{name.text}", None, args)
        macro = macros.member(self.source, target, name.text, args, name.position)
        return macro or Call(name.position, name.text, target, args)

    def _arguments(self) -> tuple[Node, ...]:
        self._expect("(")
        args: list[Node] = []
        while not self._is(")"):
            args.append(self.expression())
            if not self._accept(","):
                break
            if self._is(")"):
                raise self.error("expected an argument after ','")
        self._expect(")")
        return tuple(args)

    def _primary(self) -> Node:
        token = self.current
        if token.kind == "literal":
            return self._literal(negative=False, position=token.position)
        if self._accept("("):
            node = self.expression()
            self._expect(")")
            return node
        if self._accept("["):
            return self._list(token.position)
        if self._accept("{"):
            return self._map(token.position)
        absolute = self._accept(".")
        name = self._take()
        if name.kind != "ident":
            found = repr(name.text) if name.kind != "end" else "the end"
            raise self.error(f"expected a value, found {found}", name.position)
        if name.text in _RESERVED:
            raise self.error(f"{name.text!r} is a reserved word", name.position)
        if self._is("{"):
            raise self.error("selectors cannot construct messages")
        if not self._is("("):
            return Name(name.position, name.text, absolute)
        args = self._arguments()
        macro = None if absolute else macros.function(self.source, name.text, args, name.position)
        return macro or Call(name.position, name.text, None, args)

    def _list(self, position: int) -> Node:
        items: list[Node] = []
        optional: set[int] = set()
        while not self._is("]"):
            if self._accept("?"):
                optional.add(len(items))
            items.append(self.expression())
            if not self._accept(","):
                break
        self._expect("]")
        return ListOf(position, tuple(items), frozenset(optional))

    def _map(self, position: int) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self._is("}"):
            optional = self._accept("?")
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return MapOf(position, tuple(entries))

    def _literal(self, *, negative: bool, position: int) -> Node:
        token = self._take()
        value = token.value
        if type(value) is int:
            value = -value if negative else value
            if not -_INT_MAX - 1 <= value <= _INT_MAX:
                raise self.error(f"{token.text} does not fit a signed 64-bit integer", token.position)
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
    """``a.b.c`` where ``node`` is just names joined by dots, else ""."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional:
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Name) else ""
