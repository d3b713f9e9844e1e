"""The cards of a node, which may fail one by one, or not answer at all."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from driver.errors import TransientFault
from kubeletplugin.hardware import Action, Card, CardState, Edits, Handle, Health, Use
from kubeletplugin.hardware.simulated import SimulatedHardware


@dataclass(slots=True)
class FailingHardware:
    """Implements ``Hardware``: the cards of a node, which outlive every program."""

    cards_of_node: SimulatedHardware
    answers: bool = True
    """Whether the vendor's library answers."""
    faults: dict[str, str] = field(default_factory=dict)
    """What is wrong with cards, by ``Card.name``."""
    lost: set[str] = field(default_factory=set)
    """The cards that have fallen off the bus, by ``Card.name``."""

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``."""
        self._answer()
        return tuple(card for card in self.cards_of_node.cards() if card.name not in self.lost)

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        self._answer()
        return {
            name: Health("fatal", self.faults[name]) if name in self.faults else health
            for name, health in self.cards_of_node.health().items()
            if name not in self.lost
        }

    def observe(self, card: Card) -> CardState:
        """See ``Hardware``."""
        self._answer()
        return self.cards_of_node.observe(card)

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``Hardware``."""
        self._answer()
        return self.cards_of_node.actions(use, taken)

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        self._answer()
        return self.cards_of_node.ensure(action)

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        self._answer()
        self.cards_of_node.release(action, handle)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``Hardware``."""
        self._answer()
        return self.cards_of_node.edits(use, handles)

    def _answer(self) -> None:
        if not self.answers:
            raise TransientFault("the hardware does not answer")
