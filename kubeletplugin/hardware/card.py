"""What a physical card is, whoever reports it. Pure."""

from dataclasses import dataclass
from typing import Literal

from driver.kinds import WholeKind
from kubeletplugin.hardware.partitions import Partition, Scheme

Vendor = Literal["nvidia", "huawei"]


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU, or one NPU chip."""

    index: int
    """The number the vendor's tools give it on this node (NVML minor number, Ascend physical id)."""
    uuid: str
    """Never changes and differs from card to card (NVML UUID, Ascend VDIE)."""
    vendor: Vendor
    type: str
    """The family: A100, H100, T4, 910B, 310P."""
    model: str
    architecture: str
    memory_mib: int
    pci_bus_id: str
    """``0000:18:00.0``: four-digit domain, lower case (resource.kubernetes.io/pciBusID)."""
    pcie_root: str
    """``pci0000:15`` (resource.kubernetes.io/pcieRoot)."""
    driver_version: str
    numa_node: int | None = None
    """None where the machine does not say (sysfs reports -1)."""
    rail: str = ""
    nvlink_domain: str = ""
    """Cards of one NVLink domain reach each other without PCIe; "" if there is none."""
    compute_capability: str = "0.0.0"
    """CUDA compute capability as a semantic version; 0.0.0 where the notion does not exist."""
    scheme: Scheme | None = None
    """How the card can be partitioned, if it can."""

    @property
    def unit(self) -> WholeKind:
        """What a card of this vendor is called."""
        return "gpu" if self.vendor == "nvidia" else "npu"

    @property
    def name(self) -> str:
        """Name of the whole card's device and of the card's counter set, such as ``gpu-0``."""
        return f"{self.unit}-{self.index}"

    def part_name(self, partition: Partition | None) -> str:
        """Name of the whole card, or of one partition: ``gpu-0-mig-1g-5gb-6``, ``npu-3-vir02-1c-0``."""
        if partition is None:
            return self.name
        return f"{self.name}-mig-{partition.suffix}" if self.unit == "gpu" else f"{self.name}-{partition.suffix}"
