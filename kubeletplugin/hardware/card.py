"""A physical card, as every backend reports it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from driver.kinds import WholeKind
from kubeletplugin.hardware.partitions import Partition, Scheme
from kubeletplugin.hardware.vendors import CardVendor, facts_of


@dataclass(frozen=True, slots=True)
class Bridged:
    """What a vendor's device plugin and the settings say about a card."""

    resource: str
    """``amd.com/gpu``"""
    device_id: str
    """Its name in the device plugin; what the names of its replicas begin with, if it has replicas."""
    name: str
    """Name of the device and of the card, such as ``gpu-3f2a9c1b44``."""
    vendor: str
    """The vendor in words, such as ``amd``."""
    ids: tuple[str, ...]
    """The names that the device plugin hands out, sorted; one for each tenant."""
    is_shared: bool = False
    """Whether it is offered as a share with a slot for each of ``ids``, or else as a whole card."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes that the settings give it, by their names without the driver's domain."""
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Amounts that the settings give it, as quantities, besides its memory."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU, one NPU chip, or one device of a device plugin."""

    index: int
    """The number that the vendor's tools use on this node (NVML minor number, Ascend physical id); -1 if bridged."""
    uuid: str
    """Unique and permanent (NVML UUID, Ascend VDIE)."""
    vendor: CardVendor
    type: str
    """The product family: A100, H100, T4, 910B, 310P."""
    model: str
    architecture: str
    memory_mib: int
    pci_bus_id: str
    """``0000:18:00.0``: domain of four digits or more, lower case (resource.kubernetes.io/pciBusID); "" if it is
    unknown. Chips of one board may have the same."""
    pcie_root: str
    """``pci0000:15`` (resource.kubernetes.io/pcieRoot); "" if it is unknown."""
    driver_version: str
    pcie_switch: str = ""
    """The PCIe switch nearest to it, see ``Place.switch``; "" if there is none, or it is unknown."""
    numa_node: int | None = None
    """None if the machine does not report it (sysfs: -1)."""
    ib_cluster: str = ""
    """The InfiniBand fabric that the card's node is attached to; "" if it is not known."""
    rail: str = ""
    """The rail of the fabric that the card is attached to; "" if it is not known."""
    nvlink_domain: str = ""
    """The NVLink domain: its cards are connected without PCIe. "" without NVLink."""
    links: Mapping[int, int] = field(default_factory=dict)
    """Number of links to each card that it is linked to, by ``index``. Empty where any two cards of the domain have as
    many, so that ``nvlink_domain`` says it all."""
    compute_capability: str = "0.0.0"
    """CUDA compute capability as a semantic version; 0.0.0 for cards without one."""
    cuda_version: str = "0.0.0"
    """The newest CUDA that the driver serves, as a semantic version; 0.0.0 if it is unknown or there is none."""
    scheme: Scheme | None = None
    """The card's possible partitions; None if it has none, or if they are not known."""
    partitions_unread: str = ""
    """Why its partitions are not known now: which call failed and how, and that it is tried again. "" if they are known
    or if it has none."""
    memory_unread: str = ""
    """The same of its memory, without which it has no share."""
    bridged: Bridged | None = None
    """Only if a vendor's device plugin serves it."""

    @property
    def unit(self) -> WholeKind:
        """The kind of a whole card of this vendor."""
        return facts_of(self.vendor).kind

    @property
    def name(self) -> str:
        """Name of the whole card's device and of the card's counter set, such as ``gpu-0``."""
        return self.bridged.name if self.bridged else f"{self.unit}-{self.index}"

    @property
    def order(self) -> tuple[str, int, str]:
        """Its place among the cards of a node."""
        return self.unit, self.index, self.uuid if self.bridged else ""

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
            case "vnpu" | None:
                return f"{self.name}-{partition.suffix}"
            case _:
                assert_never(kind)
