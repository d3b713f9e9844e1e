"""Which parts of a device an expression reads, so that devices alike in them need one evaluation."""

from collections.abc import Callable
from typing import Any

from controller.selectors.syntax import Bind, Fold, Index, Literal, Name, Node, OptionalMap, Select, children
from driver import model

Read = Callable[[model.Device, str], Any]
"""The part's value for a device of a driver; hashable."""

_ABSENT = object()


def reads(node: Node) -> tuple[Read, ...] | None:
    """The parts of ``device`` that ``node`` reads, or None where it may read any of them."""
    found: dict[tuple[str, ...], Read] = {}
    if not _collect(node, frozenset(), found):
        return None
    return tuple(found.values())


def _collect(node: Node, shadowed: frozenset[str], found: dict[tuple[str, ...], Read]) -> bool:
    """Add what ``node`` reads; False where that cannot be told from the text."""
    path = _path(node, shadowed)
    if path is not None:
        read = _reader(path)
        if read is not None:
            found[path] = read
        return read is not None
    match node:
        case Fold(variables=variables, range=range_, body=body, where=where):
            inner = shadowed.union(variables)
            rest = [body] if where is None else [where, body]
            return _collect(range_, shadowed, found) and all(_collect(part, inner, found) for part in rest)
        case Bind(name=name, value=value, body=body) | OptionalMap(name=name, target=value, body=body):
            return _collect(value, shadowed, found) and _collect(body, shadowed | {name}, found)
    return all(_collect(child, shadowed, found) for child in children(node))


def _path(node: Node, shadowed: frozenset[str]) -> tuple[str, ...] | None:
    """The constant path below ``device`` that ``node`` is, or None if it is something else."""
    match node:
        case Name(name="device", absolute=absolute) if absolute or "device" not in shadowed:
            return ()
        case Select(operand=operand, field=field):
            above = _path(operand, shadowed)
        case Index(operand=operand, key=Literal(value=str(field))):
            above = _path(operand, shadowed)
        case _:
            return None
    if above is None:
        return None
    return above if len(above) >= 3 else (*above, field)


def _reader(path: tuple[str, ...]) -> Read | None:
    match path:
        case ("driver",):
            return lambda device, driver: driver
        case ("allowMultipleAllocations",):
            return lambda device, driver: device.allow_multiple
        case ("attributes", domain, name):
            return _attribute(f"{domain}/{name}")
        case ("capacity", domain, name):
            return _capacity(domain, name)
    return None


def _attribute(name: str) -> Read:
    def read(device: model.Device, driver: str) -> Any:
        value = device.attributes.get(name, _ABSENT)
        if isinstance(value, tuple):
            return tuple([(type(item), item) for item in value])
        return (type(value), value)

    return read


def _capacity(domain: str, name: str) -> Read:
    qualified = f"{domain}/{name}"

    def read(device: model.Device, driver: str) -> Any:
        found = device.capacity.get(qualified)
        if found is None and domain == driver:
            found = device.capacity.get(name)
        return None if found is None else str(found.value)

    return read
