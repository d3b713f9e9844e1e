"""What ``status.devices`` of a claim says about its devices: which card each is, and what keeps containers in it. Pure.

Both programs write it: the controller with the allocation, and the plugin where kube-scheduler allocates. It is written
for others, such as monitoring and people, and read back by no decision: everybody with the right could have written it.
docs/device-facts.md has the schema.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from driver.limits import MAX_ATTRIBUTE_BYTES
from driver.model import Allocation, Device, DeviceId, OpaqueConfig, Result
from driver.names import PCI_BUS_ID, Names
from driver.parameters import sharing_of
from driver.quantity import NANO, Quantity

KIND: Final = "DeviceFacts"
MOST_BYTES: Final = 1024
"""The most bytes of one document as JSON. The API server takes 10 KiB, and at most 32 devices of a claim."""

_ENFORCED: Final[Mapping[str, tuple[tuple[str, ...], str, str]]] = {
    "none": ((), "", "containers see their amounts, and nothing keeps them within these"),
    "timeSlicing": (("time",), "driver", "the driver lets processes take turns; memory is not limited"),
    "mps": (
        ("memory", "cores"),
        "MPS daemon",
        "an MPS daemon limits pinned device memory and active threads; a container can change its environment",
    ),
    "hamiCore": (
        ("memory", "cores"),
        "HAMi-core",
        "a library limits the processes of one container, their compute only roughly; those that are linked statically "
        "are not limited",
    ),
}
"""The amounts that each strategy of ``GpuConfig`` enforces, by whom, and a note. docs/nvidia.md has the same table."""
_TEXTS: Final = (("uuid", "uuid"), ("type", "type"), ("profile", "profile"))
"""Fields that are attributes of the driver, and their names there."""
_MOST_NANOS: Final = (2**63 - 1) * NANO


def device_statuses(
    allocation: Allocation, names: Names, device_of: Callable[[DeviceId], Device | None]
) -> tuple[dict[str, Any], ...]:
    """Return the entries of ``status.devices`` for the devices of our driver, in the order of the allocation.

    What slices say is taken over only if it is short and readable, so a document never has more than ``MOST_BYTES``.

    Args:
        device_of: returns a device as it is published; None if it is not known. Its entry then has what follows from
            the allocation alone.
    """
    entries: dict[tuple[str, ...], dict[str, Any]] = {}
    # The API knows an entry by its device and share; a device that is also looked at with admin access has one.
    for result in sorted(allocation.results, key=lambda result: result.admin_access):
        if result.device.driver == names.driver:
            key = _key(result)
            data = _facts(result, allocation, names, device_of(result.device))
            entries.setdefault(tuple(key.values()), {**key, "data": data})
    order = [tuple(_key(result).values()) for result in allocation.results]
    return tuple(entries[key] for key in dict.fromkeys(order) if key in entries)


def _facts(result: Result, allocation: Allocation, names: Names, device: Device | None) -> dict[str, Any]:
    attributes = device.attributes if device else {}
    bus = attributes.get(PCI_BUS_ID)
    facts = {
        "node": allocation.node_name,
        "card": card_of(result.device.device),
        **{field: readable(attributes.get(names.attribute(name))) for field, name in _TEXTS},
        "pciBusID": readable(bus),
    }
    return {
        "apiVersion": names.parameters_api_version,
        "kind": KIND,
        **{field: text for field, text in facts.items() if text},
        **({"adminAccess": True} if result.admin_access else _amounts(result, device)),
        **_enforcement(allocation.config, names, result),
    }


@lru_cache(maxsize=1 << 12)  # cards have the same names on all nodes
def card_of(device: str) -> str:
    """Return the card that a device is part of. Names of devices begin with that of the card, such as ``gpu-0``."""
    return "-".join(device.split("-")[:2])


def readable(value: object) -> str:
    """Return the text if it can be one of the API's attributes and printed, else ""."""
    if not isinstance(value, str) or len(value) > MAX_ATTRIBUTE_BYTES or not value.isprintable():
        return ""
    return value if len(value.encode()) <= MAX_ATTRIBUTE_BYTES else ""


def _amounts(result: Result, device: Device | None) -> dict[str, Any]:
    """Return the memory and the percentage of compute that the claim has of the card, as far as they are known."""

    def amount(name: str) -> Quantity | None:
        if result.share_id:
            found = result.consumed.get(name)
        else:
            capacity = device.capacity.get(name) if device else None
            found = capacity.value if capacity else None
        return found if found is not None and 0 <= found.nanos <= _MOST_NANOS else None

    memory, cores = amount("memory"), amount("cores")
    return {
        **({"memory": str(memory)} if memory is not None else {}),
        **({"cores": cores.value} if cores is not None else {}),
    }


def _enforcement(config: Iterable[OpaqueConfig], names: Names, result: Result) -> dict[str, Any]:
    """Return what keeps containers within a share, or within their turns; nothing of a card that is not shared."""
    sharing = sharing_of(config, names, result.request).partition(" ")[0]
    if result.admin_access or (sharing == "none" and not result.share_id):
        return {}
    enforced, enforcer, note = _ENFORCED[sharing]
    present = {"time"}
    if result.share_id:
        present.add("memory")
    if result.share_id and "cores" in result.consumed and result.consumed["cores"].value > 0:
        present.add("cores")
    return {
        "sharing": sharing,
        "enforces": [amount for amount in enforced if amount in present],
        **({"enforcedBy": enforcer} if enforcer else {}),
        "note": note,
    }


def _key(result: Result) -> dict[str, str]:
    """Return the key by which the API knows the entry."""
    key = {"driver": result.device.driver, "pool": result.device.pool, "device": result.device.device}
    return {**key, "shareID": result.share_id} if result.share_id else key
