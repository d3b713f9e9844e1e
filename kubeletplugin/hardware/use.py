"""What a claim makes of one device, as far as the hardware matters. Pure."""

from dataclasses import dataclass

from driver.parameters import GpuConfig, NpuConfig
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Partition


@dataclass(frozen=True, slots=True)
class Share:
    """What a tenant may use of a shared card."""

    id: str
    """``shareID`` of the allocation; unique among the shares of a device."""
    memory_mib: int
    cores: int
    """Per cent of the card; 0: none are reserved."""


@dataclass(frozen=True, slots=True)
class Use:
    """One allocated device of a claim: a whole card, a share of it or a partition of it."""

    claim: str
    """uid of the claim"""
    card: Card
    partition: Partition | None = None
    """None for a whole card and for a share."""
    share: Share | None = None
    config: GpuConfig | NpuConfig | None = None
    """The parameters for this device; None is the default of its vendor. A config of another vendor is Unsupported."""
    cards_of_request: tuple[str, ...] = ()
    """The uuids of the cards of this request, ordered by PCI bus id, each once, this one included. A container gets all
    devices of a request or none, so this is how it numbers them if it has no others."""
    admin: bool = False
    """Whether the device is only looked at (``adminAccess``): it is its owner's, so it needs no action and gets no
    sharing. It has neither a share nor a config."""

    @property
    def device(self) -> str:
        """Name of the card's or the partition's device; a share has that of its card."""
        return self.card.part_name(self.partition)
