"""Columns: one attribute, or the capacities, of all devices of a pool, in order. Equal pools share one column.

A result for one or several columns holds for every pool that has them. So the work on a fleet grows with the number of
different columns and not with the number of devices.

An attribute whose values name domains of a topology has its devices by domain, too (``by_value``).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Final
from weakref import WeakValueDictionary

from controller.allocation.devices.pools import Pool
from controller.allocation.rules import CapacityRequest, Quantities, Values, consumption, value_text, values_of
from driver.bounded import BoundedCache
from driver.cache_key import cache_key
from driver.cel import DevicePath, value_at
from driver.model import unqualify

_CAPACITIES: Final = ("capacities",)
_SHAREABLE_CAPACITIES: Final = ("shareable capacities",)
_PLAIN: Final = frozenset({str, int, bool, NoneType})
_PER_POOL: Final = 64
_REQUESTS: Final = 256

Consumed = tuple[int, tuple[Quantities | str | None, ...]]
"""The devices that are large enough for a request, and its consumption of each (``rules.consumption``)."""


class Column:
    """The values of one column, with cached results."""

    __slots__ = ("__weakref__", "by_text", "consumed", "groups", "multivalued", "paths", "values")

    def __init__(self, values: tuple[Any, ...]):
        self.values = values
        self.groups: Mapping[Hashable, int] | None = None
        """For a column of attribute values: the devices with each value."""
        self.by_text: Mapping[str, int] | None = None
        """The same, by the text that names a domain (``by_value``)."""
        self.multivalued: bool
        """True if a device has several values; known as soon as the groups are."""
        self.consumed: BoundedCache[Hashable, Consumed] = BoundedCache(_REQUESTS)
        self.paths: BoundedCache[Hashable, frozenset[tuple[str, ...]]] = BoundedCache(_REQUESTS)
        """What ``paths`` finds for some devices and further columns, if this is the first column."""


class Columns:
    """All columns of the fleet: each column once, as long as a pool has it."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[Hashable, Column] = WeakValueDictionary()
        self._plain: WeakValueDictionary[Hashable, Column] = WeakValueDictionary()
        """Columns of plain texts and numbers, by these, which is quicker than by what constraints compare."""
        self._of_pool: dict[Pool, BoundedCache[tuple[str, ...], Column]] = {}

    def forget(self, pool: Pool) -> None:
        """Remove a pool."""
        self._of_pool.pop(pool, None)

    def at(self, pool: Pool, path: DevicePath) -> Column:
        """The column of the values that selectors read at ``path``."""
        return self._get(pool, path) or self._add(pool, path, _read(pool, path))

    def values(self, pool: Pool, attribute: str) -> Column:
        """The column of the values that constraints compare: one attribute of each device."""
        name = ("values", attribute)
        column = self._get(pool, name)
        if column is None:
            column = self._add_plain(pool, name) or self._add(pool, name, _values(pool, attribute))
        if column.groups is None:
            column.groups = _groups(column.values)
            column.multivalued = any(len(values) > 1 for values in column.values)
        return column

    def capacities(self, pool: Pool, *, whole: bool = True) -> Column:
        """The column of capacities, which decide the consumption of a request.

        Args:
            whole: includes devices that are not shareable.
        """
        name = _CAPACITIES if whole else _SHAREABLE_CAPACITIES
        column = self._get(pool, name)
        if column is None:
            specs = [device.spec if whole or device.spec.allow_multiple else None for device in pool.devices]
            column = self._add(pool, name, [spec and cache_key((spec.allow_multiple, spec.capacity)) for spec in specs])
        return column

    def consumed(self, pool: Pool, request: CapacityRequest, devices: int) -> Consumed:
        """Those of ``devices`` that are large enough for a request, and its consumption of each."""
        request = request.of_driver(pool.key[0])
        column = self.capacities(pool, whole=not request.is_empty and devices & ~pool.shareable != 0)
        known = column.consumed.get(request.key)
        if known is None:
            known = column.consumed[request.key] = _consumed(pool, request)
        return known

    def _add_plain(self, pool: Pool, name: tuple[str, str]) -> Column | None:
        """The column of a pool like one before, found without a look at single values; None if there is none."""
        raw = [device.spec.attributes.get(name[1]) for device in pool.devices]
        types = tuple(map(type, raw))
        if not _PLAIN.issuperset(types):
            return None
        key = name[1], types, tuple(raw)
        column = self._plain.get(key)
        if column is None:
            column = self._plain[key] = self._add(pool, name, _values(pool, name[1]))
        else:
            self._note(pool, name, column)
        return column

    def _get(self, pool: Pool, name: tuple[str, ...]) -> Column | None:
        columns = self._of_pool.get(pool)
        return None if columns is None else columns.get(name)

    def _add(self, pool: Pool, name: tuple[str, ...], values: Iterable[Hashable]) -> Column:
        values = tuple(values)
        column = self._known.get((name, values))
        if column is None:
            column = self._known[name, values] = Column(values)
        self._note(pool, name, column)
        return column

    def _note(self, pool: Pool, name: tuple[str, ...], column: Column) -> None:
        columns = self._of_pool.get(pool)
        if columns is None:
            columns = self._of_pool[pool] = BoundedCache(_PER_POOL)
        columns[name] = column


def _read(pool: Pool, path: DevicePath) -> Sequence[Hashable]:
    """The values that selectors read at ``path``: for most pools strings, or values of one type."""
    driver = pool.key[0]
    if path[0] == "attributes":
        name = path[1]
        values = [device.spec.attributes.get(name) for device in pool.devices]
        types = set(map(type, values))
        if types == {str}:
            return values
        if len(types) == 1 and not types & {tuple, NoneType}:
            (kind,) = types
            return [(kind, value) for value in values]
    if path[0] == "capacity":
        amounts = [device.spec.capacity.get(unqualify(path[1], driver)) for device in pool.devices]
        return [((amount.value.nanos, amount.value.format),) if amount else () for amount in amounts]
    return [value_at(path, device.spec, driver) for device in pool.devices]


def _values(pool: Pool, attribute: str) -> Sequence[Values]:
    """The values that constraints compare of each device: for most pools the same text."""
    found: list[Values] = []
    last: object = None
    for device in pool.devices:
        value = device.spec.attributes.get(attribute)
        if not found or not isinstance(value, str) or value != last:
            last, values = value, values_of(device.spec, attribute)
        found.append(values)
    return found


def _groups(values: tuple[Values, ...]) -> Mapping[Hashable, int]:
    groups: dict[Hashable, int] = {}
    for index, of_device in enumerate(values):
        for value in of_device:
            groups[value] = groups.get(value, 0) | 1 << index
    return groups


def _consumed(pool: Pool, request: CapacityRequest) -> Consumed:
    enough, amounts = 0, list[Quantities | str | None]()
    for device in pool.devices:
        amount = consumption(device.spec.allow_multiple, device.spec.capacity, request)
        amounts.append(amount)
        enough |= (not isinstance(amount, str)) << device.index
    return enough, tuple(amounts)


_EMPTY_PATH: Final = frozenset({()})
NOWHERE: Final = ""
"""Stands for devices that have no value, or an empty one. It is no domain."""


def by_value(pool: Pool, attribute: str, columns: Columns) -> Mapping[str, int]:
    """The devices with each value of the attribute; those without one are ``NOWHERE``.

    A device with several values is with each of them.
    """
    column = columns.values(pool, attribute)
    if column.by_text is None:
        column.by_text = _by_text(column, pool.layout.every)
    return column.by_text


def _by_text(column: Column, every: int) -> Mapping[str, int]:
    found: dict[str, int] = {}
    known = 0
    for value, devices in (column.groups or {}).items():
        assert isinstance(value, tuple)
        text = value_text(value[1])
        found[text] = found.get(text, 0) | devices
        known |= devices
    if missing := every & ~known:
        found[NOWHERE] = found.get(NOWHERE, 0) | missing
    return found


def paths(pool: Pool, devices: int, attributes: Sequence[str], columns: Columns) -> frozenset[tuple[str, ...]]:
    """The different values of the attributes of these devices of the pool, in the order of the attributes.

    There are none if the pool does not tell any of the attributes (``tells``).
    """
    if not devices or not attributes:
        return _EMPTY_PATH if devices else frozenset()
    first = columns.values(pool, attributes[0])
    key: Hashable = devices
    if len(attributes) > 1:
        key = devices, *[columns.values(pool, attribute) for attribute in attributes[1:]]
    found = first.paths.get(key)
    if found is None:
        told = any(tells(pool, attribute, columns) for attribute in attributes)
        every = [by_value(pool, attribute, columns) for attribute in attributes]
        found = first.paths[key] = _paths(devices, every) if told else frozenset()
    return found


def _paths(devices: int, every: Sequence[Mapping[str, int]]) -> frozenset[tuple[str, ...]]:
    found: dict[tuple[str, ...], int] = {(): devices}
    for groups in every:
        found = {
            (*path, value): both
            for path, mask in found.items()
            for value, group in groups.items()
            if (both := mask & group)
        }
    return frozenset(found)


def having(pool: Pool, values: Sequence[tuple[str, str]], columns: Columns) -> int:
    """The devices of the pool with all these values of attributes, as far as the pool tells them (``tells``)."""
    devices = pool.layout.every
    for attribute, value in values:
        if tells(pool, attribute, columns):
            devices &= by_value(pool, attribute, columns).get(value, 0)
    return devices


def tells(pool: Pool, attribute: str, columns: Columns) -> bool:
    """Whether any device of the pool has the attribute.

    If none has, its driver knows nothing of such domains, and its devices are wherever other devices of the node are.
    """
    return bool(columns.values(pool, attribute).groups)
