"""The use of one device by a claim, as the hardware sees it. Pure."""

from dataclasses import dataclass

from driver.parameters import GpuConfig, NpuConfig
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Partition


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a shared card that a claim may use."""

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
    """The parameters for this device; None means the defaults of its vendor. Parameters of another vendor are
    Unsupported."""
    cards_of_request: tuple[str, ...] = ()
    """Uuids of all cards of the request, this one included, each once, in the order of PCI bus ids. A container gets
    all devices of a request or none, so it numbers the cards in this order if it has no others."""
    cards_of_claim: tuple[str, ...] = ()
    """Uuids of the cards of all bridged devices of the claim, this one included, in the order of the allocation; a
    share has that of its card once for each slot."""
    admin: bool = False
    """Whether the device is only monitored (``adminAccess``). It needs no action, and has neither a share nor a
    config."""

    @property
    def device(self) -> str:
        """Device name of the card or partition; a share has the name of its card."""
        return self.card.part_name(self.partition)
