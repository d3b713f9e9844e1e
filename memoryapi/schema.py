"""The shape of every kind that this API serves: field names, types, and how lists merge.

``schema.json`` is the part that is needed of what real kube-apiservers publish about their kinds (of the Kubernetes
Authors, Apache-2.0): what all supported versions allow that serve these kinds. Contract tests compare it with them.
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
_CUSTOM = "custom resource"
_INTEGERS = {"int32": 2**31, "int64": 2**63}


@dataclass(frozen=True, slots=True)
class FieldType:
    """The values a field may have, and how a patch of a list is merged."""

    kind: str
    """``struct``, ``list``, ``map``, ``enum``, or the name of a scalar."""
    item: "FieldType | None" = None
    """The type of a list's items or of a map's values."""
    struct: str = ""
    merge_key: str | None = None
    """Strategic merge: the field that identifies an item, "" for plain values; with None the list is replaced."""
    values: frozenset[str] = field(default=frozenset())


@dataclass(frozen=True, slots=True)
class Struct:
    """The fields of one type, and which of them are required."""

    fields: Mapping[str, FieldType]
    required: tuple[str, ...]


@cache
def _raw() -> Any:
    return json.loads(resources.files(__package__).joinpath("schema.json").read_text())


@cache
def struct(name: str) -> Struct:
    """The struct of that name in schema.json."""
    if name == _CUSTOM:
        namespace = struct(_raw()["kinds"]["Namespace"])
        free = dict.fromkeys(("spec", "status"), FieldType("any"))
        return Struct({**namespace.fields, **free}, ())
    raw = _raw()["types"][name]
    fields = {key: _type(value) for key, value in raw["fields"].items()}
    return Struct(fields, tuple(raw.get("required", ())))


@cache
def type_of(name: str) -> FieldType:
    """The type of the objects of a kind. Of a kind that schema.json does not have, everything but metadata is free."""
    return FieldType("struct", struct=_raw()["kinds"].get(name, _CUSTOM))


def _type(raw: Any) -> FieldType:
    if isinstance(raw, str):
        return FieldType("struct", struct=raw[1:]) if raw.startswith("#") else FieldType(raw)
    if "map" in raw:
        return FieldType("map", item=_type(raw["map"]))
    if "enum" in raw:
        return FieldType("enum", values=frozenset(raw["enum"]))
    return FieldType("list", item=_type(raw["list"]), merge_key=raw.get("merge"))


def child(field_type: FieldType, name: str) -> FieldType | None:
    """The type of field ``name`` of an object or map; None if it has no such field."""
    if field_type.kind == "struct":
        return struct(field_type.struct).fields.get(name)
    return field_type.item if field_type.kind == "map" else None


@dataclass(slots=True)
class ParsedObject:
    """An object as the API stores it, and its faults."""

    value: Any = None
    """A copy of the object without nulls and empty lists, with canonical quantities."""
    unknown: list[str] = field(default_factory=list)
    """Fields that the kind does not have."""
    mistyped: list[Fault] = field(default_factory=list)
    """Values that are not of the field's type."""
    faults: list[Fault] = field(default_factory=list)
    """Values of the right type that the kind does not allow."""


def parse(field_type: FieldType, value: Any) -> ParsedObject:
    """``value`` as the API stores it, with all faults."""
    parsed = ParsedObject()
    parsed.value = _parse(field_type, value, "", parsed)
    return parsed


def _parse(field_type: FieldType, value: Any, path: str, parsed: ParsedObject) -> Any:
    match field_type.kind:
        case "struct":
            return _parse_struct(field_type, value, path, parsed)
        case "list":
            return _parse_list(field_type, value, path, parsed)
        case "map":
            return _parse_map(field_type, value, path, parsed)
        case "string":
            if type(value) is str:
                return value
            return str(value) if isinstance(value, str) else _mistyped(path, value, "a string", parsed)
        case "object" | "any":
            return copy(value)
    return _parse_scalar(field_type, value, path, parsed)


def _parse_scalar(field_type: FieldType, value: Any, path: str, parsed: ParsedObject) -> Any:
    match field_type.kind:
        case "bool":
            return value if isinstance(value, bool) else _mistyped(path, value, "a boolean", parsed)
        case "int32" | "int64" as size:
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            fits = isinstance(whole, int) and not isinstance(whole, bool)
            limit = _INTEGERS[size]
            return whole if fits and -limit <= whole < limit else _mistyped(path, value, f"an {size}", parsed)
        case "number":
            return value if isinstance(value, int | float) else _mistyped(path, value, "a number", parsed)
        case "intstr":
            return value if isinstance(value, int | str) else _mistyped(path, value, "a number or string", parsed)
        case "quantity":
            return _parse_quantity(value, path, parsed)
        case "time":
            if isinstance(value, str) and _TIME.fullmatch(value):
                return value
            return _mistyped(path, value, "an RFC 3339 time", parsed)
    if not isinstance(value, str):
        return _mistyped(path, value, "a string", parsed)
    if value and value not in field_type.values and not path.startswith("status."):
        choices = ", ".join(sorted(field_type.values))
        parsed.faults.append(Fault(path, f"Unsupported value: {value!r}: supported values: {choices}"))
    return value


def _parse_struct(field_type: FieldType, value: Any, path: str, parsed: ParsedObject) -> Any:
    if not isinstance(value, dict):
        return _mistyped(path, value, "an object", parsed)
    known = struct(field_type.struct)
    copied = {}
    for name, content in value.items():
        known_type = known.fields.get(name)
        # Most values are text, and right.
        if known_type is not None and known_type.kind == "string" and type(content) is str:
            copied[name] = content
            continue
        where = f"{path}.{name}" if path else name
        if known_type is None:
            parsed.unknown.append(where)
        elif content is not None:
            stored = _parse(known_type, content, where, parsed)
            if stored or (stored != [] and (stored != {} or known_type.kind in ("struct", "object"))):
                copied[name] = stored
    for name in known.required:
        if name not in copied and not _may_be_empty(known.fields[name], value.get(name)):
            parsed.faults.append(Fault(f"{path}.{name}" if path else name, "Required value"))
    return copied


def _may_be_empty(field_type: FieldType, value: Any) -> bool:
    return field_type.kind in ("string", "enum", "bool", "int32", "int64", "struct") or value is not None


def _parse_list(field_type: FieldType, value: Any, path: str, parsed: ParsedObject) -> Any:
    if not isinstance(value, list | tuple):
        return _mistyped(path, value, "a list", parsed)
    assert field_type.item
    item = field_type.item
    return [_parse(item, part, f"{path}[{i}]", parsed) for i, part in enumerate(value)]


def _parse_map(field_type: FieldType, value: Any, path: str, parsed: ParsedObject) -> Any:
    if not isinstance(value, dict):
        return _mistyped(path, value, "an object", parsed)
    assert field_type.item
    item = field_type.item
    return {
        str(name): _parse(item, part, f"{path}[{name}]", parsed) for name, part in value.items() if part is not None
    }


def _parse_quantity(value: Any, path: str, parsed: ParsedObject) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return _mistyped(path, value, "a quantity", parsed)
    try:
        return canonical(str(value))
    except InvalidInput:
        return _mistyped(path, value, "a quantity such as 4Gi", parsed)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """A quantity in the form in which the API server stores it."""
    return str(Quantity.parse(text))


def _mistyped(path: str, value: Any, wanted: str, parsed: ParsedObject) -> None:
    parsed.mistyped.append(Fault(path, f"cannot read {value!r} as {wanted}"))


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
