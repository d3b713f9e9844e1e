"""The cost of a call at run time, as Kubernetes counts it: by function or overload and the sizes of its arguments.

A rule is keyed by the id of the overload, where the static types leave only one, or by the name of the function. If
several overloads may run and no rule names the function, the call costs 1. CostRules see the arguments as they are; a
fault takes the place of an argument that failed.

Sources: ``interpreter/runtimecost.go`` of cel-go for the standard functions, and ``apiserver/pkg/cel/library/cost.go``
of Kubernetes for its libraries. Some roundings differ from those of the estimate, as they do there.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final, TypeAlias

from driver.cel.cost.budget import CostBudget
from driver.cel.cost.factors import NEW_LIST, PER_CHARACTER, PER_REGEX_CHARACTER
from driver.cel.errors import Cancelled
from driver.cel.language.environment import SORT_KEYS
from driver.cel.releases import KubernetesRelease
from driver.cel.values.runtime import Optional, type_name

CostRule: TypeAlias = Callable[[CostBudget, Sequence[Any], Any], int]
"""The cost of a call from its arguments and its result (None if the rule does not need it)."""


def size(value: Any) -> int:
    """The number of characters, bytes, elements or entries; 1 for other values."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    match _type_or_error(value):
        case "net.IP":
            width: int = value.raw.max_prefixlen
            return width // 8
        case "net.CIDR":
            bits: int = value.bits
            return ceil(bits / 8)
    return 1


def _type_or_error(value: Any) -> str:
    return "error" if isinstance(value, Exception) else type_name(value)


def _size_inside(value: Any) -> int:
    while isinstance(value, Optional) and value.present:
        value = value.value
    return size(value)


def scan(amount: float) -> int:
    """The cost of reading ``amount`` characters, rounded up."""
    return ceil(amount * PER_CHARACTER)


def _scanned(times: int = 1, *, at: int = 0) -> CostRule:
    return lambda _, args, __: ceil(float(size(args[at])) * times * PER_CHARACTER)


def _fixed(cost: int) -> CostRule:
    return lambda *_: cost


def _traversed(budget: CostBudget, args: Sequence[Any], _: Any) -> int:
    return traversal(budget, args[0])


def traversal(budget: CostBudget, value: Any) -> int:
    """The cost of visiting every element inside ``value``.

    Raises:
        BudgetExceeded: there are too many.
    """
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * PER_CHARACTER)
    if isinstance(value, bytes):
        return int(len(value) * PER_CHARACTER)
    if isinstance(value, list):
        budget.spend(len(value))
        return sum([traversal(budget, element) for element in value])
    if isinstance(value, dict):
        budget.spend(len(value))
        keys = [key if isinstance(key, str) else None for key in value]
        return sum([traversal(budget, part) for part in (*keys, *dict.values(value))])
    return 1


def _searched(text: int, pattern: int) -> int:
    return ceil((1.0 + text) * PER_CHARACTER) * ceil(pattern * PER_REGEX_CHARACTER)


def _found(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return _searched(size(args[0]), size(args[1]))


def _matched(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return _searched(_size_inside(args[0]), _size_inside(args[1]))


def _contains_address(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return scan(2 * size(args[0]))


def _contains_network(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return scan(2 * size(args[0])) + scan(size(args[0])) + 1


def _parsed(contains: CostRule) -> CostRule:
    return lambda budget, args, result: contains(budget, args, result) + scan(size(args[1]))


_PATTERN_LENGTHS: Final = {
    **dict.fromkeys(("DNS1123Label", "DNS1123LabelPrefix", "DNS1035Label", "DNS1035LabelPrefix"), 30),
    **dict.fromkeys(("DNS1123Subdomain", "DNS1123SubdomainPrefix", "QualifiedName"), 60),
    "LabelValue": 40,
    "URI": 1103,
    "uuid": 70,
    "byte": 84,
    "date": 71,
    "datetime": 71,
}
"""The length that Kubernetes assumes for the regular expression of each named format."""


def _validated(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return (
        _searched(size(args[1]), _PATTERN_LENGTHS[args[0].name])
        if _type_or_error(args[0]) == "kubernetes.NamedFormat"
        else 1
    )


_ONE_TO_COMPARE: Final = {
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
    "kubernetes.URL",
    "net.IP",
    "net.CIDR",
}


def _equal(budget: CostBudget, args: Sequence[Any], _: Any) -> int:
    return 1 if _type_or_error(args[0]) in _ONE_TO_COMPARE else _compared(budget, args, None)


def _compared(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return scan(min(_size_inside(args[0]), _size_inside(args[1])))


def _concatenated(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return scan(_size_inside(args[0]) + _size_inside(args[1]))


def _contains(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return scan(_size_inside(args[0])) * scan(_size_inside(args[1]))


def _joined(_: CostBudget, __: Sequence[Any], result: Any) -> int:
    return ceil(float(size(result)) * 2 * PER_CHARACTER)


def _listed(_: CostBudget, __: Sequence[Any], result: Any) -> int:
    return size(result) + 1 + NEW_LIST


def _made(_: CostBudget, __: Sequence[Any], result: Any) -> int:
    return (0 if isinstance(result, Exception) else size(result)) + 1 + NEW_LIST


def _flattened(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    depth = args[1] if len(args) == 2 else 1
    if type(depth) is not int:
        raise Cancelled(f"the depth of flatten() must be an int, not: {type_name(depth)}")
    return int(size(args[0]) * float(depth if depth >= 0 else 1)) + 1 + NEW_LIST


def self_compared(values: Any) -> int:
    """The cost of sorting a list, or of removing its duplicates: each element is compared with each."""
    text = isinstance(values, list) and values and isinstance(values[0], str | bytes)
    return int(size(values) ** 2 * (2 + PER_CHARACTER if text else 2.0)) + 1 + NEW_LIST


def _ordered(_: CostBudget, args: Sequence[Any], __: Any) -> int:
    return self_compared(args[0])


def _sets(factor: int) -> CostRule:
    return lambda _, args, __: 1 + size(args[0]) * size(args[1]) * factor


AFTER: Final = frozenset({"join", "lists_range", "list_slice", "list_reverse"})
"""Functions and overloads whose cost depends on the result. `CostBudget.grow` limits these before they run."""
_COMPARING: Final = ("list_distinct", *(f"list_{kind}_sort" for kind in SORT_KEYS))
CANCELLING: Final[Mapping[str, int]] = {**dict.fromkeys(_COMPARING, 0), "list_flatten_int": 1}
"""Overloads whose rule cel-go cannot apply if a certain argument failed, by the index of that argument. The failure
ends the evaluation, and ``||`` does not absorb it."""

_LISTING: Final = ("list_slice", "lists_range", "list_reverse")
_BY_OVERLOAD: Final[Mapping[str, CostRule]] = {
    **dict.fromkeys(_LISTING, _listed),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flattened),
    **dict.fromkeys(_COMPARING, _ordered),
    **dict.fromkeys(("list_sets_contains_list", "list_sets_intersects_list"), _sets(1)),
    "list_sets_equivalent_list": _sets(2),
    "cidr_contains_ip_string": _parsed(_contains_address),
    "cidr_contains_cidr_string": _parsed(_contains_network),
}
_BY_FUNCTION: Final[Mapping[str, CostRule]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traversed),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _scanned()),
    **dict.fromkeys(("url", "cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _scanned()),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _scanned(2)),
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _found),
    "containsIP": _contains_address,
    "containsCIDR": _contains_network,
    "validate": _validated,
    "_==_": _equal,
}
_STANDARD: Final[Mapping[str, CostRule]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), lambda _, args, __: scan(_size_inside(args[1]))),
    **dict.fromkeys(
        ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        lambda _, args, __: scan(_size_inside(args[0])),
    ),
    "in_list": lambda _, args, __: _size_inside(args[1]),
    **dict.fromkeys(("less_string", "greater_string", "less_equals_string", "greater_equals_string"), _compared),
    **dict.fromkeys(("less_bytes", "greater_bytes", "less_equals_bytes", "greater_equals_bytes"), _compared),
    "not_equals": _compared,
    **dict.fromkeys(("add_string", "add_bytes"), _concatenated),
    **dict.fromkeys(("matches", "matches_string"), _matched),
    "contains_string": _contains,
}


SLOW: Final[Mapping[str, int]] = {
    **dict.fromkeys(("ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "containsIP", "containsCIDR"), 60),
    **dict.fromkeys(("url", "isURL", "validate", "timestamp", "semver", "isSemver", "quantity", "isQuantity"), 10),
    **dict.fromkeys(("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"), 100),
    **dict.fromkeys(("getHours", "getMinutes", "getSeconds", "getMilliseconds"), 100),
}
"""Functions that take longer than their cost in Kubernetes says, and how many visits of elements take as long: those
that parse, and those that look for a time zone."""


def cost_rule(function: str, overloads: Sequence[str], release: KubernetesRelease) -> CostRule | None:
    """The rule of a call that may run any of ``overloads``; None if the call costs 1."""
    overload = overloads[0] if len(overloads) == 1 else ""
    if overload in _LISTING and not release.charges_failed:
        return _made
    if function == "ip":
        return None if overload == "cidr_ip" else _scanned()
    return _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function) or _STANDARD.get(overload)
