"""A physical card, as every backend reports it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from driver.kinds import WholeKind
from kubeletplugin.hardware.partitions import Partition, Scheme
from kubeletplugin.hardware.vendors import Vendor, facts_of


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU, or one NPU chip."""

    index: int
    """The number that the vendor's tools use on this node (NVML minor number, Ascend physical id)."""
    uuid: str
    """Unique and permanent (NVML UUID, Ascend VDIE)."""
    vendor: Vendor
    type: str
    """The product family: A100, H100, T4, 910B, 310P."""
    model: str
    architecture: str
    memory_mib: int
    pci_bus_id: str
    """``0000:18:00.0``: four-digit domain, lower case (resource.kubernetes.io/pciBusID); "" if it is unknown."""
    pcie_root: str
    """``pci0000:15`` (resource.kubernetes.io/pcieRoot); "" if it is unknown."""
    driver_version: str
    numa_node: int | None = None
    """None if the machine does not report it (sysfs: -1)."""
    ib_cluster: str = ""
    """The InfiniBand fabric that the card's node is attached to; "" if it is not known."""
    rail: str = ""
    """The rail of the fabric that the card is attached to; "" if it is not known."""
    nvlink_domain: str = ""
    """The NVLink domain: its cards are connected without PCIe. "" without NVLink."""
    compute_capability: str = "0.0.0"
    """CUDA compute capability as a semantic version; 0.0.0 for cards without one."""
    cuda_version: str = "0.0.0"
    """The newest CUDA that the driver serves, as a semantic version; 0.0.0 if it is unknown or there is none."""
    scheme: Scheme | None = None
    """The card's possible partitions; None if it has none."""

    @property
    def unit(self) -> WholeKind:
        """The kind of a whole card of this vendor."""
        return facts_of(self.vendor).kind

    @property
    def name(self) -> str:
        """Name of the whole card's device and of the card's counter set, such as ``gpu-0``."""
        return f"{self.unit}-{self.index}"

    @property
    def share_name(self) -> str:
        """Name of the share of the card: ``gpu-0-share``."""
        return f"{self.name}-share"

    @property
    def counters(self) -> Mapping[str, int]:
        """Capacity of the card by counter; the card's devices exclude each other by consuming it."""
        return self.scheme.counters if self.scheme else {"card": 1}

    def part_name(self, partition: Partition | None) -> str:
        """Name of the whole card, or of one partition: ``gpu-0-mig-1g-5gb-6``, ``npu-3-vir02-1c-0``."""
        if partition is None:
            return self.name
        match kind := facts_of(self.vendor).partition_kind:
            case "mig":
                return f"{self.name}-mig-{partition.suffix}"
            case "vnpu":
                return f"{self.name}-{partition.suffix}"
            case _:
                assert_never(kind)
