"""The most that a call can cost, by function: the rules of admission's estimate.

The numbers are part of the API, because they decide which expressions are accepted. They do not include the cost of
the arguments. Sources: ``checker/cost.go`` of cel-go and ``apiserver/pkg/cel/library/cost.go`` of Kubernetes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final, TypeAlias

from driver.cel.cost.factors import NEW_LIST, PER_CHARACTER, PER_REGEX_CHARACTER
from driver.cel.estimation.sizes import ONE, UNBOUNDED, UNKNOWN, Size, add, multiply, scale
from driver.cel.language import types as t
from driver.cel.language.syntax import Literal, Node
from driver.cel.language.types import Type


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The arguments of a call. The target of a method is the first.

    Attributes:
        overload: cel-go's id of the overload.
        nodes: the node of each argument.
        types: the static type of each argument.
        known: the size of each argument, or None if nothing is known about it.
        elements: the size of the elements of each argument; UNKNOWN if it is not a list or nothing is known.
    """

    overload: str
    nodes: tuple[Node, ...]
    types: tuple[Type, ...]
    known: tuple[Size | None, ...]
    elements: tuple[Size, ...]

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The size of each argument; UNKNOWN if nothing is known about it."""
        return tuple([size or UNKNOWN for size in self.known])

    def number(self, at: int, otherwise: int) -> int:
        """The argument at index ``at`` if it is a literal int (0 if negative), else ``otherwise``."""
        node = self.nodes[at]
        if isinstance(node, Literal) and type(node.value) is int:
            return max(node.value, 0)
        return otherwise


Estimate: TypeAlias = tuple[int, Size | None]
"""The most that a call can cost, and the size of its result or None."""
EstimateRule: TypeAlias = Callable[[CallArguments], Estimate | None]
"""Returns None if the rule does not apply to the arguments."""


def call(function: str, arguments: CallArguments, *, newer: bool = False) -> Estimate:
    """The most that the call can cost; by the rules of 1.38 if ``newer``."""
    of_overload, standard = (_NEWER, _NEWER_STANDARD) if newer else (_BY_OVERLOAD, _STANDARD)
    for rules, key in ((of_overload, arguments.overload), (_BY_FUNCTION, function), (standard, arguments.overload)):
        rule = rules.get(key)
        if rule is not None and (found := rule(arguments)) is not None:
            return found
    return 1, None


def _one(_: CallArguments) -> Estimate:
    return 1, None


def _scanned(factor: float, *, at: int = 0, keeps_size: bool = False) -> EstimateRule:
    def rule(arguments: CallArguments) -> Estimate:
        size = arguments.sizes[at]
        return scale(size.most, factor), size if keeps_size else None

    return rule


def _each_element(arguments: CallArguments) -> Estimate:
    """Functions that visit each element once, and each character of strings and bytes."""
    size, kind = arguments.sizes[0].most, arguments.types[0]
    if kind.of:
        text = kind.of[0].kind in ("string", "bytes")
        return multiply(size, add(1, scale(arguments.elements[0].most, PER_CHARACTER)) if text else 1), None
    return scale(size, PER_CHARACTER), None


def _includes(arguments: CallArguments) -> Estimate:
    return _each_element(arguments) if arguments.types[0].of else (arguments.sizes[0].most, None)


def _replace(arguments: CallArguments) -> Estimate:
    text, old, new = arguments.sizes[:3]
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


def _split(arguments: CallArguments) -> Estimate:
    size = arguments.sizes[0]
    most = size.most
    if len(arguments.nodes) > 2 and isinstance(limit := arguments.nodes[2], Literal) and type(limit.value) is int:
        most = limit.value % (1 << 64)
    return scale(size.most, 2 * PER_CHARACTER), Size(0, most)


def _join(arguments: CallArguments) -> Estimate:
    count = arguments.sizes[0]
    size = count.times(arguments.elements[0]) if arguments.types[0].of else Size(0, 0)
    if len(arguments.sizes) > 1:
        size = size.plus(arguments.sizes[1].times(Size(max(count.least - 1, 0), max(count.most - 1, 0))))
    return scale(size.most, PER_CHARACTER), size


def _searched(text: Size, pattern: Size) -> int:
    """The cost of searching a text. The text counts as one character longer, so that an empty one is not free."""
    return multiply(scale(add(text.most, 1), PER_CHARACTER), scale(pattern.most, PER_REGEX_CHARACTER))


def _find(arguments: CallArguments) -> Estimate:
    return _searched(arguments.sizes[0], arguments.sizes[1]), Size(0, arguments.sizes[0].most)


def _matches(arguments: CallArguments) -> Estimate:
    return _searched(arguments.sizes[0], arguments.sizes[1]), None


_ADDRESS_BYTES: Final = 16


def _contains_address(*, network: bool) -> EstimateRule:
    def rule(arguments: CallArguments) -> Estimate:
        cost = scale(2 * _ADDRESS_BYTES, PER_CHARACTER)
        if network:
            cost += scale(_ADDRESS_BYTES, PER_CHARACTER) + 1
        if arguments.overload.endswith("_string"):
            cost = add(cost, scale(arguments.sizes[1].most, PER_CHARACTER))
        return cost, None

    return rule


def _validate(arguments: CallArguments) -> Estimate:
    longest_pattern = 128
    return scale(scale(arguments.sizes[1].most, PER_CHARACTER), longest_pattern * PER_REGEX_CHARACTER), None


def _equal(arguments: CallArguments) -> Estimate | None:
    """Equality of values of the types that Kubernetes adds."""
    left, right = arguments.types
    if left.kind != right.kind:
        return None
    match left.kind:
        case "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver":
            return 1, None
        case "kubernetes.NamedFormat":
            return scale(64, PER_CHARACTER), None
        case "kubernetes.URL":
            return scale((arguments.known[1] or ONE).most, PER_CHARACTER), None
    return None


def _compare(arguments: CallArguments) -> Estimate:
    return scale(min(size.most for size in arguments.sizes), PER_CHARACTER), None


def _to_bytes(arguments: CallArguments) -> Estimate:
    size = arguments.sizes[0]
    return scale(size.most, PER_CHARACTER), Size(size.least, size.most * 4 % (1 << 64))


def _from_bytes(arguments: CallArguments) -> Estimate:
    size = arguments.sizes[0]
    return scale(size.most, PER_CHARACTER), Size(size.least // 4, size.most)


def _quote(arguments: CallArguments) -> Estimate:
    size = arguments.sizes[0]
    return scale(size.most, PER_CHARACTER), Size((size.least + 2) % (1 << 64), (size.most * 2 + 2) % (1 << 64))


def _contains(arguments: CallArguments) -> Estimate:
    return multiply(scale(arguments.sizes[0].most, PER_CHARACTER), scale(arguments.sizes[1].most, PER_CHARACTER)), None


def _concatenate(arguments: CallArguments) -> Estimate:
    size = arguments.sizes[0].plus(arguments.sizes[1])
    return 1 if arguments.overload == "add_list" else scale(size.most, PER_CHARACTER), size


def _in_list(arguments: CallArguments) -> Estimate:
    return arguments.sizes[1].most, None


def _allocated(factor: float, size: Size) -> tuple[int, Size]:
    """The cost of a function that builds a list of ``size``, and ``size``."""
    return add(scale(size.most, factor), 1, NEW_LIST), size


def _slice(arguments: CallArguments) -> Estimate:
    start, end = arguments.number(1, 0), arguments.number(2, arguments.sizes[0].most)
    size = (end - start) % (1 << 64)
    return _allocated(1, Size(size, size))


def _range(arguments: CallArguments) -> Estimate:
    size = arguments.number(0, UNBOUNDED)
    return _allocated(1, Size(size, size))


def _flatten(arguments: CallArguments) -> Estimate:
    depth = arguments.number(1, UNBOUNDED) if len(arguments.nodes) == 2 else 1
    return _allocated(float(depth), arguments.sizes[0])


def self_compared(size: Size, *, text: bool) -> tuple[int, Size]:
    """The cost of sorting a list or removing its duplicates, which compares each element with each."""
    return _allocated(2 + PER_CHARACTER if text else 2, size.times(size))


def _sort(*, text: bool) -> EstimateRule:
    return lambda arguments: self_compared(arguments.sizes[0], text=text)


def _sets(factor: float) -> EstimateRule:
    def rule(arguments: CallArguments) -> Estimate:
        return add(scale(arguments.sizes[0].times(arguments.sizes[1]).most, factor), 1), None

    return rule


_BY_OVERLOAD: Final[Mapping[str, EstimateRule]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda arguments: _allocated(1, arguments.sizes[0]),
    "list_distinct": lambda arguments: self_compared(arguments.sizes[0], text=False),
    **dict.fromkeys([f"list_{kind}_sort" for kind in ("string", "bytes")], _sort(text=True)),
    **dict.fromkeys(
        [f"list_{kind}_sort" for kind in ("int", "uint", "double", "bool", t.DURATION.kind, t.TIMESTAMP.kind)],
        _sort(text=False),
    ),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_BY_FUNCTION: Final[Mapping[str, EstimateRule]] = {
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
    "ip": lambda arguments: _one(arguments) if arguments.overload == "cidr_ip" else _scanned(PER_CHARACTER)(arguments),
    "ip.isCanonical": _scanned(2 * PER_CHARACTER),
    "containsIP": _contains_address(network=False),
    "containsCIDR": _contains_address(network=True),
    "validate": _validate,
    "_==_": _equal,
}
_STANDARD: Final[Mapping[str, EstimateRule]] = {
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


KEEP_ELEMENTS: Final = frozenset(
    {
        "list_slice",
        "list_flatten",
        "list_flatten_int",
        "list_reverse",
        "list_distinct",
        *(key for key in _BY_OVERLOAD if key.endswith("_sort")),
    }
)
"""Overloads whose result has the elements of the first argument, as far as 1.38 knows."""
_WITHOUT_BOUND: Final = UNBOUNDED // 1000
"""Costs from here on contain a size that has no bound, or an enormous one."""


def _whole(rule: EstimateRule) -> EstimateRule:
    """``rule`` for 1.38, where a part of what has no bound has none either."""

    def newer(arguments: CallArguments) -> Estimate | None:
        found = rule(arguments)
        return found if found is None or found[0] < _WITHOUT_BOUND else (UNBOUNDED, found[1])

    return newer


def _part_of_url(longer: int) -> EstimateRule:
    """A part of a URL, which is at most ``longer`` times as long as the URL."""
    return lambda arguments: (1, arguments.sizes[0].times(Size(1, longer)))


def _distinct(arguments: CallArguments) -> Estimate:
    of = arguments.types[0].of
    return self_compared(arguments.sizes[0], text=bool(of) and of[0].kind in ("string", "bytes"))


def _built(size: Size) -> Estimate:
    return add(size.most, 1, NEW_LIST), size


_NEWER: Final[Mapping[str, EstimateRule]] = {
    **_BY_OVERLOAD,
    "lists_range": lambda arguments: _built(_range(arguments)[1] or UNKNOWN),
    "list_reverse": lambda arguments: _built(arguments.sizes[0]),
    "list_distinct": _distinct,
    **dict.fromkeys(
        ("url_get_scheme", "url_get_host", "url_get_hostname", "url_get_port", "url_get_query"), _part_of_url(1)
    ),
    "url_get_escaped_path": _part_of_url(3),
}
"""The rules of 1.38."""
_NEWER_STANDARD: Final[Mapping[str, EstimateRule]] = {
    key: rule if rule is _compare else _whole(rule) for key, rule in _STANDARD.items()
}
