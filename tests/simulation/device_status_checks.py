"""What must hold for ``status.devices`` of an allocated claim, judged by the API's object alone."""

from collections.abc import Iterator, Mapping
from typing import Any

from driver.kube.api import Object
from driver.wire import allocation_from

_KEY = ("driver", "pool", "device", "shareID")


def device_status_problems(claim: Object, driver: str) -> Iterator[str]:
    """Find what the entries of a newly allocated claim lack: each device of the driver has one that says what it is."""
    status = claim["status"]
    results = {_key(one): one for one in status["allocation"]["devices"]["results"] if one["driver"] == driver}
    entries = {_key(one): one.get("data") or {} for one in status.get("devices") or ()}
    if entries.keys() != results.keys():
        yield f"devices {sorted(results)} are allocated, but status.devices has {sorted(entries)}"
        return
    node = allocation_from(status["allocation"]).node_name
    for key, data in entries.items():
        if (data.get("apiVersion"), data.get("kind"), data.get("node")) != (f"{driver}/v1alpha1", "DeviceFacts", node):
            yield f"status.devices of {key} is no document about a device of {node}: {data}"
        share = results[key].get("consumedCapacity") or {}
        if share and data.get("memory") != share["memory"]:
            yield f"status.devices of {key} says {data.get('memory')} memory, but it is {share['memory']}"


def _key(one: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(one.get(name) or "" for name in _KEY)
