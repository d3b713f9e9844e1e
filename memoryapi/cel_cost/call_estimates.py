"""What a call can cost at most, function by function: the rules of admission's estimate (Kubernetes 1.37).

Their numbers are part of the API: an expression is accepted or refused by them. The cost of evaluating the arguments
is not in them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeAlias

from controller.selectors.cost.factors import NEW_LIST, PER_CHARACTER, PER_REGEX_CHARACTER
from controller.selectors.language import types as t
from controller.selectors.language.syntax import Literal, Node
from controller.selectors.language.types import Type
from memoryapi.cel_cost.sizes import ONE, UNBOUNDED, UNKNOWN, Size, add, multiply, scale


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of a call; of a method the target is the first.

    Attributes:
        overload: upstream's id of the overload.
        nodes, types: of each argument.
        known: the size of each argument, where something is known.
        elements: the size of an element of each argument that is a list (UNKNOWN where nothing is known).
    """

    overload: str
    nodes: tuple[Node, ...]
    types: tuple[Type, ...]
    known: tuple[Size | None, ...]
    elements: tuple[Size, ...]

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The size of each argument, UNKNOWN where nothing is known."""
        return tuple([size or UNKNOWN for size in self.known])

    def number(self, at: int, otherwise: int) -> int:
        """The argument if it is a literal int (0 if negative), else ``otherwise``."""
        node = self.nodes[at]
        if isinstance(node, Literal) and type(node.value) is int:
            return max(node.value, 0)
        return otherwise


Estimate: TypeAlias = tuple[int, Size | None]
"""The most a call costs, and the size of its result where a rule tells."""
Rule: TypeAlias = Callable[[CallArguments], Estimate | None]
"""None: the rule says nothing about these arguments."""


def call(function: str, given: CallArguments) -> Estimate:
    """The most the call costs."""
    for rules, key in ((_BY_OVERLOAD, given.overload), (_BY_FUNCTION, function), (_STANDARD, given.overload)):
        rule = rules.get(key)
        if rule is not None and (found := rule(given)) is not None:
            return found
    return 1, None


def _one(_: CallArguments) -> Estimate:
    return 1, None


def _scanned(factor: float, *, at: int = 0, keeps_size: bool = False) -> Rule:
    def rule(given: CallArguments) -> Estimate:
        size = given.sizes[at]
        return scale(size.most, factor), size if keeps_size else None

    return rule


def _each_element(given: CallArguments) -> Estimate:
    """Functions that walk a list once; strings and bytes in it are compared character by character."""
    size, kind = given.sizes[0].most, given.types[0]
    if kind.of:
        text = kind.of[0].kind in ("string", "bytes")
        return multiply(size, add(1, scale(given.elements[0].most, PER_CHARACTER)) if text else 1), None
    return scale(size, PER_CHARACTER), None


def _includes(given: CallArguments) -> Estimate:
    return _each_element(given) if given.types[0].of else (given.sizes[0].most, None)


def _replace(given: CallArguments) -> Estimate:
    text, old, new = given.sizes[:3]
    cost = scale(text.most, 2 * PER_CHARACTER)
    return cost, Size(_shortest(text, old, new), _longest(text, old, new))


def _longest(text: Size, old: Size, new: Size) -> int:
    if old.least == 0:
        return add(multiply(min(text.most + 1, UNBOUNDED), new.most), text.most)
    if new.most <= old.least:
        return text.most
    return multiply(ceil(float(text.most) / float(old.least)), new.most)


def _shortest(text: Size, old: Size, new: Size) -> int:
    if old.most == 0:
        return add(multiply(min(text.least + 1, UNBOUNDED), new.least), text.least)
    if old.most <= new.least:
        return text.least
    return multiply(ceil(float(text.least) / float(old.most)), new.least)


def _split(given: CallArguments) -> Estimate:
    size = given.sizes[0]
    most = size.most
    if len(given.nodes) > 2 and isinstance(limit := given.nodes[2], Literal) and type(limit.value) is int:
        most = limit.value % (1 << 64)
    return scale(size.most, 2 * PER_CHARACTER), Size(0, most)


def _join(given: CallArguments) -> Estimate:
    count = given.sizes[0]
    size = count.times(given.elements[0]) if given.types[0].of else Size(0, 0)
    if len(given.sizes) > 1:
        size = size.plus(given.sizes[1].times(Size(max(count.least - 1, 0), max(count.most - 1, 0))))
    return scale(size.most, PER_CHARACTER), size


def _searched(text: Size, pattern: Size) -> int:
    """A regular expression on a text: at least one character, so that an empty text is not free."""
    return multiply(scale(add(text.most, 1), PER_CHARACTER), scale(pattern.most, PER_REGEX_CHARACTER))


def _find(given: CallArguments) -> Estimate:
    return _searched(given.sizes[0], given.sizes[1]), Size(0, given.sizes[0].most)


def _matches(given: CallArguments) -> Estimate:
    return _searched(given.sizes[0], given.sizes[1]), None


_ADDRESS_BYTES: Final = 16


def _contains_address(*, network: bool) -> Rule:
    def rule(given: CallArguments) -> Estimate:
        cost = scale(2 * _ADDRESS_BYTES, PER_CHARACTER)
        if network:
            cost += scale(_ADDRESS_BYTES, PER_CHARACTER) + 1
        if given.overload.endswith("_string"):
            cost = add(cost, scale(given.sizes[1].most, PER_CHARACTER))
        return cost, None

    return rule


def _validate(given: CallArguments) -> Estimate:
    longest_pattern = 128
    return scale(scale(given.sizes[1].most, PER_CHARACTER), longest_pattern * PER_REGEX_CHARACTER), None


def _equal(given: CallArguments) -> Estimate | None:
    """Equality of values of Kubernetes' own types."""
    left, right = given.types
    if left.kind != right.kind:
        return None
    match left.kind:
        case "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver":
            return 1, None
        case "kubernetes.NamedFormat":
            return scale(64, PER_CHARACTER), None
        case "kubernetes.URL":
            return scale((given.known[1] or ONE).most, PER_CHARACTER), None
    return None


def _compare(given: CallArguments) -> Estimate:
    return scale(min(size.most for size in given.sizes), PER_CHARACTER), None


def _to_bytes(given: CallArguments) -> Estimate:
    size = given.sizes[0]
    return scale(size.most, PER_CHARACTER), Size(size.least, size.most * 4 % (1 << 64))


def _from_bytes(given: CallArguments) -> Estimate:
    size = given.sizes[0]
    return scale(size.most, PER_CHARACTER), Size(size.least // 4, size.most)


def _quote(given: CallArguments) -> Estimate:
    size = given.sizes[0]
    return scale(size.most, PER_CHARACTER), Size((size.least + 2) % (1 << 64), (size.most * 2 + 2) % (1 << 64))


def _contains(given: CallArguments) -> Estimate:
    return multiply(scale(given.sizes[0].most, PER_CHARACTER), scale(given.sizes[1].most, PER_CHARACTER)), None


def _concatenate(given: CallArguments) -> Estimate:
    size = given.sizes[0].plus(given.sizes[1])
    return 1 if given.overload == "add_list" else scale(size.most, PER_CHARACTER), size


def _in_list(given: CallArguments) -> Estimate:
    return given.sizes[1].most, None


def _allocated(factor: float, size: Size) -> tuple[int, Size]:
    """A function that makes a list."""
    return add(scale(size.most, factor), 1, NEW_LIST), size


def _slice(given: CallArguments) -> Estimate:
    start, end = given.number(1, 0), given.number(2, given.sizes[0].most)
    size = (end - start) % (1 << 64)
    return _allocated(1, Size(size, size))


def _range(given: CallArguments) -> Estimate:
    size = given.number(0, UNBOUNDED)
    return _allocated(1, Size(size, size))


def _flatten(given: CallArguments) -> Estimate:
    depth = given.number(1, UNBOUNDED) if len(given.nodes) == 2 else 1
    return _allocated(float(depth), given.sizes[0])


def self_compared(size: Size, *, text: bool) -> tuple[int, Size]:
    """What orders a list or drops its duplicates compares each element with each."""
    return _allocated(2 + PER_CHARACTER if text else 2, size.times(size))


def _sort(*, text: bool) -> Rule:
    return lambda given: self_compared(given.sizes[0], text=text)


def _sets(factor: float) -> Rule:
    def rule(given: CallArguments) -> Estimate:
        return add(scale(given.sizes[0].times(given.sizes[1]).most, factor), 1), None

    return rule


_BY_OVERLOAD: Final[Mapping[str, Rule]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda given: _allocated(1, given.sizes[0]),
    "list_distinct": lambda given: self_compared(given.sizes[0], text=False),
    **dict.fromkeys([f"list_{kind}_sort" for kind in ("string", "bytes")], _sort(text=True)),
    **dict.fromkeys(
        [f"list_{kind}_sort" for kind in ("int", "uint", "double", "bool", t.DURATION.kind, t.TIMESTAMP.kind)],
        _sort(text=False),
    ),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_BY_FUNCTION: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each_element),
    "includes": _includes,
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _scanned(PER_CHARACTER, keeps_size=True)),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _scanned(PER_CHARACTER)
    ),
    "ip": lambda given: _one(given) if given.overload == "cidr_ip" else _scanned(PER_CHARACTER)(given),
    "ip.isCanonical": _scanned(2 * PER_CHARACTER),
    "containsIP": _contains_address(network=False),
    "containsCIDR": _contains_address(network=True),
    "validate": _validate,
    "_==_": _equal,
}
_STANDARD: Final[Mapping[str, Rule]] = {
    "string_format": _scanned(PER_CHARACTER),
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _from_bytes,
    "strings_quote": _quote,
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _scanned(PER_CHARACTER, at=1)),
    "in_list": _in_list,
    **dict.fromkeys(("matches", "matches_string"), _matches),
    "contains_string": _contains,
    **dict.fromkeys(("add_string", "add_bytes", "add_list"), _concatenate),
    **dict.fromkeys(
        [
            f"{order}_{kind}"
            for order in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ],
        _compare,
    ),
    **dict.fromkeys(("equals", "not_equals"), _compare),
}
