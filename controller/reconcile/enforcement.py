"""Says in ``status.devices`` of a claim how its containers are kept within their part of a shared card. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from driver.model import Allocation, OpaqueConfig, Result
from driver.parameters import sharing_of

_STRATEGIES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "none": ((), "containers see their amounts, and nothing keeps them within these"),
    "timeSlicing": (("time",), "the driver lets processes take turns; memory is not limited"),
    "mps": (
        ("memory", "cores"),
        "an MPS daemon limits pinned device memory and active threads; a container can change its environment",
    ),
    "hamiCore": (
        ("memory", "cores"),
        "a library limits the processes of one container; those that are linked statically or lack the container's "
        "environment are not limited",
    ),
}
"""The amounts that each strategy of ``GpuConfig`` enforces, and a note. docs/nvidia.md has the same table."""


def device_statuses(allocation: Allocation) -> list[dict[str, Any]]:
    """Return the entries of ``status.devices`` for shares of cards; other devices have none.

    ``data`` has ``sharing``, the strategy; ``enforces``, the amounts that it enforces for this claim (``time``,
    ``memory``, ``cores``); and ``note``. Limits are those of shares: a whole card under MPS has none.
    """
    return [
        {**_key(result), "data": {"sharing": sharing, "enforces": _enforced(sharing, result), "note": note}}
        for result in allocation.results
        if not result.admin_access
        and ((sharing := _sharing(allocation.config, result)) != "none" or result.share_id)
        and (note := _STRATEGIES[sharing][1])
    ]


def _sharing(config: Iterable[OpaqueConfig], result: Result) -> str:
    return sharing_of(config, result.device.driver, result.request).partition(" ")[0]


def _enforced(sharing: str, result: Result) -> list[str]:
    present = {"time"}
    if result.share_id:
        present.add("memory")
    if result.share_id and "cores" in result.consumed and result.consumed["cores"].value > 0:
        present.add("cores")
    return [amount for amount in _STRATEGIES[sharing][0] if amount in present]


def _key(result: Result) -> dict[str, str]:
    """Return the key by which the API knows the entry."""
    key = {"driver": result.device.driver, "pool": result.device.pool, "device": result.device.device}
    return {**key, "shareID": result.share_id} if result.share_id else key
