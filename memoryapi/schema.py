"""The shape of every kind this API serves: field names, types, and how lists merge.

``schema.json`` is what a real kube-apiserver publishes about its kinds, cut down to that; a contract test compares the
two.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from driver.errors import Fault, InvalidInput
from driver.quantity import Quantity

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_INTEGERS = {"int32": 2**31, "int64": 2**63}


@dataclass(frozen=True, slots=True)
class Type:
    """What a field may hold, and how two writers' values of it are merged."""

    kind: str
    """``struct``, ``list``, ``map``, ``enum``, or the name of a scalar."""
    item: "Type | None" = None
    """Of a list's items or a map's values."""
    struct: str = ""
    keys: tuple[str, ...] = ()
    """Apply: the fields that tell a list's items apart; none means the list is written whole."""
    is_set: bool = False
    merge_key: str | None = None
    """Strategic merge: the field that tells items apart, "" for plain values; None means the list is replaced."""
    atomic: bool = False
    values: frozenset[str] = field(default=frozenset())


@dataclass(frozen=True, slots=True)
class Struct:
    """The fields of one type, those that must be there, and whether apply writes it whole."""

    fields: Mapping[str, Type]
    required: tuple[str, ...]
    atomic: bool


@cache
def _raw() -> Any:
    return json.loads(resources.files(__package__).joinpath("schema.json").read_text())


@cache
def struct(name: str) -> Struct:
    """The type of that name in schema.json."""
    raw = _raw()["types"][name]
    fields = {key: _type(value) for key, value in raw["fields"].items()}
    return Struct(fields, tuple(raw.get("required", ())), raw.get("atomic", False))


@cache
def kind(name: str) -> Type:
    """The type of a whole object, by its kind."""
    return Type("struct", struct=_raw()["kinds"][name])


def _type(raw: Any) -> Type:
    if isinstance(raw, str):
        return Type("struct", struct=raw[1:]) if raw.startswith("#") else Type(raw)
    if "map" in raw:
        return Type("map", item=_type(raw["map"]), atomic=raw.get("atomic", False))
    if "enum" in raw:
        return Type("enum", values=frozenset(raw["enum"]))
    return Type(
        "list",
        item=_type(raw["list"]),
        keys=tuple(raw.get("keys", ())),
        is_set=raw.get("set", False),
        merge_key=raw.get("merge"),
    )


def child(of: Type, name: str) -> Type | None:
    """The type of field ``name`` of an object or map; None if it has no such field."""
    if of.kind == "struct":
        return struct(of.struct).fields.get(name)
    return of.item if of.kind == "map" else None


@dataclass(slots=True)
class Reading:
    """What was found wrong while an object was read."""

    unknown: list[str]
    """Fields the kind does not have."""
    mistyped: list[Fault]
    """Values that cannot be read as the field's type."""
    faults: list[Fault]
    """Values of the right type that the kind refuses."""


def read(of: Type, value: Any) -> tuple[Any, Reading]:
    """A copy of ``value`` as the API stores it (no nulls, no empty lists, canonical quantities), and what is wrong."""
    reading = Reading([], [], [])
    return _read(of, value, "", reading), reading


def _read(of: Type, value: Any, path: str, reading: Reading) -> Any:
    match of.kind:
        case "struct":
            return _read_struct(of, value, path, reading)
        case "list":
            return _read_list(of, value, path, reading)
        case "map":
            return _read_map(of, value, path, reading)
        case "string":
            if type(value) is str:
                return value
            return str(value) if isinstance(value, str) else _mistyped(path, value, "a string", reading)
        case "object" | "any":
            return copy(value)
    return _read_scalar(of, value, path, reading)


def _read_scalar(of: Type, value: Any, path: str, reading: Reading) -> Any:
    match of.kind:
        case "bool":
            return value if isinstance(value, bool) else _mistyped(path, value, "a boolean", reading)
        case "int32" | "int64" as size:
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            fits = isinstance(whole, int) and not isinstance(whole, bool)
            limit = _INTEGERS[size]
            return whole if fits and -limit <= whole < limit else _mistyped(path, value, f"an {size}", reading)
        case "number":
            return value if isinstance(value, int | float) else _mistyped(path, value, "a number", reading)
        case "intstr":
            return value if isinstance(value, int | str) else _mistyped(path, value, "a number or string", reading)
        case "quantity":
            return _read_quantity(value, path, reading)
        case "time":
            if isinstance(value, str) and _TIME.fullmatch(value):
                return value
            return _mistyped(path, value, "an RFC 3339 time", reading)
    if not isinstance(value, str):
        return _mistyped(path, value, "a string", reading)
    if value and value not in of.values and not path.startswith("status."):
        choices = ", ".join(sorted(of.values))
        reading.faults.append(Fault(path, f"Unsupported value: {value!r}: supported values: {choices}"))
    return value


def _read_struct(of: Type, value: Any, path: str, reading: Reading) -> Any:
    if not isinstance(value, dict):
        return _mistyped(path, value, "an object", reading)
    known = struct(of.struct)
    copied = {}
    for name, content in value.items():
        found = known.fields.get(name)
        where = f"{path}.{name}" if path else name
        if found is None:
            reading.unknown.append(where)
        elif content is not None:
            stored = _read(found, content, where, reading)
            if stored or (stored != [] and (stored != {} or found.kind in ("struct", "object"))):
                copied[name] = stored
    for name in known.required:
        if name not in copied and not _may_be_empty(known.fields[name], value.get(name)):
            reading.faults.append(Fault(f"{path}.{name}" if path else name, "Required value"))
    return copied


def _may_be_empty(of: Type, value: Any) -> bool:
    return of.kind in ("string", "enum", "bool", "int32", "int64", "struct") or value is not None


def _read_list(of: Type, value: Any, path: str, reading: Reading) -> Any:
    if not isinstance(value, list | tuple):
        return _mistyped(path, value, "a list", reading)
    assert of.item
    item = of.item
    return [_read(item, part, f"{path}[{i}]", reading) for i, part in enumerate(value)]


def _read_map(of: Type, value: Any, path: str, reading: Reading) -> Any:
    if not isinstance(value, dict):
        return _mistyped(path, value, "an object", reading)
    assert of.item
    item = of.item
    return {
        str(name): _read(item, part, f"{path}[{name}]", reading) for name, part in value.items() if part is not None
    }


def _read_quantity(value: Any, path: str, reading: Reading) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _mistyped(path, value, "a quantity", reading)
    try:
        return canonical(str(value))
    except InvalidInput:
        return _mistyped(path, value, "a quantity such as 4Gi", reading)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """A quantity as the API server writes it."""
    return str(Quantity.parse(text))


def _mistyped(path: str, value: Any, wanted: str, reading: Reading) -> None:
    reading.mistyped.append(Fault(path, f"cannot read {value!r} as {wanted}"))


def copy(value: Any) -> Any:
    """A copy of a JSON value.

    Raises:
        TypeError: the value is not JSON.
    """
    if isinstance(value, dict):
        return {str(name): copy(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [copy(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    raise TypeError(f"{value!r} is not JSON")
