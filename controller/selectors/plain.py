"""Which expressions need no metering: those that cannot reach a limit on any device the API accepts.

Counting makes an evaluation several times slower, so it is left out where the text shows that it is not needed. The
argument has two parts.

Nothing grows. Only functions in `_PLAIN` are called, none of which gives more than it is given, and lists or maps are
not built from variables. So every string, list or map is at most as large as the expression is long, or as the API
lets an attribute be (`_LARGEST_VALUE`): call that the size.

Nothing is repeated. There is no macro that walks a list; then each node is evaluated at most once, but for the target
of optMap() and optFlatMap(), which upstream evaluates twice. So the cost is at most the sum over all nodes of how
often each is evaluated, times the most one evaluation of it can cost at that size. The sum is taken here.
"""

from collections.abc import Container
from typing import Final

from controller.selectors.budget import COST_LIMIT
from controller.selectors.checker import Checked
from controller.selectors.syntax import Bind, Call, Fold, ListOf, MapOf, Node, OptionalMap, children

_LARGEST_VALUE: Final = 400
"""More than the cost or size of reading all of an attribute: 48 values of 64 characters cost 48 x 6."""
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


def is_plain(source: str, node: Node, checked: Checked, constants: Container[Node]) -> bool:
    """Whether no evaluation of ``node`` can cost more than the limit."""
    return bound(source, node, checked, constants) is not None


def bound(source: str, node: Node, checked: Checked, constants: Container[Node]) -> int | None:
    """What evaluating ``node`` costs at most, where that can be told in this way and is within the limit."""
    size = max(len(source), _LARGEST_VALUE)
    each = _LARGEST_VALUE + size
    product = (size // 10 + 2) * (max(size, _LONGEST_PATTERN) // 4 + 2)
    cost, binds, builds = 0, False, False
    waiting = [(node, 1)]
    while waiting:
        node, times = waiting.pop()
        if node in constants:
            continue
        match node:
            case Fold():
                return None
            case Call() if not _is_plain_call(node, checked):
                return None
            case Bind() | OptionalMap():
                binds = True
            case ListOf() | MapOf():
                builds = True
        cost += times * (product if isinstance(node, Call) and node.function in _PAIRWISE else each)
        if cost > COST_LIMIT or (binds and builds):
            return None
        twice = node.target if isinstance(node, OptionalMap) else None
        waiting.extend((child, 2 * times if child is twice else times) for child in children(node))
    return cost


def _is_plain_call(node: Call, checked: Checked) -> bool:
    if node.function == "_+_":
        return set(checked.overloads[node]) <= _NUMERIC
    return node.function in _PLAIN or node.function.startswith("format.")
