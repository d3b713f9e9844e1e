"""The table of all functions, by name and by the run-time types of their arguments.

An implementation that is keyed by a number takes that many arguments of any type and checks them itself.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import SelectorFault, no_overload
from driver.cel.library import collections, formatting, network, strings, timestamps, versions
from driver.cel.releases import KubernetesRelease
from driver.cel.values.runtime import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    Implementation,
    Optional,
    Overloads,
    TypeValue,
    UInt,
    as_comparable,
    checked_int,
    checked_uint,
    is_number,
    type_name,
)
from driver.cel.values.timestamps import MIN_UNIX, SECOND, Duration, Timestamp


def _add_lists(budget: CostBudget, a: list[Any], b: list[Any]) -> list[Any]:
    budget.grow(len(a) + len(b))
    return a + b


def _add_texts(budget: CostBudget, a: Any, b: Any) -> Any:
    budget.grow(len(a) + len(b))
    return a + b


def _divide(_: CostBudget, a: int, b: int) -> int:
    if b == 0:
        raise SelectorFault("division by zero")
    quotient = abs(a) // abs(b)
    return checked_int(quotient if (a < 0) == (b < 0) else -quotient)


def _modulo(_: CostBudget, a: int, b: int) -> int:
    if b == 0:
        raise SelectorFault("modulus by zero")
    if a == INT_MIN and b == -1:
        raise SelectorFault("integer overflow")
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def _divide_unsigned(_: CostBudget, a: UInt, b: UInt) -> UInt:
    if b == 0:
        raise SelectorFault("division by zero")
    return UInt(int(a) // int(b))


def _modulo_unsigned(_: CostBudget, a: UInt, b: UInt) -> UInt:
    if b == 0:
        raise SelectorFault("modulus by zero")
    return UInt(int(a) % int(b))


def _divide_doubles(_: CostBudget, a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


def _multiply_doubles(_: CostBudget, a: float, b: float) -> float:
    return a * b


_II, _UU, _DD, _SS, _BB = (("int",) * 2, ("uint",) * 2, ("double",) * 2, ("string",) * 2, ("bytes",) * 2)

_ARITHMETIC: dict[str, Overloads] = {
    "_+_": {
        _II: lambda _, a, b: checked_int(a + b),
        _UU: lambda _, a, b: checked_uint(int(a) + int(b)),
        _DD: lambda _, a, b: a + b,
        _SS: _add_texts,
        _BB: _add_texts,
        ("list", "list"): _add_lists,
        **timestamps.ARITHMETIC["_+_"],
    },
    "_-_": {
        _II: lambda _, a, b: checked_int(a - b),
        _UU: lambda _, a, b: checked_uint(int(a) - int(b)),
        _DD: lambda _, a, b: a - b,
        **timestamps.ARITHMETIC["_-_"],
    },
    "_*_": {
        _II: lambda _, a, b: checked_int(a * b),
        _UU: lambda _, a, b: checked_uint(int(a) * int(b)),
        _DD: _multiply_doubles,
    },
    "_/_": {_II: _divide, _UU: _divide_unsigned, _DD: _divide_doubles},
    "_%_": {_II: _modulo, _UU: _modulo_unsigned},
    "-_": {("int",): lambda _, a: checked_int(-a), ("double",): lambda _, a: -a, **timestamps.ARITHMETIC["-_"]},
    "!_": {("bool",): lambda _, a: not a},
}


def _compare_nan(refuses_nan: bool) -> bool:
    if refuses_nan:
        raise SelectorFault("NaN has no order")
    return False


def _comparison(holds: Callable[[Any, Any], bool], *, refuses_nan: bool) -> Overloads:
    def compare(_: CostBudget, a: Any, b: Any) -> bool:
        if a.__class__ is int and b.__class__ is int:
            return holds(a, b)
        if is_number(a) and is_number(b):
            if a != a or b != b:
                return _compare_nan(refuses_nan)
            return holds(*as_comparable(a, b))
        if type(a) is type(b) and isinstance(a, bool | str | bytes | Duration | Timestamp):
            return holds(a, b)
        if not refuses_nan and any(isinstance(value, float) and math.isnan(value) for value in (a, b)):
            return False
        raise no_overload("comparison")

    return {2: compare}


def _comparisons(*, refuses_nan: bool) -> dict[str, Overloads]:
    return {
        "_<_": _comparison(lambda a, b: a < b, refuses_nan=refuses_nan),
        "_<=_": _comparison(lambda a, b: a <= b, refuses_nan=refuses_nan),
        "_>_": _comparison(lambda a, b: a > b, refuses_nan=refuses_nan),
        "_>=_": _comparison(lambda a, b: a >= b, refuses_nan=refuses_nan),
    }


def _int_from_double(_: CostBudget, value: float) -> int:
    if math.isnan(value) or not INT_MIN < value < INT_MAX:
        raise SelectorFault("integer overflow")
    return int(value)


def _uint_from_double(_: CostBudget, value: float) -> UInt:
    if math.isnan(value) or not 0 <= value < UINT_MAX:
        raise SelectorFault("unsigned integer overflow")
    return UInt(int(value))


def _type_of(_: CostBudget, value: Any) -> TypeValue:
    return TypeValue(type_name(value))


_CONVERSIONS: dict[str, Overloads] = {
    "int": {
        ("int",): lambda _, v: v,
        ("uint",): lambda _, v: checked_int(int(v)),
        ("double",): _int_from_double,
        ("string",): strings.to_int,
        **timestamps.ARITHMETIC["int"],
    },
    "uint": {
        ("uint",): lambda _, v: v,
        ("int",): lambda _, v: checked_uint(v),
        ("double",): _uint_from_double,
        ("string",): strings.to_uint,
    },
    "double": {
        ("double",): lambda _, v: v,
        ("int",): lambda _, v: float(v),
        ("uint",): lambda _, v: float(v),
        ("string",): strings.to_double,
    },
    "bool": {("bool",): lambda _, v: v, ("string",): strings.to_bool},
    "bytes": {("bytes",): lambda _, v: v, ("string",): lambda _, v: v.encode()},
    "string": {
        ("string",): lambda _, v: v,
        ("bool",): lambda _, v: "true" if v else "false",
        ("int",): lambda _, v: str(v),
        ("uint",): lambda _, v: str(int(v)),
        ("double",): lambda _, v: strings.from_double(v),
        ("bytes",): strings.from_bytes,
        **timestamps.ARITHMETIC["string"],
        **network.TEXTS,
    },
    "dyn": {1: lambda _, v: v},
    "type": {1: _type_of},
}


def _value(_: CostBudget, a: Optional) -> Any:
    if not a.present:
        raise SelectorFault("optional.none() dereference")
    return a.value


def _of_non_zero(_: CostBudget, value: Any) -> Optional:
    zero = value is None or (isinstance(value, str | bytes | list | dict | bool | int | float) and not value)
    if isinstance(value, Duration):
        zero = value.nanos == 0
    if isinstance(value, Timestamp):
        zero = value.nanos == MIN_UNIX * SECOND
    return NONE if zero else Optional(True, value)


def _unwrap(_: CostBudget, values: list[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, Optional):
            raise SelectorFault(f"value {type_name(value)} is not optional")
    return [value.value for value in values if value.present]


def _includes(_: CostBudget, target: Any, value: Any) -> bool:
    if isinstance(target, list):
        return any(collections.same(element, value) for element in target)
    return collections.same(target, value)


_OPTIONALS: dict[str, Overloads] = {
    "optional.of": {1: lambda _, v: Optional(True, v)},
    "optional.none": {(): lambda _: NONE},
    "optional.ofNonZeroValue": {1: _of_non_zero},
    "optional.unwrap": {("list",): _unwrap},
    "unwrapOpt": {("list",): _unwrap},
    "hasValue": {("optional_type",): lambda _, v: v.present},
    "value": {("optional_type",): _value},
    "includes": {2: _includes},
}

_AUTHORIZER: dict[str, Overloads] = {
    name: {}
    for name in """
    allowed check error errored fieldSelector group labelSelector name namespace path reason resource serviceAccount
    subresource
    """.split()
}
"""Declared in every CEL environment of Kubernetes. Selectors have no authorizer, so their calls find no overload."""

__all__ = ["FUNCTIONS", "Implementation", "Overloads", "functions"]

FUNCTIONS: Mapping[str, Overloads] = {
    **_AUTHORIZER,
    **_ARITHMETIC,
    **_comparisons(refuses_nan=True),
    **_CONVERSIONS,
    **_OPTIONALS,
    **strings.FUNCTIONS,
    **collections.FUNCTIONS,
    **versions.FUNCTIONS,
    **timestamps.FUNCTIONS,
    **network.FUNCTIONS,
    **formatting.FUNCTIONS,
}
_ORDERING_NAN: Mapping[str, Overloads] = {**FUNCTIONS, **_comparisons(refuses_nan=False)}


def functions(release: KubernetesRelease) -> Mapping[str, Overloads]:
    """All functions, as they behave in a version of Kubernetes."""
    return FUNCTIONS if release.refuses_nan else _ORDERING_NAN
