"""Devices as a device plugin reports them, and which of them are one card. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, assert_never

Replicas = Literal["auto", "dashed", "equal", "none"]
"""``auto``: IDs that differ only in ``::N``, ``-_-N`` or ``/vgpuN`` are one card. ``dashed``: so are IDs that differ in
``-N``. ``equal``: all IDs are one card. ``none``: each ID is a card."""

ALL: Final = "all"
"""The ID of the card whose replicas are all IDs of a resource."""
_PLAIN: Final = re.compile(r"(.+?)(?:::\d+|-_-\d+|/vgpu\d+)", re.ASCII | re.DOTALL)
_DASHED: Final = re.compile(r"(.+)-\d+", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reported:
    """An entry of a device plugin's list."""

    id: str
    healthy: bool = True
    numa_node: int | None = None
    """The lowest of its NUMA nodes."""


@dataclass(frozen=True, slots=True)
class ReportedCard:
    """What a device plugin reports about one card."""

    device_id: str
    ids: tuple[str, ...]
    """Sorted."""
    is_shared: bool
    """Whether the IDs are replicas, each for one tenant."""
    unhealthy: tuple[str, ...] = ()
    """Those of ``ids`` that are not healthy. One of them counts for the card: plugins report a fault of a card for one
    of its replicas."""
    numa_node: int | None = None


def card_reports(devices: Iterable[Reported], replicas: Replicas) -> tuple[ReportedCard, ...]:
    """The cards of a list, in the order of their IDs. Each ID is in one of them; the first of equal IDs counts."""
    found: dict[str, dict[str, Reported]] = {}
    shared: set[str] = set()
    for device in devices:
        base = _base(device.id, replicas)
        if base is not None:
            shared.add(base)
        found.setdefault(device.id if base is None else base, {}).setdefault(device.id, device)
    return tuple(_report(base, found[base], base in shared) for base in sorted(found))


def _report(base: str, replicas: Mapping[str, Reported], is_shared: bool) -> ReportedCard:
    ids = tuple(sorted(replicas))
    numa = [node for one in replicas.values() if (node := one.numa_node) is not None]
    unhealthy = tuple(name for name in ids if not replicas[name].healthy)
    return ReportedCard(base, ids, is_shared, unhealthy, min(numa) if numa else None)


def _base(device_id: str, replicas: Replicas) -> str | None:
    """The ID of the card that this ID is a replica of; None if it is a card of its own."""
    match replicas:
        case "none":
            return None
        case "equal":
            return ALL
        case "auto":
            found = _PLAIN.fullmatch(device_id)
        case "dashed":
            found = _PLAIN.fullmatch(device_id) or _DASHED.fullmatch(device_id)
        case _:
            assert_never(replicas)
    return found[1] if found else None
