"""The values that a selector reads of devices, in a few words for the author of the selector. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller.allocation.devices.pools import PoolDevice
from driver.cel import DevicePath
from driver.limits import bounded
from driver.model import Version

_MOST_PATHS: Final = 3
_MOST_VALUES: Final = 3
_MOST_VALUE: Final = 64
_SCANNED: Final = 64
"""The most devices of a pool that are looked at."""
_IDENTIFYING: Final = frozenset({"uuid", "index", "pciBusID", "serial"})
"""Attributes that tell each device from all others. To list them helps nobody, and no two nodes would be alike."""


def possessed(devices: Sequence[PoolDevice], paths: Sequence[DevicePath] | None) -> str:
    """The values of the devices at ``paths``, such as ``type "A100", memory 40Gi to 80Gi``; "" if that is long.

    Args:
        devices: of one pool.
        paths: the fields that the selector reads; None if it may read any.
    """
    named = [path for path in paths or () if len(path) == 2 and path[1].rpartition("/")[2] not in _IDENTIFYING]
    return ", ".join(filter(None, (_at(path, devices[:_SCANNED]) for path in named[:_MOST_PATHS])))


def _at(path: DevicePath, devices: Sequence[PoolDevice]) -> str:
    kind, name = path[0], path[1]
    domain, _, short = name.rpartition("/")
    shown = short if devices and domain == devices[0].id.driver else name
    if kind == "capacity":
        amounts = [
            amount.value
            for device in devices
            if (amount := device.spec.capacity.get(short if domain == device.id.driver else name))
        ]
        if not amounts:
            return f"no {shown}"
        least, most = min(amounts), max(amounts)
        return f"{shown} {most}" if least == most else f"{shown} {least} to {most}"
    values = list(dict.fromkeys(text for device in devices for text in _texts(device, name)))
    if not values:
        return f"no {shown}"
    more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
    return f"{shown} {' or '.join(values[:_MOST_VALUES])}{more}"


def _texts(device: PoolDevice, name: str) -> Iterator[str]:
    value = device.spec.attributes.get(name)
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, bool):
            yield "true" if one else "false"
        elif isinstance(one, int):
            yield str(one)
        elif isinstance(one, str):
            yield f'"{bounded(one, _MOST_VALUE)}"'
        elif isinstance(one, Version):
            yield one.text
