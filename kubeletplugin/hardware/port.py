"""The port to a node's accelerators. The backend is ``simulated``. No I/O here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Partition


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a card works; ``message`` says why not (the kubelet cuts it at ``driver.limits.MAX_HEALTH_MESSAGE``)."""

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
    """The cards of this node. Every method may raise ``TransientFault``; the caller retries later."""

    def cards(self) -> tuple[Card, ...]:
        """The cards present, in order of unit and index."""
        ...

    def health(self) -> Mapping[str, Health]:
        """Health of every card, by ``Card.name``."""
        ...

    def device_nodes(self, card: Card, partition: Partition | None) -> tuple[DeviceNode, ...]:
        """The device files of ``partition``; with ``partition`` None, those of ``card`` or of a share of it."""
        ...
