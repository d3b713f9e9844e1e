"""What is remembered of the resource of a device plugin, and what a list changes in it. Pure.

It does not grow with the number of lists: a device plugin may make up other IDs each time.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kubeletplugin.hardware.deviceplugin.reported import Reported

MOST_IDS: Final = 8192
"""IDs of a resource that are read, and others of it that are gone and still known; a longer list is cut."""
MOST_ID: Final = 253
"""Characters of an ID."""


@dataclass(frozen=True, slots=True)
class KnownResource:
    """What is remembered of a resource. Times are seconds of ``Clock.monotonic``, which programs of a boot share."""

    endpoint: str = ""
    devices: tuple[Reported, ...] = ()
    """The last list."""
    gone: Mapping[str, float] = field(default_factory=dict)
    """When IDs were missing in a list for the first time."""
    failed: Mapping[str, float] = field(default_factory=dict)
    """When IDs were last reported as unhealthy, until they count as healthy again."""
    lost: float | None = None
    """When the connection was lost; None while there is one, and if the program ended before it."""


Known = dict[str, KnownResource]
"""By the name of the resource."""


def after_list(
    known: KnownResource,
    devices: tuple[Reported, ...],
    now: float,
    *,
    own: Collection[str],
    remember: float,
    held: Collection[str] = (),
) -> KnownResource:
    """Update what is remembered by a complete list.

    Args:
        own: IDs that the same registration reported as unhealthy. It knows when they work again.
        remember: for how many seconds an ID that another registration reported so counts as unhealthy.
        held: IDs that claims have; they stay known. Of all others that are gone, the last ``MOST_IDS`` do.
    """
    present, healthy = {device.id for device in devices}, {device.id for device in devices if device.healthy}
    gone = {name: known.gone.get(name, now) for name in (*known.gone, *(one.id for one in known.devices))}
    was_unhealthy = {device.id for device in known.devices if not device.healthy}
    failed: dict[str, float] = {}
    for name, at in known.failed.items():
        since = now if name in was_unhealthy else at
        if name not in healthy or (name not in own and now - since < remember):
            failed[name] = since
    failed |= {device.id: now for device in devices if not device.healthy}
    left = {name: at for name, at in gone.items() if name not in present}
    return without(replace(known, devices=devices, gone=left, failed=failed), _too_many(left, held))


def _too_many(gone: Mapping[str, float], held: Collection[str]) -> Collection[str]:
    """IDs that are gone and are forgotten, because others are gone that went later."""
    spare = [name for name in gone if name not in held] if len(gone) > MOST_IDS else []
    return sorted(spare, key=lambda name: (gone[name], name))[: max(0, len(spare) - MOST_IDS)]


def without(known: KnownResource, ids: Collection[str]) -> KnownResource:
    """Forget these IDs."""
    gone = {each: at for each, at in known.gone.items() if each not in ids}
    failed = {each: at for each, at in known.failed.items() if each not in ids}
    return replace(known, devices=tuple(each for each in known.devices if each.id not in ids), gone=gone, failed=failed)
