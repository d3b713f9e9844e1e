"""Which of the node's cards another driver hands out, by what the API says about the node. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from driver.kube.api import Object
from kubeletplugin.hardware.card import Vendor

_RESOURCES: Final[Mapping[str, Vendor]] = {
    "nvidia.com/gpu": "nvidia",
    "nvidia.com/mig-": "nvidia",
    "huawei.com/": "huawei",
}
"""How the extended resources of device plugins begin. Resources that DRA drivers serve are not in a Node's status."""
_DRIVERS: Final[Mapping[str, Vendor]] = {"gpu.nvidia.com": "nvidia", "npu.huawei.com": "huawei"}
"""DRA drivers of cards."""


def serving(node: Object, drivers: Collection[str]) -> Mapping[Vendor, str]:
    """Who else hands out the cards of a vendor; vendors whose cards nobody else hands out are left out.

    Nothing says which of the cards these are, so all of the vendor's count.

    Args:
        drivers: the names of the other drivers that publish devices of this node.
    """
    found: dict[Vendor, list[str]] = {}
    for vendor, who in (*_plugins(node), *_dra_drivers(drivers)):
        found.setdefault(vendor, []).append(who)
    return {vendor: ", ".join(names) for vendor, names in found.items()}


def _plugins(node: Object) -> Iterator[tuple[Vendor, str]]:
    allocatable: Mapping[str, object] = (node.get("status") or {}).get("allocatable") or {}
    for resource, amount in sorted(allocatable.items()):
        for prefix, vendor in _RESOURCES.items():
            if resource.startswith(prefix) and str(amount) != "0":
                yield vendor, f"the device plugin of {resource}"


def _dra_drivers(drivers: Collection[str]) -> Iterator[tuple[Vendor, str]]:
    for driver in sorted(drivers):
        if driver in _DRIVERS:
            yield _DRIVERS[driver], f"the DRA driver {driver}"
