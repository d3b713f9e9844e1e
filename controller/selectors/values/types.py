"""What CEL computes with at run time: Python values where they fit, a few classes where they do not.

int, bool, str, bytes, float and None are themselves; unsigned integers, optionals, types, quantities and versions
have classes here, times, addresses, URLs and formats in modules of their own. Maps are dicts whose bool keys are
wrapped, because Python holds ``True == 1``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, Final

from controller.selectors.errors import Cancelled, NoOverload, SelectorFault, no_overload
from controller.selectors.values.addresses import Address, Network
from controller.selectors.values.named_formats import Format
from controller.selectors.values.quantities import Amount
from controller.selectors.values.timestamps import Duration, Timestamp
from controller.selectors.values.urls import Url

INT_MAX: Final = (1 << 63) - 1
INT_MIN: Final = -(1 << 63)
UINT_MAX: Final = (1 << 64) - 1

Impl = Callable[..., Any]
"""What a function does: called with the budget and the arguments."""
Table = Mapping[tuple[str, ...] | int, Impl]
"""Implementations by the run-time types of the arguments; one keyed by a number checks that many arguments itself."""


class UInt(int):
    """An unsigned 64-bit integer; equal to the int of the same value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    present: bool
    value: Any = None


NONE: Final = Optional(False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type used as a value, as in ``type(x) == int``."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A bool as a key of a map."""

    value: bool


class OddKey:
    """A key of a type that indexing refuses: a moment, address, type or null equals its like, anything else itself."""

    __slots__ = ("value",)

    def __init__(self, value: object):
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OddKey) or type(self.value) is not type(other.value):
            return False
        if isinstance(self.value, Duration | Timestamp | Address | Network | TypeValue):
            return str(self.value) == str(other.value)
        return self.value is other.value and not isinstance(self.value, Amount | Identifiers | Device)

    def __hash__(self) -> int:
        return hash(type(self.value))


class Domains(dict[str, Any]):
    """``device.attributes`` and ``device.capacity``: looking up an unknown domain gives an empty map."""

    __slots__ = ()


class Identifiers(dict[str, Any]):
    """What a device has in one domain; unlike a map literal it can be asked for anything, and has only texts."""

    __slots__ = ()


class Device(dict[str, Any]):
    """The variable ``device``."""

    __slots__ = ()


EMPTY: Final[Mapping[str, Any]] = {}

_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version; build metadata plays no part in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[tuple[int, int, str], ...] = ()
    rank: tuple[Any, ...] = field(init=False, repr=False)
    """What decides the order."""

    @classmethod
    def parse(cls, text: str) -> "Semver":
        """The version written in ``text``, strictly by semver.org 2.0.0.

        Raises:
            ValueError: it is none.
        """
        found = _SEMVER.fullmatch(text)
        if not found:
            raise ValueError(f"{text!r} is no semantic version such as 1.2.3")
        numbers = tuple(int(found[i]) for i in (1, 2, 3))
        pre = tuple(_identifier(part) for part in found[4].split(".")) if found[4] else ()
        if max(numbers) > UINT_MAX or (found[5] and not all(found[5].split("."))):
            raise ValueError(f"{text!r} is no semantic version such as 1.2.3")
        return cls(int(found[1]), int(found[2]), int(found[3]), pre)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", (self.major, self.minor, self.patch, not self.pre, self.pre))

    def __eq__(self, other: object) -> bool:
        return self.rank == other.rank if isinstance(other, Semver) else NotImplemented

    def __lt__(self, other: "Semver") -> bool:
        return self.rank < other.rank

    def __hash__(self) -> int:
        return hash(self.rank)


def _identifier(part: str) -> tuple[int, int, str]:
    """A pre-release identifier in an order: numbers first, by value; then text."""
    if not part or (part.isdigit() and len(part) > 1 and part[0] == "0"):
        raise ValueError(f"pre-release part {part!r} is empty or has a leading zero")
    return (0, int(part), "") if part.isdigit() else (1, 0, part)


_KINDS: Final[Mapping[type, str]] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null_type",
    list: "list", dict: "map", Domains: "map", Identifiers: "map", Device: "map", Optional: "optional_type",
    TypeValue: "type", Amount: "kubernetes.Quantity", Semver: "kubernetes.Semver", Address: "net.IP",
    Network: "net.CIDR", Url: "kubernetes.URL", Format: "kubernetes.NamedFormat",
    Duration: "google.protobuf.Duration", Timestamp: "google.protobuf.Timestamp",
}  # fmt: skip


def kind(value: object) -> str:
    """The run-time type of ``value``, by its CEL name."""
    return _KINDS[type(value)]


def is_number(value: object) -> bool:
    """Whether ``value`` is an int, uint or double (a bool is not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def comparable(a: float, b: float) -> tuple[float, float]:
    """Two numbers as they are compared: as doubles if one of them is, which cannot tell large integers apart."""
    return (a, b) if isinstance(a, float) == isinstance(b, float) else (float(a), float(b))


def equal(a: Any, b: Any) -> bool:
    """CEL's ``==``: numbers by value across types, everything else by type and value.

    Raises:
        NoOverload: where upstream refuses to compare (a version or quantity with something else on its right).
    """
    if is_number(a) and is_number(b):
        a, b = comparable(a, b)
        return bool(a == b)
    if a is None or b is None:
        return a is b
    match a:
        case Semver() | Amount() | Address() | Network() | Url() | Format():
            return _equal_opaque(a, b)
        case list():
            return isinstance(b, list) and len(a) == len(b) and all(map(_alike, a, b))
        case Optional():
            same = isinstance(b, Optional) and a.present == b.present
            return same and (not a.present or equal(a.value, b.value))
        case dict():
            return isinstance(b, dict) and _equal_maps(a, b)
    return type(a) is type(b) and bool(a == b)


def _equal_opaque(a: Any, b: Any) -> bool:
    if type(a) is not type(b) or (isinstance(b, Amount) and b.computed):
        raise no_overload("_==_")
    match a:
        case Amount():
            return bool(a.compare(b) == 0)
        case Url():
            return str(a) == str(b)
    return bool(a == b)


def _alike(a: Any, b: Any) -> bool:
    """Elements of lists and maps: a pair that cannot be compared does not make them differ, as upstream has it."""
    try:
        return equal(a, b)
    except NoOverload:
        return True


def _equal_maps(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    return len(a) == len(b) and all(key in b and _alike(value, b[key]) for key, value in a.items())


def key_of(value: Any) -> Any:
    """``value`` as a key to look up in a map: of numbers, only the value counts.

    Raises:
        SelectorFault: values of this type are no keys.
    """
    if isinstance(value, bool):
        return BoolKey(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    raise SelectorFault(f"unsupported key type: {kind(value)}")


def key_in(value: Any) -> Any:
    """``value`` as a key of a map literal, which may be of nearly any type.

    Raises:
        Cancelled: upstream cannot keep it; evaluation ends.
    """
    if isinstance(value, bool | str | int | float):
        return key_of(value)
    if kind(value) in ("bytes", "kubernetes.Semver", "kubernetes.NamedFormat"):
        raise Cancelled(f"a value of type {kind(value)} cannot be the key of a map")
    return OddKey(value)


def keys(map_: Iterable[Any]) -> list[Any]:
    """The keys of a map as CEL values."""
    return [key.value if type(key) in (BoolKey, OddKey) else key for key in map_]


def whole(value: int) -> int:
    """``value`` if it fits a signed 64-bit integer.

    Raises:
        SelectorFault: it overflows.
    """
    if INT_MIN <= value <= INT_MAX:
        return value
    raise SelectorFault("integer overflow")


def unsigned(value: int) -> UInt:
    """``value`` if it fits an unsigned 64-bit integer.

    Raises:
        SelectorFault: it overflows.
    """
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise SelectorFault("unsigned integer overflow")
