"""The devices of a pool by the value of an attribute that names a domain of the topology."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller.allocation.devices.columns import Column, Columns
from controller.allocation.devices.pools import Pool
from driver.model import Scalar, Version

NOWHERE: Final = ""
"""Stands for devices that have no value, or an empty one. It is no domain."""


def value_text(value: Scalar) -> str:
    """The value as it stands in the path of a domain."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, Version) else str(value)


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


def paths(pool: Pool, devices: int, attributes: Sequence[str], columns: Columns) -> set[tuple[str, ...]]:
    """The different values of the attributes of these devices of the pool, in the order of the attributes."""
    if not devices:
        return set()
    every = [by_value(pool, attribute, columns) for attribute in attributes]
    if all(len(groups) == 1 for groups in every):
        return {tuple([value for groups in every for value in groups])}
    found: dict[tuple[str, ...], int] = {(): devices}
    for groups in every:
        found = {
            (*path, value): both
            for path, mask in found.items()
            for value, group in groups.items()
            if (both := mask & group)
        }
    return set(found)


def having(pool: Pool, values: Sequence[tuple[str, str]], columns: Columns) -> int:
    """The devices of the pool with all these values of attributes."""
    devices = pool.layout.every
    for attribute, value in values:
        devices &= by_value(pool, attribute, columns).get(value, 0)
    return devices
