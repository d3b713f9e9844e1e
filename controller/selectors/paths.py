"""Which parts of a device an expression reads, so that devices alike in them need one evaluation.

The contract with whoever evaluates selectors over a fleet: `Selector.paths` names the parts, `value_at` gives one of
them for a device. Paths mean the same in every selector, so a column of values can be made once per path, kept with
the devices, and used by all selectors that read it. Two devices whose attributes are valid and whose values agree on
all paths of a selector get the same outcome from it (the hint of a fault may name what else the one device has).
"""

from collections.abc import Hashable, Mapping
from typing import Final, TypeAlias

from controller.selectors.language.syntax import (
    Bind,
    Call,
    Fold,
    Index,
    Literal,
    Name,
    Node,
    OptionalMap,
    Select,
    children,
)
from driver import model

Path: TypeAlias = tuple[str, ...]
"""As ``("driver",)``, ``("allowMultipleAllocations",)``, ``("attributes", "a.io/b")`` or ``("capacity", "a.io/b")``."""
Steps: TypeAlias = tuple[str, ...]
"""What is written after ``device``, step by step: at most kind, domain and name."""
_FULL: Final = 3
_ABSENT: Final = ("absent",)


def paths(node: Node) -> tuple[Path, ...] | None:
    """The parts of ``device`` that ``node`` reads, each once, or None where it may read any of them."""
    found: dict[Path, None] = {}
    return tuple(found) if _collect(node, found) else None


def value_at(path: Path, device: model.Device, driver: str) -> Hashable:
    """What ``device`` of ``driver`` has at ``path``; equal only for what no selector can tell apart.

    Values are opaque: compare and hash them, nothing else. Also defined for devices with invalid attributes.
    """
    if path[0] == "attributes":
        value = device.attributes.get(path[1], _ABSENT)
        if type(value) is str:
            return value
        if isinstance(value, tuple) and value is not _ABSENT:
            return tuple([(type(item), item) for item in value])
        return (type(value), value)
    if path[0] == "capacity":
        return _amounts(path[1], device.capacity, driver)
    return driver if path[0] == "driver" else device.allow_multiple


def _amounts(name: str, capacity: Mapping[str, model.Capacity], driver: str) -> Hashable:
    """A capacity in the driver's own domain may be written with or without it."""
    domain, _, short = name.rpartition("/")
    names = [name, short] if domain == driver else [name]
    if all(given in capacity for given in names):
        names = [given for given in capacity if given in names]
    return tuple([(found.value.nanos, found.value.format) for given in names if (found := capacity.get(given))])


Aliases = Mapping[str, Steps | None]
"""Variables of macros that stand for ``device`` or a part of it, and (None) those that hold other values."""


def _collect(root: Node, found: dict[Path, None]) -> bool:
    """Note what ``root`` reads; False where that cannot be told from the text."""
    waiting: list[tuple[Node, Aliases]] = [(root, {})]
    while waiting:
        node, aliases = waiting.pop()
        steps = _looked_up(node, aliases)
        if steps is not None:
            if not _add(node, steps, found):
                return False
            continue
        inner, outer = aliases, 1
        match node:
            case Fold(variables=variables):
                inner = {**aliases, **dict.fromkeys(variables)}
            case Bind(name=name, value=value) | OptionalMap(name=name, target=value):
                bound = _steps(value, aliases)
                known = bound is not None and len(bound) < _FULL
                inner, outer = {**aliases, name: bound if known else None}, 0 if known else 1
                parts = children(node)[1 - outer :]
                waiting += [(part, aliases if at < outer else inner) for at, part in reversed(list(enumerate(parts)))]
                continue
        parts = children(node)
        waiting += [(part, aliases if at < outer else inner) for at, part in reversed(list(enumerate(parts)))]
    return True


def _looked_up(node: Node, aliases: Aliases) -> Steps | None:
    """The steps that lead to ``node``, or to what ``"name" in ...`` looks for."""
    match node:
        case Call(function="@in", args=(Literal(value=str(name)), container)):
            within = _steps(container, aliases)
            return (*within, name) if within is not None and len(within) == _FULL - 1 else None
    return _steps(node, aliases)


def _add(node: Node, steps: Steps, found: dict[Path, None]) -> bool:
    match steps:
        case ("driver" | "allowMultipleAllocations" as field,):
            found[field,] = None
        case ("attributes" | "capacity" as field, domain, name):
            found[field, f"{domain}/{name}"] = None
        case _:
            # Every device has the four fields, and every domain: an unknown one is an empty map.
            return isinstance(node, Select) and node.test
    return True


def _steps(node: Node, aliases: Aliases) -> Steps | None:
    """The constant steps below ``device`` that lead to ``node``, or None if it is something else."""
    steps: list[str] = []
    while len(steps) <= _FULL:
        match node:
            case Select(operand=operand, field=field) | Index(operand=operand, key=Literal(value=str(field))):
                steps.append(field)
                node = operand
            case Name(name=name, absolute=absolute):
                start = (() if name == "device" else None) if absolute or name not in aliases else aliases[name]
                found = None if start is None else (*start, *reversed(steps))
                return found if found is not None and len(found) <= _FULL else None
            case _:
                return None
    return None
