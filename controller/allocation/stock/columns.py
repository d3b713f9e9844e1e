"""Columns: what the devices of a pool have in one place, in order. Pools alike in it share one column.

What is found out about a column, and about several of them side by side, holds for every pool that has them; so work
on a fleet grows with the number of different columns, not of devices.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Final
from weakref import WeakValueDictionary

from controller.allocation.search.constraints import Values, values_of
from controller.allocation.stock.amounts import Amounts, lacking, take
from controller.allocation.stock.pools import Pool, Unit
from controller.selectors import value_at
from driver.model import Capacity

_TAKES: Final = ("takes",)
_SHARES: Final = ("shares",)
_PER_POOL: Final = 64
_REMEMBERED: Final = 256


class Column:
    """The values of one column, and what has been found out about it."""

    __slots__ = ("__weakref__", "groups", "several", "takes", "values")

    def __init__(self, values: tuple[Any, ...]):
        self.values = values
        self.groups: Mapping[Hashable, int] | None = None
        """Of a column of attribute values: the devices that have each."""
        self.several = False
        """Whether one of the devices has several values."""
        self.takes: dict[Hashable, tuple[int, tuple[Amounts | None, ...]]] = {}


class Columns:
    """All columns of the fleet, each once, for as long as a pool has them."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[Hashable, Column] = WeakValueDictionary()

    def at(self, pool: Pool, path: tuple[str, ...]) -> Column:
        """The column of what selectors read at ``path``."""
        return pool.columns.get(path) or self._column(pool, path, lambda: _read(pool, path))

    def values(self, pool: Pool, attribute: str) -> Column:
        """The column of what constraints compare: the values of an attribute of each device."""
        name = ("values", attribute)
        column = pool.columns.get(name) or self._column(
            pool, name, lambda: [values_of(unit.device, attribute) for unit in pool.units]
        )
        if column.groups is None:
            column.groups = _groups(column.values)
            column.several = any(len(some) > 1 for some in column.values)
        return column

    def capacity(self, pool: Pool, *, whole: bool = True) -> Column:
        """The column of all that decides what a request takes of the capacities of each device.

        Args:
            whole: also of the devices that cannot be shared.
        """
        name = _TAKES if whole else _SHARES
        return pool.columns.get(name) or self._column(
            pool,
            name,
            lambda: [_capacities(unit) if whole or unit.device.allow_multiple else None for unit in pool.units],
        )

    def takes(self, pool: Pool, requested: Amounts, mask: int) -> tuple[int, tuple[Amounts | None, ...]]:
        """Which devices of ``mask`` are large enough for a request, and what it takes of each.

        That is None where it is the whole device. Of devices not in ``mask`` nothing is said.
        """
        whole = bool(requested) and mask & ~pool.multiple != 0
        column = self.capacity(pool, whole=whole)
        key = tuple([(name, amount.nanos, amount.format) for name, amount in requested.items()])
        known = column.takes.get(key)
        if known is None:
            if len(column.takes) >= _REMEMBERED:
                column.takes.clear()
            known = column.takes[key] = _takes(pool, requested)
        return known

    def _column(self, pool: Pool, name: tuple[str, ...], read: Callable[[], Iterable[Hashable]]) -> Column:
        if len(pool.columns) >= _PER_POOL:
            pool.columns.clear()
        values = tuple(read())
        column = self._known.get((name, values))
        if column is None:
            column = self._known[name, values] = Column(values)
        pool.columns[name] = column
        return column


def _read(pool: Pool, path: tuple[str, ...]) -> Sequence[Hashable]:
    """What selectors read at ``path``: for most pools strings, or values of one type."""
    driver = pool.key[0]
    if path[0] == "attributes":
        name = path[1]
        values = [unit.device.attributes.get(name) for unit in pool.units]
        kinds = set(map(type, values))
        if kinds == {str}:
            return values
        if len(kinds) == 1 and not kinds & {tuple, NoneType}:
            (kind,) = kinds
            return [(kind, value) for value in values]
    if path[0] == "capacity":
        name, short = path[1], path[1].removeprefix(f"{driver}/")
        amounts = [unit.device.capacity.get(short) for unit in pool.units]
        if short == name or not any(name in unit.device.capacity for unit in pool.units):
            return [((one.value.nanos, one.value.format),) if one else () for one in amounts]
    return [value_at(path, unit.device, driver) for unit in pool.units]


def _groups(values: tuple[Values, ...]) -> Mapping[Hashable, int]:
    groups: dict[Hashable, int] = {}
    for index, some in enumerate(values):
        for value in some:
            groups[value] = groups.get(value, 0) | 1 << index
    return groups


def _takes(pool: Pool, requested: Amounts) -> tuple[int, tuple[Amounts | None, ...]]:
    enough, taken = 0, list[Amounts | None]()
    for unit in pool.units:
        if unit.device.allow_multiple:
            amounts = take(unit.device.capacity, requested)
            taken.append(None if isinstance(amounts, str) else amounts)
            fits = not isinstance(amounts, str)
        else:
            taken.append(None)
            fits = not lacking(unit.device.capacity, requested)
        enough |= fits << unit.index
    return enough, tuple(taken)


def _capacities(unit: Unit) -> Hashable:
    device = unit.device
    return device.allow_multiple, tuple([(name, *_amounts(one)) for name, one in device.capacity.items()])


def _amounts(capacity: Capacity) -> tuple[Hashable, ...]:
    """All amounts of a capacity with their formats, which results are written in."""
    policy = capacity.policy
    named = [capacity.value]
    if policy is None:
        return tuple([(one.nanos, one.format) for one in named])
    others = (policy.default, policy.minimum, policy.maximum, policy.step, *policy.valid_values)
    return tuple([one and (one.nanos, one.format) for one in (capacity.value, *others)])
