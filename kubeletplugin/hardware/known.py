"""Cards that have been seen stay known: a card that is lost is reported as a card that does not work."""

import threading
from collections.abc import Mapping

from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.decorator import HardwareDecorator
from kubeletplugin.hardware.port import Hardware, Health

_LOST = Health("fatal", "the card is not there any more: it has fallen off the bus or was removed", recovery="reboot")


class KnownCards(HardwareDecorator):
    """``Hardware`` that goes on reporting a card that it has lost, with fatal health, as long as this object lives.

    A card that vanishes from what is published would take its taint and the health of its pods with it. It is forgotten
    when another card has its number. Thread-safe.
    """

    def __init__(self, hardware: Hardware):
        super().__init__(hardware)
        self._lock = threading.Lock()
        self._seen: dict[str, Card] = {}
        """By ``Card.name``."""

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``; in order of unit and index."""
        present = self.decorated.cards()
        moved = {card.uuid for card in present}
        with self._lock:
            kept = {name: card for name, card in self._seen.items() if card.uuid not in moved}
            self._seen = kept | {card.name: card for card in present}
            return tuple(sorted(self._seen.values(), key=lambda card: (card.unit, card.index)))

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``; a card that the backend knows nothing of is lost."""
        reported = self.decorated.health()
        with self._lock:
            lost = {name: _LOST for name in self._seen if name not in reported}
        return {**reported, **lost}
