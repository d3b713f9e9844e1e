"""Cards that have been seen stay known: a card that is lost is reported as a card that does not work."""

import threading
from collections.abc import Mapping

from driver.errors import TransientFault
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.decorator import HardwareDecorator
from kubeletplugin.hardware.port import Hardware, HardwareRefusal, Health

_SILENT = Health("fatal", "the card does not answer", recovery="reboot")
_LOST = Health("fatal", "the card is not there any more: it has fallen off the bus or was removed", recovery="reboot")


class KnownCards(HardwareDecorator):
    """``Hardware`` that goes on reporting a card that it has lost, with fatal health, until the machine starts again.

    A card that vanishes from what is published would take its taint and the health of its pods with it. It is forgotten
    when another card has its number. While the backend does not answer, because one card hangs, the cards are those
    that were seen, and those that do not answer by themselves do not work. Thread-safe.

    Args:
        file: where lost cards are kept, so that a restart of the program does not end them; without it, they are
            forgotten with this object.
    """

    def __init__(self, hardware: Hardware, file: BootFile[list[Card]] | None = None):
        super().__init__(hardware)
        self._file = file
        self._lock = threading.Lock()
        self._lost = (file.load() if file else None) or []
        self._seen = {card.name: card for card in self._lost}
        """By ``Card.name``."""
        self._reported: Mapping[str, Health] = {}
        """What the backend said last."""

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``; in order of unit and index."""
        try:
            present = self.decorated.cards()
        except TransientFault:
            if known := self._known():
                return known
            raise
        found, taken = {card.uuid for card in present}, {card.name for card in present}
        with self._lock:
            lost = [card for name, card in self._seen.items() if card.uuid not in found and name not in taken]
            self._seen = {card.name: card for card in (*lost, *present)}
            if self._file and lost != self._lost:
                self._file.save(lost or None)
            self._lost = lost
        return self._known()

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``; a card that the backend knows nothing of is lost."""
        try:
            reported = self._reported = self.decorated.health()
        except TransientFault:
            known = self._known()
            silent = {card.name for card in known if not self._answers(card)}
            if not silent:
                raise
            last = self._reported
            return {card.name: _SILENT if card.name in silent else last.get(card.name, Health()) for card in known}
        with self._lock:
            lost = {name: _LOST for name in self._seen if name not in reported}
        return {**reported, **lost}

    def _known(self) -> tuple[Card, ...]:
        with self._lock:
            return tuple(sorted(self._seen.values(), key=lambda card: (card.unit, card.index)))

    def _answers(self, card: Card) -> bool:
        try:
            self.decorated.observe(card)
        except (HardwareRefusal, TransientFault):
            return False
        return True
