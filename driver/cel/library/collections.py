"""The functions on lists, sets and maps."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import Cancelled, NoOverload, SelectorFault, no_overload
from driver.cel.language.environment import SORT_KEYS
from driver.cel.library import strings
from driver.cel.values.runtime import (
    NONE,
    DeviceMap,
    OpaqueKey,
    Optional,
    Overloads,
    PartlyReadable,
    UInt,
    checked_int,
    checked_uint,
    equal,
    is_number,
    lookup_key,
    type_name,
)
from driver.cel.values.timestamps import Duration

List = list[Any]
_RANGE_LIMIT = 1_000_000


def _size(_: CostBudget, value: Any) -> int:
    return len(value)


def same(a: Any, b: Any) -> bool:
    """Equality in ``in`` and the list functions: values that cannot be compared are not equal."""
    try:
        return equal(a, b)
    except NoOverload:
        return False


def in_list(budget: CostBudget, value: Any, values: List) -> bool:
    """``value in values``."""
    return any(same(value, element) for element in values)


def _in_map(_: CostBudget, value: Any, map_: Any) -> bool:
    """``value in map_``: finds bools, numbers and strings, and in a map literal also times and addresses."""
    if isinstance(map_, DeviceMap):
        value = map_.key(value)
    if isinstance(value, bool | str | int | float):
        key = lookup_key(value)
        return map_.can_read(key) if type(map_) is PartlyReadable else key in map_
    if map_ and type(map_) is dict and type_name(value) in ("bytes", "kubernetes.Semver", "kubernetes.NamedFormat"):
        raise Cancelled(f"cannot be looked up in a map: {type_name(value)}")
    return OpaqueKey(value) in map_


def _pairwise(budget: CostBudget, a: List, b: List) -> None:
    budget.spend(len(a) * len(b))


def _sets_contains(budget: CostBudget, a: List, b: List) -> bool:
    _pairwise(budget, a, b)
    return all(any(same(x, y) for y in a) for x in b)


def _sets_equivalent(budget: CostBudget, a: List, b: List) -> bool:
    return _sets_contains(budget, a, b) and _sets_contains(budget, b, a)


def _sets_intersects(budget: CostBudget, a: List, b: List) -> bool:
    _pairwise(budget, a, b)
    return any(same(x, y) for x in a for y in b)


def _slice(_: CostBudget, values: List, start: int, end: int) -> List:
    if start < 0 or end < 0 or start > end or end > len(values):
        raise SelectorFault(f"cannot slice({start}, {end}), list has {len(values)} elements")
    return values[start:end]


def _flatten(budget: CostBudget, values: List, depth: int = 1) -> List:
    if type(depth) is not int or not isinstance(values, list):
        raise no_overload("flatten")
    if depth < 0:
        raise SelectorFault("level must be non-negative")
    if depth == 0:
        return values
    result: List = []
    for value in values:
        part = _flatten(budget, value, depth - 1) if isinstance(value, list) else [value]
        budget.grow(len(part))
        result += part
    return result


def _range(budget: CostBudget, count: int) -> List:
    if not 0 <= count <= _RANGE_LIMIT:
        raise SelectorFault(f"lists.range: size must be non-negative and at most {_RANGE_LIMIT}, got {count}")
    budget.grow(count)
    return list(range(count))


def _distinct(budget: CostBudget, values: List) -> List:
    result: List = []
    for value in values:
        budget.spend(len(result))
        if not any(same(value, other) for other in result):
            result.append(value)
    return result


def _require_common_order(values: List) -> None:
    """Fail unless all elements have one type, and that type has an order."""
    types = set(map(type_name, values))
    if len(types) > 1:
        raise SelectorFault("list elements must have the same type")
    if not types <= SORT_KEYS:
        raise SelectorFault(f"list elements have no order: {types.pop()}")


def _sort(budget: CostBudget, values: List) -> List:
    _require_common_order(values)
    budget.spend(len(values))
    return sorted(values)


def _is_sorted(_: CostBudget, values: List) -> bool:
    _require_order(values)
    return not any(_exceeds(a, b) for a, b in itertools.pairwise(values))


def _extreme(better: Callable[[Any, Any], bool], name: str) -> Callable[[CostBudget, List], Any]:
    def run(_: CostBudget, values: List) -> Any:
        if not values:
            raise SelectorFault(f"{name} called on empty list")
        _require_order(values)
        best = values[0]
        for value in values:
            if better(value, best):
                best = value
        return best

    return run


def _require_order(values: List) -> None:
    """Fail unless the type of each element has an order. Elements of different types count as neither more nor less."""
    for value in values:
        if type_name(value) not in SORT_KEYS:
            raise no_overload(f"list of {type_name(value)}")


def _exceeds(a: Any, b: Any) -> bool:
    if is_number(a) and is_number(b):
        return bool(a > b)
    return type(a) is type(b) and bool(a > b)


def _sum(_: CostBudget, values: List) -> Any:
    total: Any = values[0] if values else 0
    if not is_number(total) and not isinstance(total, Duration):
        raise no_overload("sum")
    for value in values[1:]:
        if type(value) is not type(total):
            raise no_overload("sum")
        total = _plus(total, value)
    return total


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return a + b
    if isinstance(a, Duration):
        return Duration(checked_int(a.nanos + b.nanos))
    return checked_uint(int(a) + int(b)) if isinstance(a, UInt) else checked_int(a + b)


def _position(positions: Callable[[int], range]) -> Callable[[CostBudget, List, Any], int]:
    def run(budget: CostBudget, values: List, element: Any) -> int:
        return next((i for i in positions(len(values)) if same(values[i], element)), -1)

    return run


_FORWARDS = _position(lambda size: range(size))
_BACKWARDS = _position(lambda size: range(size - 1, -1, -1))


def _list_or_fail(find: Callable[[CostBudget, List, Any], int]) -> Callable[[CostBudget, Any, Any], int]:
    def run(budget: CostBudget, values: Any, element: Any) -> int:
        if not isinstance(values, list):
            raise no_overload("indexOf")
        return find(budget, values, element)

    return run


def _in(budget: CostBudget, value: Any, container: Any) -> bool:
    if isinstance(container, list):
        return in_list(budget, value, container)
    if isinstance(container, dict):
        return _in_map(budget, value, container)
    raise no_overload("in")


_L, _LI = ("list",), ("list", "int")

FUNCTIONS: Mapping[str, Overloads] = {
    "@in": {2: _in},
    "size": {("string",): _size, ("bytes",): _size, _L: _size, ("map",): _size},
    "sets.contains": {("list", "list"): _sets_contains},
    "sets.equivalent": {("list", "list"): _sets_equivalent},
    "sets.intersects": {("list", "list"): _sets_intersects},
    "slice": {("list", "int", "int"): _slice},
    "flatten": {_L: _flatten, _LI: _flatten},
    "lists.range": {("int",): _range},
    "distinct": {_L: _distinct},
    "reverse": {_L: lambda _, values: values[::-1]},
    "sort": {_L: _sort},
    "isSorted": {_L: _is_sorted},
    "min": {_L: _extreme(lambda a, b: _exceeds(b, a), "min")},
    "max": {_L: _extreme(_exceeds, "max")},
    "sum": {_L: _sum},
    "first": {_L: lambda _, values: Optional(True, values[0]) if values else NONE},
    "last": {_L: lambda _, values: Optional(True, values[-1]) if values else NONE},
    "indexOf": {**strings.INDEXES["indexOf"], 2: _list_or_fail(_FORWARDS)},
    "lastIndexOf": {**strings.INDEXES["lastIndexOf"], 2: _list_or_fail(_BACKWARDS)},
}
