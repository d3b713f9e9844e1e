"""The cards of a node, which may fail one by one, or not answer at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from driver.errors import TransientFault
from kubeletplugin.hardware import Card, Health
from kubeletplugin.hardware.partitions import Partition
from kubeletplugin.hardware.port import DeviceNode
from kubeletplugin.hardware.simulated import SimulatedHardware


@dataclass(slots=True)
class FailingHardware:
    """Implements ``Hardware``: the cards of a node, which outlive every program."""

    cards_of_node: SimulatedHardware
    answers: bool = True
    """Whether the vendor's library answers."""
    faults: dict[str, str] = field(default_factory=dict)
    """What is wrong with cards, by ``Card.name``."""

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``."""
        self._answer()
        return self.cards_of_node.cards()

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        self._answer()
        return {
            name: Health(healthy=False, message=self.faults[name]) if name in self.faults else health
            for name, health in self.cards_of_node.health().items()
        }

    def device_nodes(self, card: Card, partition: Partition | None) -> tuple[DeviceNode, ...]:
        """See ``Hardware``."""
        self._answer()
        return self.cards_of_node.device_nodes(card, partition)

    def _answer(self) -> None:
        if not self.answers:
            raise TransientFault("the hardware does not answer")
