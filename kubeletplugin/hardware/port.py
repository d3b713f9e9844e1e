"""The port to a node's accelerators. Backends: ``simulated``; others follow. No I/O here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Partition


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a card works; ``message`` says why not (at most 1,024 bytes reach the kubelet)."""

    healthy: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A character device for a container, with the fields of CDI's ``deviceNodes``."""

    path: str
    """In the container."""
    host_path: str
    major: int
    minor: int
    permissions: str = "rw"


class Hardware(Protocol):
    """The cards of this node. Every method may raise ``TransientFault``; the caller tries again later."""

    def cards(self) -> tuple[Card, ...]:
        """The cards present, in order of unit and index."""
        ...

    def health(self) -> Mapping[str, Health]:
        """Health of every card, by ``Card.name``."""
        ...

    def device_nodes(self, card: Card, partition: Partition | None) -> tuple[DeviceNode, ...]:
        """What a container that holds ``card``, a share of it (``partition`` None), or ``partition`` must see."""
        ...
