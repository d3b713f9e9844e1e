"""What a call costs at run time, as Kubernetes 1.37 counts: by function or overload, and the sizes of its arguments.

A rule is keyed by the overload's id where the static types leave only one, and by the function's name. Where several
overloads may run and no rule names the function, a call costs 1. Rules see the arguments as they are, failures too.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final, TypeAlias

from controller.selectors.cost.budget import Budget
from controller.selectors.cost.factors import NEW_LIST, PER_CHARACTER, PER_REGEX_CHARACTER
from controller.selectors.errors import Cancelled
from controller.selectors.values.types import Optional, kind

Rule: TypeAlias = Callable[[Budget, Sequence[Any], Any], int]
"""The cost of a call, of its arguments and its result (None where the rule does not look at that)."""


def size(value: Any) -> int:
    """Characters, bytes, elements or entries; 1 for what has none."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    match _kind(value):
        case "net.IP":
            width: int = value.raw.max_prefixlen
            return width // 8
        case "net.CIDR":
            bits: int = value.bits
            return ceil(bits / 8)
    return 1


def _kind(value: Any) -> str:
    return "error" if isinstance(value, Exception) else kind(value)


def _held(value: Any) -> int:
    while isinstance(value, Optional) and value.present:
        value = value.value
    return size(value)


def scan(amount: float) -> int:
    """The cost of reading so many characters, rounded up."""
    return ceil(amount * PER_CHARACTER)


def _scanned(times: int = 1, *, at: int = 0) -> Rule:
    return lambda _, args, __: ceil(float(size(args[at])) * times * PER_CHARACTER)


def _fixed(cost: int) -> Rule:
    return lambda *_: cost


def _traversed(budget: Budget, args: Sequence[Any], _: Any) -> int:
    return traversal(budget, args[0])


def traversal(budget: Budget, value: Any) -> int:
    """The cost of visiting all that ``value`` holds.

    Raises:
        BudgetSpent: that alone is too much.
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
        return sum([traversal(budget, part) for part in (*keys, *value.values())])
    return 1


def _searched(text: int, pattern: int) -> int:
    return ceil((1.0 + text) * PER_CHARACTER) * ceil(pattern * PER_REGEX_CHARACTER)


def _found(_: Budget, args: Sequence[Any], __: Any) -> int:
    return _searched(size(args[0]), size(args[1]))


def _contains_address(_: Budget, args: Sequence[Any], __: Any) -> int:
    return scan(2 * size(args[0]))


def _contains_network(_: Budget, args: Sequence[Any], __: Any) -> int:
    return scan(2 * size(args[0])) + scan(size(args[0])) + 1


def _parsed(contains: Rule) -> Rule:
    return lambda budget, args, result: contains(budget, args, result) + scan(size(args[1]))


_PATTERNS: Final = {
    "DNS1123Label": 30, "DNS1123Subdomain": 60, "DNS1035Label": 30, "QualifiedName": 60, "DNS1123LabelPrefix": 30,
    "DNS1123SubdomainPrefix": 60, "DNS1035LabelPrefix": 30, "LabelValue": 40, "URI": 1103, "uuid": 70, "byte": 84,
    "date": 71, "datetime": 71,
}  # fmt: skip
"""How long upstream takes the regular expression of a named format to be."""


def _validated(_: Budget, args: Sequence[Any], __: Any) -> int:
    return _searched(size(args[1]), _PATTERNS[args[0].name]) if _kind(args[0]) == "kubernetes.NamedFormat" else 1


_ONE_TO_COMPARE: Final = {
    "kubernetes.Quantity", "kubernetes.Semver", "net.IP", "net.CIDR", "kubernetes.NamedFormat", "kubernetes.URL",
}  # fmt: skip


def _equal(budget: Budget, args: Sequence[Any], _: Any) -> int:
    return 1 if _kind(args[0]) in _ONE_TO_COMPARE else _compared(budget, args, None)


def _compared(_: Budget, args: Sequence[Any], __: Any) -> int:
    return scan(min(_held(args[0]), _held(args[1])))


def _concatenated(_: Budget, args: Sequence[Any], __: Any) -> int:
    return scan(_held(args[0]) + _held(args[1]))


def _contains(_: Budget, args: Sequence[Any], __: Any) -> int:
    return scan(_held(args[0])) * scan(_held(args[1]))


def _joined(_: Budget, __: Sequence[Any], result: Any) -> int:
    return ceil(float(size(result)) * 2 * PER_CHARACTER)


def _listed(_: Budget, __: Sequence[Any], result: Any) -> int:
    return size(result) + 1 + NEW_LIST


def _flattened(_: Budget, args: Sequence[Any], __: Any) -> int:
    depth = args[1] if len(args) == 2 else 1
    if type(depth) is not int:
        raise Cancelled(f"flatten() takes an int for the depth, not {kind(depth)}")
    return int(size(args[0]) * float(depth if depth >= 0 else 1)) + 1 + NEW_LIST


def self_compared(values: Any) -> int:
    """The cost of ordering a list, or of dropping its duplicates: each element with each."""
    text = isinstance(values, list) and values and isinstance(values[0], str | bytes)
    return int(size(values) ** 2 * (2 + PER_CHARACTER if text else 2.0)) + 1 + NEW_LIST


def _ordered(_: Budget, args: Sequence[Any], __: Any) -> int:
    return self_compared(args[0])


def _sets(factor: int) -> Rule:
    return lambda _, args, __: 1 + size(args[0]) * size(args[1]) * factor


AFTER: Final = frozenset({"join", "lists_range", "list_slice", "list_reverse"})
"""Functions and overloads whose cost depends on the result. What they build is bounded by `Budget.grow` before."""
_COMPARING: Final = (
    "list_distinct", *(f"list_{kind}_sort" for kind in (
        "int", "uint", "double", "bool", "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp",
    ))
)  # fmt: skip
CANCELLING: Final[Mapping[str, int]] = {**dict.fromkeys(_COMPARING, 0), "list_flatten_int": 1}
"""Overloads whose rule upstream cannot apply if one argument failed, and which: evaluation ends, past any ``||``."""

_BY_OVERLOAD: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _listed),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flattened),
    **dict.fromkeys(_COMPARING, _ordered),
    **dict.fromkeys(("list_sets_contains_list", "list_sets_intersects_list"), _sets(1)),
    "list_sets_equivalent_list": _sets(2),
    "cidr_contains_ip_string": _parsed(_contains_address),
    "cidr_contains_cidr_string": _parsed(_contains_network),
}
_BY_FUNCTION: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traversed),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR", "quantity", "isQuantity",
         "semver", "isSemver"),
        _scanned(),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _scanned(2)),
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _found),
    "containsIP": _contains_address,
    "containsCIDR": _contains_network,
    "validate": _validated,
    "_==_": _equal,
}  # fmt: skip
_STANDARD: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), lambda _, args, __: scan(_held(args[1]))),
    **dict.fromkeys(
        ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        lambda _, args, __: scan(_held(args[0])),
    ),
    "in_list": lambda _, args, __: _held(args[1]),
    **dict.fromkeys(
        [f"{order}_{kind}" for order in ("less", "greater", "less_equals", "greater_equals")
         for kind in ("string", "bytes")],
        _compared,
    ),
    "not_equals": _compared,
    **dict.fromkeys(("add_string", "add_bytes"), _concatenated),
    **dict.fromkeys(("matches", "matches_string"), lambda _, args, __: _searched(_held(args[0]), _held(args[1]))),
    "contains_string": _contains,
}  # fmt: skip


def rule(function: str, overloads: Sequence[str]) -> Rule | None:
    """The rule for a call that may run one of ``overloads``; None if it costs 1."""
    overload = overloads[0] if len(overloads) == 1 else ""
    if function == "ip":
        return None if overload == "cidr_ip" else _scanned()
    return _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function) or _STANDARD.get(overload)
