"""The attributes and the capacity by which NVIDIA's DRA driver describes a device, for devices of ours. Pure.

They are published beside ours where the setting ``nvidiaDraNames`` is on, so that selectors and constraints that were
written for that driver mean the same.
"""

import re
from collections.abc import Mapping
from typing import Final

from driver.kinds import SHARE_KINDS, DeviceKind
from driver.model import AttributeValue, Capacity, RequestPolicy, Version
from driver.names import NVIDIA_DRA_DRIVER
from driver.quantity import Quantity
from driver.semver import is_semver
from kubeletplugin.hardware import Card, Partition
from kubeletplugin.hardware.partitions import MULTIPROCESSORS

_TYPES: Final[Mapping[DeviceKind, str]] = {"gpu": "gpu", "gpu-share": "gpu", "mig": "mig"}
"""That driver's type of each kind of device that it knows: where it shares cards, a whole one is a share of all."""
_BRANDS: Final[Mapping[str, str]] = {
    **{
        name.lower(): name.replace(" ", "")
        for name in ("GeForce RTX", "Quadro RTX", "Titan RTX", "GeForce", "Quadro", "Titan", "Tesla", "Grid", "NVS")
    },
    "rtx": "NvidiaRTX",
}
"""Brands by what the name of a product contains, in lower case; every other card is of the brand ``Nvidia``."""


def capacity_of(kind: DeviceKind, partition: Partition | None, memory: Quantity) -> dict[str, Capacity]:
    """The capacity of a device that has attributes of that driver, by its qualified names.

    A claim for a share names our ``memory``, as it did there; what it takes is counted once. So nothing is consumed of
    the one by that driver's name, which is there for selectors.

    Args:
        memory: of the device.
    """
    none, one = Quantity.whole(0), Quantity.whole(1)
    policy = RequestPolicy(default=none, minimum=none, step=one) if kind in SHARE_KINDS else None
    amounts = {"memory": Capacity(memory, policy)}
    if partition:
        # Every driver says how many. A profile that was recorded without them has none, so that no selector fails.
        amounts["multiprocessors"] = Capacity(Quantity.whole(partition.draws.get(MULTIPROCESSORS, 0)))
    return {f"{NVIDIA_DRA_DRIVER}/{name}": amount for name, amount in amounts.items()}


def attributes_of(card: Card, kind: DeviceKind, partition: Partition | None) -> dict[str, AttributeValue]:
    """The attributes by their qualified names, the most used first; none for devices that the driver does not have.

    Texts may be longer than an attribute can be.
    """
    if card.vendor != "nvidia" or kind not in _TYPES:
        return {}
    common: dict[str, AttributeValue] = {
        "type": _TYPES[kind],
        "productName": card.model,
        "architecture": card.architecture,
        "cudaComputeCapability": Version(card.compute_capability),
        "driverVersion": Version(_version(card.driver_version)),
        "cudaDriverVersion": Version(card.cuda_version),
    }
    own: dict[str, AttributeValue] = {"profile": partition.profile, "parentUUID": card.uuid} if partition else {}
    if not partition:
        own = {"uuid": card.uuid, "brand": _brand(card.model), "index": card.index}
        own |= {} if kind in SHARE_KINDS else {"minor": card.index}  # no room: shares have a capacity more
    return {f"{NVIDIA_DRA_DRIVER}/{name}": value for name, value in (own | common).items()}


def _version(text: str) -> str:
    """A version of NVIDIA's driver as a semantic version: ``580.65.06`` is 580.65.6; 0.0.0 if it is none."""
    numbers = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", text, re.ASCII)
    found = ".".join(str(int(number or 0)) for number in numbers.groups()) if numbers else ""
    return found if is_semver(found) else "0.0.0"


def _brand(model: str) -> str:
    lower = model.lower()
    return next((brand for part, brand in _BRANDS.items() if part in lower), "Nvidia")
