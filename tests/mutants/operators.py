"""Changes of Python source that are derived from its syntax tree. Pure."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of a part of a source text."""

    operator: str
    start: int
    end: int
    """Offsets of the part in characters."""
    replacement: str

    def apply(self, source: str) -> str:
        """The changed text."""
        return source[: self.start] + self.replacement + source[self.end :]

    def around(self, source: str) -> str:
        """The part, with the rest of its first and last line."""
        return source[source.rfind("\n", 0, self.start) + 1 : self.end] + source[self.end :].partition("\n")[0]


_UNOBSERVED = re.compile(r"(_log|_metrics|metrics|log)\.|_seconds\.labels|_errors\.labels|_claims\.set\(|super\(\)")
"""Calls whose effects are logs and metrics, which no test has to notice."""
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}


def edits(source: str) -> Iterator[Edit]:
    """Every change of the source that an operator makes, in the order of the source."""
    text = _Text(source)
    for node in _observed(ast.parse(source), text):
        for operator in _OPERATORS:
            yield from operator(node, text)


class _Text:
    """A source text, by the positions of syntax nodes."""

    def __init__(self, source: str):
        self.source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._offset(node.end_lineno or 0, node.end_col_offset or 0)

    def of(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        return self.source[self.start(node) : self.end(node)]

    def replace(self, operator: str, node: ast.expr | ast.stmt, replacement: str) -> Edit:
        return Edit(operator, self.start(node), self.end(node), replacement)

    def _offset(self, line: int, column: int) -> int:
        # Columns of syntax nodes count bytes.
        begin = self._lines[line - 1]
        return begin + len(self.source[begin : self._lines[line]].encode()[:column].decode())


def _observed(tree: ast.AST, text: _Text) -> Iterator[ast.AST]:
    """The nodes whose change a test could notice: no annotations, decorators, docstrings, messages, logs or metrics."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)):
            continue
        if isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or _UNOBSERVED.search(text.of(node))):
            continue
        if isinstance(node, ast.Assign) and text.of(node.targets[0]).startswith("__"):
            continue
        if isinstance(node, ast.AnnAssign):
            yield node
            yield from _observed(node.value, text) if node.value else ()
            continue
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if any(text.of(base).startswith("Protocol") for base in getattr(node, "bases", ())):
                continue
            yield node
            for statement in node.body:
                yield from _observed(ast.Module([statement], []), text)
            continue
        yield node
        if not isinstance(node, ast.Subscript):
            yield from _observed(node, text)


def _negate(node: ast.AST, text: _Text) -> Iterator[Edit]:
    tests = node.ifs if isinstance(node, ast.comprehension) else []
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        tests = [node.test]
    for test in tests:
        if not isinstance(test, ast.NamedExpr):
            yield text.replace("negate a condition", test, f"(not ({text.of(test)}))")


def _drop_not(node: ast.AST, text: _Text) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield text.replace("drop not", node, f"({text.of(node.operand)})")


def _swap_and_or(node: ast.AST, text: _Text) -> Iterator[Edit]:
    if not isinstance(node, ast.BoolOp):
        return
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        start, end = text.end(left), text.start(right)
        between = text.source[start:end]
        yield Edit(f"{old} becomes {new}", start, end, re.sub(rf"\b{old}\b", new, between))


def _compare(node: ast.AST, text: _Text) -> Iterator[Edit]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        old, new = _COMPARISONS[type(node.ops[0])]
        start, end = text.end(node.left), text.start(node.comparators[0])
        between = text.source[start:end]
        yield Edit(f"{old} becomes {new}", start, end, between.replace(old, new, 1))


def _off_by_one(node: ast.AST, text: _Text) -> Iterator[Edit]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield text.replace("off by one", node, str(node.value + 1))


def _arithmetic(node: ast.AST, text: _Text) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        old, new = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
        start, end = text.end(node.left), text.start(node.right)
        yield Edit(f"{old} becomes {new}", start, end, text.source[start:end].replace(old, new, 1))


def _extremes(node: ast.AST, text: _Text) -> Iterator[Edit]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        other = "max" if node.func.id == "min" else "min"
        yield text.replace(f"{node.func.id} becomes {other}", node.func, other)


def _drop_element(node: ast.AST, text: _Text) -> Iterator[Edit]:
    """An element of a tuple, list, set or dict, such as a part of a cache's key."""
    rest: ast.expr
    if isinstance(node, ast.Dict) and len(node.keys) > 1:
        for at in range(len(node.keys)):
            rest = ast.Dict(_without(node.keys, at), _without(node.values, at))
            yield text.replace("drop an element", node, ast.unparse(rest))
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)) and len(node.elts) > 1:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return
        for at in range(len(node.elts)):
            rest = type(node)(_without(node.elts, at))
            yield text.replace("drop an element", node, ast.unparse(rest))


def _drop_keyword(node: ast.AST, text: _Text) -> Iterator[Edit]:
    if isinstance(node, ast.Call):
        for at, keyword in enumerate(node.keywords):
            if keyword.arg:
                rest = ast.Call(node.func, node.args, _without(node.keywords, at))
                yield text.replace("drop a keyword argument", node, ast.unparse(rest))


def _without(items: Sequence[T], at: int) -> list[T]:
    return [*items[:at], *items[at + 1 :]]


def _drop_statement(node: ast.AST, text: _Text) -> Iterator[Edit]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    stored = bool(targets) and all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets)
    if isinstance(node, (ast.Expr, ast.AugAssign, ast.Delete)) or (isinstance(node, ast.Assign) and stored):
        yield text.replace("drop a statement", node, "pass")


def _return_early(node: ast.AST, text: _Text) -> Iterator[Edit]:
    """A procedure leaves out its last statement."""
    if not isinstance(node, ast.FunctionDef) or node.name == "__init__" or len(node.body) < 3:
        return
    if isinstance(node.returns, ast.Constant) and node.returns.value is None:
        last = node.body[-1]
        yield Edit("return early", text.start(last), text.start(last), "return\n" + " " * last.col_offset)


_Operator = Callable[[ast.AST, _Text], Iterator[Edit]]
_OPERATORS: tuple[_Operator, ...] = (
    _negate,
    _drop_not,
    _swap_and_or,
    _compare,
    _off_by_one,
    _arithmetic,
    _extremes,
    _drop_element,
    _drop_keyword,
    _drop_statement,
    _return_early,
)
