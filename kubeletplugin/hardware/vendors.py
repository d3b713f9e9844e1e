"""The table of vendors: everything that differs by vendor outside the backends. Pure.

To add a vendor, add a member to ``Vendor`` and an entry here; mypy names every other place that needs it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, assert_never, get_args

from driver.kinds import Backend, PartitionKind, WholeKind
from driver.parameters import GpuConfig, NpuConfig

Vendor = Literal["nvidia", "huawei"]
CardVendor = Vendor | Literal["bridged"]
"""``bridged``: of any vendor, whose own device plugin serves the card (``Card.bridged``)."""

EVERY_VENDOR: Final[tuple[Vendor, ...]] = get_args(Vendor)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorFacts:
    """Facts about the cards of one vendor."""

    company: str
    brand: str
    """The name of its accelerators."""
    backend: Backend
    kind: WholeKind
    """The kind of a whole card. Vendors may share one. Devices are named after the kind and a number, so a node serves
    the cards of one of these vendors only (``choosing``)."""
    partition_kind: PartitionKind | None
    """None if its cards have no partitions."""
    parameters: type[GpuConfig] | type[NpuConfig]
    """The class of parameters in claims for its cards."""
    visible_devices: str
    """The environment variable that makes its container runtime add cards to a container; "" if there is none."""
    extended_resources: tuple[str, ...]
    """Prefixes of the extended resources of its device plugins."""
    numbered_card: re.Pattern[str] | None
    """Device names of its device plugin, with the card's number as the first group; None if the names are uuids of
    cards."""
    device_plugins: tuple[str, ...]
    """Parts of the socket names of its device plugins, in lower case."""
    card_drivers: tuple[str, ...]
    """DRA drivers that publish its cards."""
    companion_drivers: tuple[str, ...]
    """DRA drivers that need one of ``card_drivers``."""
    pci_vendor: str
    pci_classes: tuple[str, ...]
    """Prefixes of the PCI classes of its accelerators."""
    device_files: tuple[str, ...]
    """Names below ``/dev`` that every container with a card needs. Only a node with cards has the first one."""
    card_file: str
    """Prefix of the name below ``/dev`` of each card."""
    library: str
    """The library that talks to its driver."""
    remedy: str
    """Instructions to install its driver."""


_NVIDIA: Final = VendorFacts(
    company="NVIDIA",
    brand="NVIDIA",
    backend="nvidia",
    kind="gpu",
    partition_kind="mig",
    parameters=GpuConfig,
    visible_devices="NVIDIA_VISIBLE_DEVICES",
    # NVIDIA's and HAMi's device plugins, and Volcano's.
    extended_resources=("nvidia.com/gpu", "nvidia.com/mig-", "volcano.sh/gpu-", "volcano.sh/vgpu-"),
    numbered_card=None,
    device_plugins=("nvidia",),
    card_drivers=("gpu.nvidia.com",),
    companion_drivers=("compute-domain.nvidia.com",),
    pci_vendor="0x10de",
    pci_classes=("0x0300", "0x0302"),  # VGA and 3D controllers
    device_files=("nvidiactl", "nvidia-uvm"),
    card_file="nvidia",
    library="libnvidia-ml.so.1",
    remedy="install NVIDIA's driver, and create the device nodes with `nvidia-modprobe -u -c=0`",
)
_HUAWEI: Final = VendorFacts(
    company="Huawei",
    brand="Ascend",
    backend="ascend",
    kind="npu",
    partition_kind="vnpu",
    parameters=NpuConfig,
    visible_devices="ASCEND_VISIBLE_DEVICES",
    extended_resources=("huawei.com/",),
    numbered_card=re.compile(r"Ascend\w*-(?:.*-)?(\d+)"),  # Ascend910-3, or Ascend910-2c-100-3 of a vNPU on chip 3
    device_plugins=("ascend", "davinci", "huawei", "npu"),
    card_drivers=("npu.huawei.com",),
    companion_drivers=(),
    pci_vendor="0x19e5",
    pci_classes=("0x1200",),  # processing accelerators
    device_files=("davinci_manager", "devmm_svm", "hisi_hdc"),
    card_file="davinci",
    library="libdcmi.so",
    remedy="install the Ascend driver and firmware, and restart the machine",
)
_BRIDGED: Final = VendorFacts(
    company="",
    brand="",
    backend="deviceplugin",
    kind="device",
    partition_kind=None,
    parameters=GpuConfig,  # a claim that asks for a strategy of sharing is refused
    visible_devices="",
    extended_resources=(),
    numbered_card=None,
    device_plugins=(),
    card_drivers=(),
    companion_drivers=(),
    pci_vendor="",
    pci_classes=(),
    device_files=(),
    card_file="",
    library="",
    remedy="",
)


def facts_of(vendor: CardVendor) -> VendorFacts:
    """The vendor's entry of the table."""
    match vendor:
        case "nvidia":
            return _NVIDIA
        case "huawei":
            return _HUAWEI
        case "bridged":
            return _BRIDGED
        case _:
            assert_never(vendor)


def vendor_of_resource(resource: str) -> Vendor | None:
    """The vendor whose cards a device plugin offers by this name; None if the resource is something else."""
    return next((vendor for prefix, vendor in _RESOURCES.items() if resource.startswith(prefix)), None)


_RESOURCES: Final[Mapping[str, Vendor]] = {
    prefix: vendor for vendor in EVERY_VENDOR for prefix in facts_of(vendor).extended_resources
}
