"""A decorator of the hardware port that forwards every question; what adds something to it derives from this."""

from collections.abc import Collection, Mapping

from kubeletplugin.hardware.actions import Action, Handle
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.port import CardState, Hardware, Health
from kubeletplugin.hardware.use import Use


class HardwareDecorator(Hardware):
    """``Hardware`` that answers as another. What it is asked together, it asks the other one by one."""

    def __init__(self, hardware: Hardware):
        self.decorated = hardware

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``."""
        return self.decorated.cards()

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        return self.decorated.health()

    def observe(self, card: Card) -> CardState:
        """See ``Hardware``."""
        return self.decorated.observe(card)

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``Hardware``."""
        return self.decorated.actions(use, taken)

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        return self.decorated.ensure(action)

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        self.decorated.release(action, handle)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``Hardware``."""
        return self.decorated.edits(use, handles)
