"""The parts of a device that an expression reads: devices with equal values there need one evaluation together.

The contract with the caller that evaluates selectors over a fleet: `Selector.paths` names the parts, and `value_at`
returns one of them for a device. A path means the same in every selector. So a caller can compute a column of values
once per path, keep it with the devices, and use it for all selectors that read the path. If the values of two devices
are equal on all paths of a selector, then the selector has the same outcome for both. (Only the hint in the message of
a fault may differ: it may name other attributes that one of them has.)
"""

from collections.abc import Hashable, Mapping
from typing import Final, TypeAlias

from driver import model
from driver.cel.language.syntax import (
    Bind,
    Call,
    Comprehension,
    Index,
    Literal,
    Name,
    Node,
    OptionalMap,
    Select,
    children,
)

DevicePath: TypeAlias = tuple[str, ...]
"""As ``("driver",)``, ``("allowMultipleAllocations",)``, ``("attributes", "a.io/b")`` or ``("capacity", "a.io/b")``."""
DeviceFields: TypeAlias = tuple[str, ...]
"""The fields and keys that follow ``device``: at most ``attributes`` or ``capacity``, the domain and the name."""
_PATH_LENGTH: Final = 3
_ABSENT: Final = ("absent",)
_OTHERS: Final = ("absent", "others in its domain")
"""What a fault about a missing attribute says depends on whether its domain has any."""


def paths(node: Node) -> tuple[DevicePath, ...] | None:
    """The parts of ``device`` that ``node`` reads, without duplicates, or None if it may read any of them."""
    read: dict[DevicePath, None] = {}
    return tuple(read) if _collect(node, read) else None


def value_at(path: DevicePath, device: model.Device, driver: str) -> Hashable:
    """The value of ``device`` of ``driver`` at ``path``. Two are equal only if no selector can tell them apart.

    Values are opaque: callers only compare and hash them.
    """
    if path[0] == "attributes":
        value = device.attributes.get(path[1])
        if type(value) is str:
            return value
        if value is None:
            return _OTHERS if _has_others(path[1], device) else _ABSENT
        if isinstance(value, tuple):
            return tuple([(type(item), item) for item in value])
        return (type(value), value)
    if path[0] == "capacity":
        return _capacities(path[1], device.capacity, driver)
    return driver if path[0] == "driver" else device.allow_multiple


def _has_others(name: str, device: model.Device) -> bool:
    """Whether the device has an attribute in the domain of this one."""
    domain = name[: name.rfind("/") + 1]
    return any(other.startswith(domain) for other in device.attributes)


def _capacities(name: str, capacity: Mapping[str, model.Capacity], driver: str) -> Hashable:
    found = capacity.get(model.unqualify(name, driver))
    return ((found.value.nanos, found.value.format),) if found else ()


Aliases = Mapping[str, DeviceFields | None]
"""The variables of macros that stand for ``device`` or a part of it; None for those that hold other values."""


def _collect(root: Node, read: dict[DevicePath, None]) -> bool:
    """Add the paths that ``root`` reads to ``read``. False if the text does not tell which they are."""
    waiting: list[tuple[Node, Aliases]] = [(root, {})]
    while waiting:
        node, aliases = waiting.pop()
        fields = _fields_read(node, aliases)
        if fields is not None:
            if not _add(node, fields, read):
                return False
            continue
        # The first ``outer`` children do not see the variables that the node declares.
        inner, outer = aliases, 1
        match node:
            case Comprehension(variables=variables):
                inner = {**aliases, **dict.fromkeys(variables)}
            case Bind(name=name, value=value) | OptionalMap(name=name, target=value):
                bound = _fields(value, aliases)
                is_alias = bound is not None and len(bound) < _PATH_LENGTH
                inner, outer = {**aliases, name: bound if is_alias else None}, 0 if is_alias else 1
                parts = children(node)[1 - outer :]  # an alias is read where it is used, not where it is bound
                waiting += [(part, aliases if at < outer else inner) for at, part in reversed(list(enumerate(parts)))]
                continue
        parts = children(node)
        waiting += [(part, aliases if at < outer else inner) for at, part in reversed(list(enumerate(parts)))]
    return True


def _fields_read(node: Node, aliases: Aliases) -> DeviceFields | None:
    """The fields below ``device`` that lead to ``node``, or to the key that ``"name" in ...`` looks for."""
    match node:
        case Call(function="@in", args=(Literal(value=str(name)), container)):
            within = _fields(container, aliases)
            return (*within, name) if within is not None and len(within) == _PATH_LENGTH - 1 else None
    return _fields(node, aliases)


def _add(node: Node, fields: DeviceFields, read: dict[DevicePath, None]) -> bool:
    match fields:
        case ("driver" | "allowMultipleAllocations" as field,):
            read[field,] = None
        case ("attributes" | "capacity" as field, domain, name):
            read[field, f"{domain}/{name}"] = None
        case _:
            # has() of a field or domain reads nothing: each device has the four fields, and an unknown domain is an
            # empty map. Anything else uses a whole map.
            return isinstance(node, Select) and node.test
    return True


def _fields(node: Node, aliases: Aliases) -> DeviceFields | None:
    """The constant fields below ``device`` that lead to ``node``, or None if it is anything else."""
    fields: list[str] = []
    while len(fields) <= _PATH_LENGTH:
        match node:
            case Select(operand=operand, field=field) | Index(operand=operand, key=Literal(value=str(field))):
                fields.append(field)
                node = operand
            case Name(name=name, absolute=absolute):
                start = (() if name == "device" else None) if absolute or name not in aliases else aliases[name]
                whole = None if start is None else (*start, *reversed(fields))
                return whole if whole is not None and len(whole) <= _PATH_LENGTH else None
            case _:
                return None
    return None
