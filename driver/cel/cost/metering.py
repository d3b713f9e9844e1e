"""The expressions that need no metering: those that cannot reach a limit on any device that the API accepts.

Counting the cost doubles the time of an evaluation, so the compiler leaves it out where the text shows that it is not
needed: where the bound of the cost is at most `limits.PLAIN_COST`. The argument for the bound has two parts.

Nothing grows. Such an expression calls only functions in `_NOT_GROWING`, whose results are not larger than their
arguments, and does not build lists or maps from variables. So every string, list or map is at most as large as the
expression is long, or as the API lets an attribute be (`_LARGEST_VALUE`). The larger of the two is "the size" below.

Little is repeated. Each node is evaluated at most once, with two exceptions: Kubernetes evaluates the target of
optMap() and optFlatMap() twice, and the predicate of all(), exists() and existsOne() once for each element. So the cost
is at most the sum, over all nodes, of the number of evaluations times the highest cost of one evaluation at that size.
`cost_bound` computes this sum.
"""

from collections.abc import Mapping
from typing import Any, Final

from driver.cel.cost.budget import COST_LIMIT
from driver.cel.cost.factors import NEW_MAP
from driver.cel.language.checker import Checked
from driver.cel.language.syntax import (
    Bind,
    Call,
    Comprehension,
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
"""Above the cost of reading a whole attribute, and above its size: 48 values of 64 characters cost 48 x 6."""
_MOST_ELEMENTS: Final = 64
"""Above the number of elements of anything on a device: 48 values of a list, 32 attributes and capacities."""
_STEP_COST: Final = 5
"""Above the cost of the steps of a loop or of a chain of fields, for each of its nodes."""
_LOOPS: Final = frozenset({"all", "exists", "exists_one"})
_TRAVERSING: Final = frozenset({"@in", "includes", "isSorted", "min", "max", "sum", "indexOf", "lastIndexOf"})
"""Functions that visit all elements of a list, at a cost of 1 or more for each."""
_PRODUCT: Final = frozenset({"matches", "contains", "find", "validate"})
"""Functions whose cost is a fraction of the product of two sizes."""
_LONGEST_PATTERN: Final = 1103
"""The longest regular expression that Kubernetes assumes for validate()."""
_NOT_GROWING: Final = _PRODUCT | set(
    """
    _&&_ _||_ _?_:_ !_ -_ _==_ _!=_ _<_ _<=_ _>_ _>=_ @in
    _-_ _*_ _/_ _%_ bool double duration dyn int timestamp type uint
    size startsWith endsWith charAt substring indexOf lastIndexOf lowerAscii upperAscii
    trim includes isSorted min max sum first last
    quantity isQuantity compareTo isGreaterThan isLessThan asInteger isInteger
    asApproximateFloat sign add sub semver isSemver major minor patch
    ip isIP ip.isCanonical family isUnspecified isLoopback isLinkLocalMulticast
    isLinkLocalUnicast isGlobalUnicast cidr isCIDR containsIP containsCIDR masked isMask prefixLength
    optional.of optional.none optional.ofNonZeroValue hasValue value or orValue format.named
    getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes
    getSeconds getMilliseconds
    """.split()
)
_NUMERIC: Final = {"add_int64", "add_uint64", "add_double"}


def cost_bound(source: str, root: Node, checked: Checked, constants: Mapping[Node, Any]) -> int | None:
    """An upper bound of the cost of ``root``, or None if there is none within the limit by the argument above."""
    size = max(len(source), _LARGEST_VALUE)
    cost, binds, builds = 0, False, False
    waiting = [(root, 1)]
    while waiting:
        node, times = waiting.pop()
        if node in constants:
            continue
        match node:
            case Comprehension() if node.kind not in _LOOPS:
                return None
            case Call() if not _does_not_grow(node, checked):
                return None
            case Comprehension() | Bind() | OptionalMap():
                binds = True
            case ListOf() | MapOf():
                builds = True
        iterations = _iterations(node, constants, size)
        cost += times * (_STEP_COST * iterations if iterations else _highest_cost(node, size))
        if cost > COST_LIMIT or (binds and builds):
            return None
        for child in children(node):
            repeats = iterations if isinstance(node, Comprehension) and child is not node.range else 1
            targets = 2 if isinstance(node, OptionalMap) and child is node.target else 1
            waiting.append((child, times * repeats * targets))
    return cost


def _highest_cost(node: Node, size: int) -> int:
    """An upper bound of one evaluation of ``node`` without its operands."""
    match node:
        case Call(function=function):
            if function in _PRODUCT:
                return (size // 10 + 2) * (max(size, _LONGEST_PATTERN) // 4 + 2)
            return size + _LARGEST_VALUE if function in _TRAVERSING else size // 5 + _STEP_COST
        case ListOf() | MapOf():
            return NEW_MAP
    return _STEP_COST


def _iterations(node: Node, constants: Mapping[Node, Any], size: int) -> int:
    """The most iterations of a comprehension, and one for its end; 0 for other nodes."""
    if not isinstance(node, Comprehension):
        return 0
    elements = constants.get(node.range)
    if isinstance(elements, list | dict):
        return len(elements) + 1
    base = node.range
    while isinstance(base, Select | Index):
        base = base.operand
    return _MOST_ELEMENTS if isinstance(base, Name) and base.name == "device" else size + 1


def _does_not_grow(node: Call, checked: Checked) -> bool:
    if node.function == "_+_":
        return set(checked.overloads[node]) <= _NUMERIC
    return node.function in _NOT_GROWING or node.function.startswith("format.")
