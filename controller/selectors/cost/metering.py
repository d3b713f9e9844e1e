"""Which expressions need no metering: those that cannot reach a limit on any device the API accepts.

Counting makes an evaluation several times slower, so it is left out where the text shows that it is not needed. The
argument has two parts.

Nothing grows. Only functions in `_PLAIN` are called, none of which gives more than it is given, and lists or maps are
not built from variables. So every string, list or map is at most as large as the expression is long, or as the API
lets an attribute be (`_LARGEST_VALUE`): call that the size.

Little is repeated. A node is evaluated at most once, but for two cases: the target of optMap() and optFlatMap(), which
upstream evaluates twice; and the predicate of all(), exists() and existsOne(), as often as the list it walks is long.
So the cost is at most the sum over all nodes of how often each is evaluated, times the most one evaluation of it can
cost at that size. The sum is taken here.
"""

from collections.abc import Mapping
from typing import Any, Final

from controller.selectors.cost.budget import COST_LIMIT
from controller.selectors.cost.factors import NEW_MAP
from controller.selectors.language.checker import Checked
from controller.selectors.language.syntax import (
    Bind,
    Call,
    Fold,
    Index,
    ListOf,
    MapOf,
    Name,
    Node,
    OptionalMap,
    Select,
    children,
)

_LARGEST_VALUE: Final = 400
"""More than the cost or size of reading all of an attribute: 48 values of 64 characters cost 48 x 6."""
_MOST_VALUES: Final = 64
"""More than a device has of anything: 48 values of a list, 32 attributes and capacities."""
_LEAST: Final = 5
"""More than the steps of a loop or a chain cost, for each of its nodes."""
_LOOPS: Final = frozenset({"all", "exists", "exists_one"})
_TRAVERSING: Final = frozenset({"@in", "includes", "isSorted", "min", "max", "sum", "indexOf", "lastIndexOf"})
"""Functions whose cost is that of reading a list, at 1 or more for each element."""
_PAIRWISE: Final = frozenset({"matches", "contains", "find", "validate"})
"""Functions that cost a part of the product of two sizes."""
_LONGEST_PATTERN: Final = 1103
"""Characters of the longest pattern that upstream assumes for validate()."""
_PLAIN: Final = _PAIRWISE | {
    "_&&_", "_||_", "_?_:_", "!_", "-_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in",
    "_-_", "_*_", "_/_", "_%_", "bool", "double", "duration", "dyn", "int", "timestamp", "type", "uint",
    "size", "startsWith", "endsWith", "charAt", "substring", "indexOf", "lastIndexOf", "lowerAscii", "upperAscii",
    "trim", "includes", "isSorted", "min", "max", "sum", "first", "last",
    "quantity", "isQuantity", "compareTo", "isGreaterThan", "isLessThan", "asInteger", "isInteger",
    "asApproximateFloat", "sign", "add", "sub", "semver", "isSemver", "major", "minor", "patch",
    "ip", "isIP", "ip.isCanonical", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
    "isLinkLocalUnicast", "isGlobalUnicast", "cidr", "isCIDR", "containsIP", "containsCIDR", "masked", "prefixLength",
    "optional.of", "optional.none", "optional.ofNonZeroValue", "hasValue", "value", "or", "orValue", "format.named",
    "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes",
    "getSeconds", "getMilliseconds",
}  # fmt: skip
_NUMERIC: Final = {"add_int64", "add_uint64", "add_double"}


def is_plain(source: str, node: Node, checked: Checked, constants: Mapping[Node, Any]) -> bool:
    """Whether no evaluation of ``node`` can cost more than the limit."""
    return bound(source, node, checked, constants) is not None


def bound(source: str, root: Node, checked: Checked, constants: Mapping[Node, Any]) -> int | None:
    """What evaluating ``root`` costs at most, where that can be told in this way and is within the limit."""
    size = max(len(source), _LARGEST_VALUE)
    cost, binds, builds = 0, False, False
    waiting = [(root, 1)]
    while waiting:
        node, times = waiting.pop()
        if node in constants:
            continue
        match node:
            case Fold() if node.kind not in _LOOPS:
                return None
            case Call() if not _is_plain_call(node, checked):
                return None
            case Fold() | Bind() | OptionalMap():
                binds = True
            case ListOf() | MapOf():
                builds = True
        loops = _loops(node, constants, size)
        cost += times * (_LEAST * loops if loops else _most(node, size))
        if cost > COST_LIMIT or (binds and builds):
            return None
        for child in children(node):
            again = loops if isinstance(node, Fold) and child is not node.range else 1
            twice = isinstance(node, OptionalMap) and child is node.target
            waiting.append((child, times * again * (2 if twice else 1)))
    return cost


def _most(node: Node, size: int) -> int:
    """What one evaluation of ``node`` costs at most, without what is inside it."""
    match node:
        case Call(function=function):
            if function in _PAIRWISE:
                return (size // 10 + 2) * (max(size, _LONGEST_PATTERN) // 4 + 2)
            return size + _LARGEST_VALUE if function in _TRAVERSING else size // 5 + _LEAST
        case ListOf() | MapOf():
            return NEW_MAP
    return _LEAST


def _loops(node: Node, constants: Mapping[Node, Any], size: int) -> int:
    """How often a fold goes round at most, counting its end as once more; 0 if ``node`` is none."""
    if not isinstance(node, Fold):
        return 0
    known = constants.get(node.range)
    if isinstance(known, list | dict):
        return len(known) + 1
    base = node.range
    while isinstance(base, Select | Index):
        base = base.operand
    return _MOST_VALUES if isinstance(base, Name) and base.name == "device" else size + 1


def _is_plain_call(node: Call, checked: Checked) -> bool:
    if node.function == "_+_":
        return set(checked.overloads[node]) <= _NUMERIC
    return node.function in _PLAIN or node.function.startswith("format.")
