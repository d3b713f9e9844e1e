"""The values of CEL at run time: Python's own where they behave alike, classes where they do not.

int, bool, str, bytes, float, None and list stand for themselves. Unsigned integers, optionals and types have classes
here; quantities, times, addresses, URLs and formats have modules of their own, and versions are `driver.semver`. Maps
are dicts. Their bool keys are wrapped, because ``True == 1`` in Python.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver.cel.errors import Cancelled, NoOverload, SelectorFault, no_overload
from driver.cel.releases import DeviceMaps
from driver.cel.values.addresses import Address, Network
from driver.cel.values.named_formats import NamedFormat
from driver.cel.values.quantities import CelQuantity
from driver.cel.values.timestamps import Duration, Timestamp
from driver.cel.values.urls import Url
from driver.model import UnreadableValue
from driver.semver import Semver

INT_MAX: Final = (1 << 63) - 1
INT_MIN: Final = -(1 << 63)
UINT_MAX: Final = (1 << 64) - 1

Implementation = Callable[..., Any]
"""The implementation of a function. Its arguments are the budget, then those of the call."""
Overloads = Mapping[tuple[str, ...] | int, Implementation]
"""Implementations by the run-time types of the arguments, or by their number if the implementation checks the types."""


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


class OpaqueKey:
    """A key of a map literal whose type cannot be used as an index.

    Keys that are times, addresses, types or null are equal if their values are. Others are equal only to themselves,
    because cel-go compares them by identity.
    """

    __slots__ = ("value",)

    def __init__(self, value: object):
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpaqueKey) or type(self.value) is not type(other.value):
            return False
        if isinstance(self.value, Duration | Timestamp | Address | Network | TypeValue):
            return str(self.value) == str(other.value)
        return self.value is other.value and not isinstance(self.value, CelQuantity | Identifiers | DeviceView)

    def __hash__(self) -> int:
        return hash(type(self.value))


class DeviceMap(dict[str, Any]):
    """A map of a device, by name. Values of any type may be looked up in it.

    Attributes:
        rules: how it treats keys that are not strings. Who makes the map sets it, which is faster than ``__init__``.
    """

    __slots__ = ("rules",)
    rules: DeviceMaps

    def key(self, value: Any) -> Any:
        """``value``, or the name that it stands for.

        Raises:
            SelectorFault: versions of Kubernetes differ in whether it stands for one of the names.
        """
        if self.rules is DeviceMaps.PLAIN or isinstance(value, str):
            return value
        name = text_of(value)
        if name not in self:
            return value
        if self.rules is DeviceMaps.UNCLEAR:
            raise SelectorFault(f"versions of Kubernetes differ in whether {name!r} is the key {value!r}; use a string")
        return name

    def equal(self, value: Any, other: Any) -> bool:
        """Whether a value of this map equals that of another one.

        Raises:
            NoOverload: they do not compare.
            SelectorFault: they do not compare, and versions of Kubernetes differ in what that means. Unlike the other
                fault, neither ``!=`` nor ``in`` makes a value of it.
        """
        try:
            return equal(value, other)
        except NoOverload:
            if self.rules is DeviceMaps.PROXIES:
                raise
        raise SelectorFault(
            "versions of Kubernetes differ in whether maps are equal whose values do not compare; "
            "compare the attributes one by one"
        )


class Domains(DeviceMap):
    """``device.attributes`` and ``device.capacity``. The look-up of an unknown domain returns an empty map."""

    __slots__ = ()


class Identifiers(DeviceMap):
    """The attributes or capacities of a device in one domain."""

    __slots__ = ()


class PartlyReadable(Identifiers):
    """Attributes of which some have no value that can be read: the look-up of such a value fails, as in Kubernetes.

    Their names are there, so that they count and can be iterated, but ``in`` denies them (``can_read``).
    """

    __slots__ = ("_domain",)

    def __init__(self, domain: str, values: Identifiers):
        super().__init__(values)
        self.rules = values.rules
        self._domain = domain

    def __getitem__(self, name: str) -> Any:
        """The value.

        Raises:
            SelectorFault: it cannot be read.
        """
        value = super().__getitem__(name)
        if isinstance(value, UnreadableValue):
            raise SelectorFault(
                f"attribute {self._domain}/{name} cannot be read; test first that "
                f'"{name}" in device.attributes["{self._domain}"]: {value.why}'
            )
        return value

    def can_read(self, name: object) -> bool:
        """Whether there is such a name, with a value that can be read."""
        return name in self and not isinstance(super().__getitem__(str(name)), UnreadableValue)

    def values(self) -> Any:
        """All values. Like ``items``, it fails, because it reads them all; what only counts asks ``dict``."""
        return [self[name] for name in self]

    def items(self) -> Any:
        """All names and values."""
        return [(name, self[name]) for name in self]


class DeviceView(dict[str, Any]):
    """The variable ``device``."""

    __slots__ = ()


EMPTY: Final[Mapping[str, Any]] = {}

_TYPE_NAMES: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Domains: "map",
    Identifiers: "map",
    PartlyReadable: "map",
    DeviceView: "map",
    Optional: "optional_type",
    TypeValue: "type",
    CelQuantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Address: "net.IP",
    Network: "net.CIDR",
    Url: "kubernetes.URL",
    NamedFormat: "kubernetes.NamedFormat",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
}


_NUMBERS: Final = (int, float)


def type_name(value: object) -> str:
    """The CEL name of the run-time type of ``value``."""
    return _TYPE_NAMES[type(value)]


def is_number(value: object) -> bool:
    """Whether ``value`` is an int, uint or double (a bool is not)."""
    return isinstance(value, _NUMBERS) and value.__class__ is not bool


def as_comparable(a: float, b: float) -> tuple[float, float]:
    """Two numbers as CEL compares them: as doubles if one of them is, which rounds large integers."""
    return (a, b) if isinstance(a, float) == isinstance(b, float) else (float(a), float(b))


def equal(a: Any, b: Any) -> bool:
    """CEL's ``==``: numbers are compared by value across types, everything else by type and value.

    Raises:
        NoOverload: Kubernetes cannot compare them (such as a version or quantity with another type on its right).
    """
    if is_number(a) and is_number(b):
        a, b = as_comparable(a, b)
        return bool(a == b)
    if a is None or b is None:
        return a is b
    match a:
        case Semver() | CelQuantity() | Address() | Network() | Url() | NamedFormat():
            return _equal_opaque(a, b)
        case list():
            return isinstance(b, list) and len(a) == len(b) and all(map(_equal_elements, a, b))
        case Optional():
            same = isinstance(b, Optional) and a.present == b.present
            return same and (not a.present or equal(a.value, b.value))
        case dict():
            return isinstance(b, dict) and _equal_maps(a, b)
    return type(a) is type(b) and bool(a == b)


def _equal_opaque(a: Any, b: Any) -> bool:
    if type(a) is not type(b) or (isinstance(b, CelQuantity) and b.computed):
        raise no_overload("_==_")
    match a:
        case CelQuantity():
            return bool(a.compare(b) == 0)
        case Url():
            return str(a) == str(b)
    return bool(a == b)


def _equal_elements(a: Any, b: Any) -> bool:
    """Whether elements of lists or maps are equal. A pair that cannot be compared counts as equal, as in Kubernetes."""
    try:
        return equal(a, b)
    except NoOverload:
        return True


def _equal_maps(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    if isinstance(b, DeviceMap) and not isinstance(a, DeviceMap):
        a = {b.key(key.value if isinstance(key, BoolKey) else key): value for key, value in a.items()}
    if isinstance(a, DeviceMap) and a.rules is not DeviceMaps.PLAIN:
        return len(a) == len(b) and all([key in b and a.equal(value, b[key]) for key, value in a.items()])
    return len(a) == len(b) and all(key in b and _equal_elements(value, b[key]) for key, value in a.items())


def lookup_key(value: Any) -> Any:
    """``value`` as a key to look up in a map. Numbers of different types with the same value are the same key.

    Raises:
        SelectorFault: values of this type cannot be keys.
    """
    if isinstance(value, bool):
        return BoolKey(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    raise SelectorFault(f"unsupported key type: {type_name(value)}")


def literal_key(value: Any) -> Any:
    """``value`` as a key of a map literal, which may be of almost any type.

    Raises:
        Cancelled: Kubernetes cannot store such a key, which ends the evaluation.
    """
    if isinstance(value, bool | str | int | float):
        return lookup_key(value)
    if type_name(value) in ("bytes", "kubernetes.Semver", "kubernetes.NamedFormat"):
        raise Cancelled(f"cannot be a key of a map: {type_name(value)}")
    return OpaqueKey(value)


def text_of(value: Any) -> str | None:
    """What ``string(value)`` returns, for values whose text may be a name; else None."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Address() | Network():
            return str(value)
        case float():
            return "NaN" if math.isnan(value) else repr(value).removesuffix(".0")
        case bytes():
            return value.decode(errors="replace")
        case TypeValue(name=name):
            return name
        case None:
            return "null"
    return None


def keys(map_: Iterable[Any]) -> list[Any]:
    """The keys of a map as CEL values."""
    return [key.value if type(key) in (BoolKey, OpaqueKey) else key for key in map_]


def checked_int(value: int) -> int:
    """``value`` if it fits a signed 64-bit integer.

    Raises:
        SelectorFault: it overflows.
    """
    if INT_MIN <= value <= INT_MAX:
        return value
    raise SelectorFault("integer overflow")


def checked_uint(value: int) -> UInt:
    """``value`` if it fits an unsigned 64-bit integer.

    Raises:
        SelectorFault: it overflows.
    """
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise SelectorFault("unsigned integer overflow")
