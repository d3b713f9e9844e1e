"""The estimate by which admission accepts or refuses an expression: the most that it can cost on any device.

The arithmetic is that of Kubernetes, because its result is part of the API; where it looks arbitrary, it follows
cel-go's ``checker/cost.go``. Macros count as the loops that cel-go expands them to. A size that is not known to be
limited counts as UNBOUNDED.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from driver.cel.cost.factors import NEW_LIST, NEW_MAP
from driver.cel.estimation import call_estimates
from driver.cel.estimation.call_estimates import CallArguments
from driver.cel.estimation.sizes import ONE, UNBOUNDED, UNKNOWN, Size, ValuePath, add, below, declared_size, multiply
from driver.cel.language import trampoline
from driver.cel.language.checker import Checked
from driver.cel.language.environment import SORT_KEYS
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
    Select,
    children,
)
from driver.cel.language.trampoline import Steps
from driver.cel.language.types import Type

_SCALARS: Final = SORT_KEYS - {"string", "bytes"}


class EntrySizes(NamedTuple):
    """The sizes of the entries of a list or map."""

    is_list: bool
    key: Size
    value: Size

    def union(self, other: "EntrySizes | None") -> "EntrySizes | None":
        """The entries that contain both; None if ``other`` is not known."""
        return other and EntrySizes(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class _Variable:
    """What is known of a variable of a macro."""

    path: ValuePath = ()
    size: Size | None = None
    entry: EntrySizes | None = None


SizeScope = Mapping[str, _Variable]


def estimate(node: Node, checked: Checked) -> int:
    """The most that an evaluation of ``node`` can cost; UNBOUNDED if nothing limits it.

    If it was checked by the rules of several versions, the highest of their estimates.
    """
    releases = checked.release.parts or (checked.release,)
    return max(trampoline.run(_Estimator(replace(checked, release=one)).cost(node, {})) for one in releases)


class _Estimator:
    def __init__(self, checked: Checked):
        self._types = checked.types
        self._newer = checked.release.bounds_more
        self._overloads = checked.overloads
        self._sizes: dict[Node, Size] = {}
        self._entries: dict[Node, EntrySizes] = {}
        self._paths: dict[Node, ValuePath] = {}

    def cost(self, node: Node, scope: SizeScope) -> Steps[int]:
        """The most that ``node`` can cost. Also records the size of its value."""
        match node:
            case Literal():
                return 0
            case Name(name=name, absolute=absolute):
                self._paths[node] = scope[name].path if name in scope and not absolute else (name,)
                return 1
            case Select():
                return (yield from self._select(node, scope))
            case Index():
                return (yield from self._index(node, scope))
            case Call():
                return (yield from self._call(node, scope))
            case ListOf():
                return (yield from self._list(node, scope))
            case MapOf():
                return (yield from self._map(node, scope))
            case Comprehension():
                walk = self._sort_by if node.kind == "sortBy" else self._comprehension
                return (yield from walk(node, scope))
            case Bind():
                return (yield from self._bind(node, scope))
            case OptionalMap():
                return (yield from self._optional_map(node, scope))

    def _each(self, nodes: Sequence[Node], scope: SizeScope) -> Steps[list[int]]:
        costs: list[int] = []
        for node in nodes:
            cost: int = yield self.cost(node, scope)
            costs += (cost,)
        return costs

    def _select(self, node: Select, scope: SizeScope) -> Steps[int]:
        cost: int = yield self.cost(node.operand, scope)
        if node.test and not self._newer:
            return cost
        if node.optional:
            return add(cost, 1)
        self._paths[node] = below(self._path(node.operand, scope), node.field)
        if node.test:
            return cost
        kind = self._types[node.operand].kind
        counts = self._newer or kind == "map" or kind.startswith("kubernetes.")
        return add(cost, 1 if counts else 0)

    def _index(self, node: Index, scope: SizeScope) -> Steps[int]:
        costs = yield from self._each((node.operand, node.key), scope)
        size = None
        for overload in self._overloads[node]:
            if overload in ("index_list", "index_map"):
                entry = self._entry(node.operand, scope)
                size = entry and entry.value
                step = "@items" if overload == "index_list" else "@values"
                self._paths[node] = below(self._path(node.operand, scope), step)
            size = size or self._size(node, scope)
        if size is not None:
            self._sizes[node] = size
        return add(1, *costs)

    def _call(self, node: Call, scope: SizeScope) -> Steps[int]:
        parts = node.args if node.target is None else (node.target, *node.args)
        costs = yield from self._each(parts, scope)
        match node.function:
            case "dyn":
                self._same(node, node.args[0], scope)
                return add(1, *costs)
            case "_&&_" | "_||_":
                return add(*costs)
            case "_?_:_":
                self._choose(node, node.args[1], node.args[2], scope)
                return add(costs[0], max(costs[1:]))
        return add(self._chosen(node, node.function, self._overloads[node], parts, scope), *costs)

    def _chosen(
        self, node: Node, function: str, overloads: Sequence[str], parts: Sequence[Node], scope: SizeScope
    ) -> int:
        """The cost of the most expensive overload. The size of the result covers those of all overloads."""
        most = 0
        result: Size | None = None
        for overload in overloads:
            cost, size = call_estimates.call(function, self._arguments(overload, parts, scope), newer=self._newer)
            if overload in ("add_string", "add_bytes", "add_list"):
                self._join_entries(node, parts, scope)
            most = max(most, cost)
            if size is not None:
                result = size if result is None else result.union(size)
            if self._newer and overload in call_estimates.KEEP_ELEMENTS:
                self._keep_entry(node, parts[0], scope)
            result = result or self._size(node, scope)
        if result is not None:
            self._sizes[node] = result
        return most

    def _arguments(self, overload: str, parts: Sequence[Node], scope: SizeScope) -> CallArguments:
        return CallArguments(
            overload,
            tuple(parts),
            tuple([self._types[part] for part in parts]),
            tuple([self._size(part, scope) for part in parts]),
            tuple([declared_size(below(self._path(part, scope), "@items")) or UNKNOWN for part in parts]),
        )

    def _join_entries(self, node: Node, parts: Sequence[Node], scope: SizeScope) -> None:
        first, second = (self._entry(part, scope) for part in parts)
        if first is not None and (joined := first.union(second)) is not None:
            self._entries[node] = joined

    def _choose(self, node: Node, then: Node, otherwise: Node, scope: SizeScope) -> None:
        self._sizes[node] = self._size_or_unknown(then, scope).union(self._size_or_unknown(otherwise, scope))
        self._join_entries(node, (then, otherwise), scope)

    def _keep_entry(self, node: Node, source: Node, scope: SizeScope) -> None:
        if (entry := self._entry(source, scope)) is not None:
            self._entries[node] = entry

    def _list(self, node: ListOf, scope: SizeScope) -> Steps[int]:
        costs = yield from self._each(node.items, scope)
        items = node.items
        if self._newer:
            held = [_held(item) if index in node.optional else item for index, item in enumerate(items)]
            items = tuple([item for item in held if item is not None])
            self._sizes[node] = Size(len(node.items) - len(node.optional), len(items))
        if items or not self._newer:
            self._entries[node] = EntrySizes(True, ONE, self._largest(items, scope))
        return add(NEW_LIST, *costs)

    def _map(self, node: MapOf, scope: SizeScope) -> Steps[int]:
        costs = yield from self._each(children(node), scope)
        keys = self._largest([key for key, _, _ in node.entries], scope)
        self._entries[node] = EntrySizes(False, keys, self._largest([value for _, value, _ in node.entries], scope))
        return add(NEW_MAP, *costs)

    def _largest(self, nodes: Sequence[Node], scope: SizeScope) -> Size:
        size = Size(UNBOUNDED if nodes else 0, 0)
        for node in nodes:
            size = size.union(self._size_or_unknown(node, scope))
        return size

    def _comprehension(self, node: Comprehension, scope: SizeScope) -> Steps[int]:
        cost: int = yield self.cost(node.range, scope)
        inner = {**scope, **self._elements(node, scope)}
        where: int = 0 if node.where is None else (yield self.cost(node.where, inner))
        body: int = yield self.cost(node.body, inner)
        count = self._size_or_unknown(node.range, scope)
        match node.kind:
            case "all":
                self._sizes[node] = ONE
                once, each = 1, add(2, 1, body)
            case "exists":
                self._sizes[node] = ONE
                once, each = 1, add(3, 1, body)
            case "exists_one":
                self._sizes[node] = ONE
                once, each = 2, add(body, 2)
            case "transformMap":
                self._sizes[node] = count
                once, each = NEW_MAP + 1, add(where, 3, body)
            case "transformMapEntry":
                self._sizes[node] = count
                once, each = NEW_MAP + 1, add(where, 2, body)
            case _:
                once, each = NEW_LIST + 1, self._append(node, count, add(where, body), inner)
        return add(cost, once, multiply(count.most, each))

    def _append(self, node: Comprehension, count: Size, cost: int, inner: SizeScope) -> int:
        """The cost of ``result + [element]``, the step of map(), filter() and transformList()."""
        if node.kind == "filter":
            cost, element = add(cost, 1), self._element_size(node, inner)
        else:
            element = self._size_or_unknown(node.body, inner)
        self._sizes[node] = count
        self._entries[node] = EntrySizes(True, ONE, Size(0, element.most))
        return add(cost, 1, 1, NEW_LIST)

    def _element_size(self, node: Comprehension, inner: SizeScope) -> Size:
        """The size of the variable of filter()."""
        over, variable = self._types[node.range], inner[node.variables[0]]
        return (
            declared_size(variable.path) or self._of_type(over.of[0] if over.of else over) or variable.size or UNKNOWN
        )

    def _elements(self, node: Comprehension, scope: SizeScope) -> SizeScope:
        """What is known of the variables of a macro that iterates over a list or map."""
        entry, path = self._entry(node.range, scope), self._path(node.range, scope)
        declared = self._types[node.range].kind == "list"
        is_list = entry.is_list if entry else declared
        hides_index = self._newer and is_list and not declared
        key = _Variable(below(path, "@indices" if is_list else "@keys"), None if hides_index else entry and entry.key)
        value = _Variable(below(path, "@items" if is_list else "@values"), entry and entry.value)
        if len(node.variables) == 2:
            return dict(zip(node.variables, (key, value), strict=True))
        return {node.variables[0]: value if is_list else key}

    def _sort_by(self, node: Comprehension, scope: SizeScope) -> Steps[int]:
        """The cost of a variable bound to the list, of a list of sort keys, and of sorting."""
        cost: int = yield self.cost(node.range, scope)
        body: int = yield self.cost(node.body, {**scope, **self._elements(node, scope)})
        count = self._size_or_unknown(node.range, scope)
        keys = add(1, NEW_LIST + 1, multiply(count.most, add(body, 2, NEW_LIST)))
        text = self._types[node.body].kind in ("string", "bytes", "dyn", "any")
        sorting, size = call_estimates.self_compared(count, text=text)
        self._sizes[node] = size
        if self._newer:
            self._keep_entry(node, node.range, scope)
        return add(NEW_LIST, cost, keys, sorting, 1)

    def _bind(self, node: Bind, scope: SizeScope) -> Steps[int]:
        value: int = yield self.cost(node.value, scope)
        variable = _Variable(
            self._path(node.value, scope), self._size(node.value, scope), self._entry(node.value, scope)
        )
        inner = {**scope, node.name: variable}
        body: int = yield self.cost(node.body, inner)
        self._same(node, node.body, scope)
        return add(NEW_LIST, value, body)

    def _optional_map(self, node: OptionalMap, scope: SizeScope) -> Steps[int]:
        """The cost of ``target.hasValue() ? ... target.value() ... : optional.none()``: the target counts twice."""
        cost: int = yield self.cost(node.target, scope)
        target = self._types[node.target]
        inside = target.of[0] if target.of else target
        inner = {**scope, node.name: _Variable(size=self._of_type(inside))}
        body: int = yield self.cost(node.body, inner)
        present = add(NEW_LIST, 1, cost, body, 0 if node.flat else 1)
        result = self._size_or_unknown(node.body, scope) if node.flat else self._of_type(self._types[node]) or UNKNOWN
        self._sizes[node] = result.union(self._of_type(self._types[node]) or UNKNOWN)
        return add(1, cost, max(present, 1))

    def _of_type(self, one: Type) -> Size | None:
        if one.kind == "optional_type":
            return self._of_type(one.of[0])
        return ONE if one.kind in _SCALARS or (one.kind == "type" and self._newer) else None

    def _same(self, node: Node, source: Node, scope: SizeScope) -> None:
        size, entry = self._size(source, scope), self._entry(source, scope)
        if size is not None:
            self._sizes[node] = size
        if entry is not None:
            self._entries[node] = entry

    def _path(self, node: Node, scope: SizeScope) -> ValuePath:
        if isinstance(node, Name) and node.name in scope and not node.absolute:
            return scope[node.name].path
        return self._paths.get(node, ())

    def _entry(self, node: Node, scope: SizeScope) -> EntrySizes | None:
        found = self._entries.get(node)
        if found is None and isinstance(node, Name) and node.name in scope and not node.absolute:
            return scope[node.name].entry
        return found

    def _size_or_unknown(self, node: Node, scope: SizeScope) -> Size:
        return self._size(node, scope) or UNKNOWN

    def _size(self, node: Node, scope: SizeScope) -> Size | None:
        found = self._sizes.get(node) or _of_text(node) or declared_size(self._path(node, scope))
        if found is not None:
            return found
        found = self._of_type(self._types[node])
        if found is None and isinstance(node, Name) and node.name in scope and not node.absolute:
            return scope[node.name].size
        return found


def _held(item: Node) -> Node | None:
    """The node of what an optional element holds, if it is written as such; None if it holds nothing."""
    match item:
        case Call(function="optional.none", target=None):
            return None
        case Call(function="optional.of" | "optional.ofNonZeroValue", target=None, args=(value,)):
            return value
    return item


def _of_text(node: Node) -> Size | None:
    """The size of a literal."""
    match node:
        case Literal(value=str() | bytes() as text):
            return Size(len(text), len(text))
        case Literal():
            return ONE
        case ListOf(items=items):
            return Size(len(items), len(items))
        case MapOf(entries=entries):
            return Size(len(entries), len(entries))
    return None
