"""Cards that have been seen stay known: a card that is lost is reported as a card that does not work."""

import threading
from collections.abc import Callable, Mapping

from driver.errors import TransientFault
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.port import CardSource, Hardware, HardwareRefusal, Health

_SILENT = Health("fatal", "the card does not answer", recovery="reboot")
_LOST = Health("fatal", "the card is not there any more: it has fallen off the bus or was removed", recovery="reboot")


class StickyCards(CardSource):
    """Goes on reporting a card that the hardware has lost, with fatal health, until the machine starts again.

    A card that vanishes from what is published would take its taint and the health of its pods with it. It is forgotten
    when another card has its number. While the backend does not answer, because one card hangs, the cards are those
    that were seen, and those that do not answer by themselves do not work. Thread-safe.

    Args:
        file: where the cards are kept that do not work, so that one that is lost is not forgotten with this object.
        finds: how often hardware was found for this node. The cards of the one before are not lost but forgotten.
    """

    def __init__(self, hardware: Hardware, file: BootFile[list[Card]], finds: Callable[[], int] = lambda: 0):
        self._hardware = hardware
        self._file = file
        self._lock = threading.Lock()
        self._failed = file.load() or []
        """The cards that do not work, as they are in the file."""
        self._seen: dict[str, Card] = {}
        """By ``Card.name``; empty until the backend has answered, because the file does not have all cards."""
        self._finds = finds
        self._found = 0
        """The number of the hardware that had the cards that were seen; 0 before any was found."""
        self._reported: Mapping[str, Health] = {}
        """What the backend said last."""

    def cards(self) -> tuple[Card, ...]:
        """See ``CardSource``; in order of unit and index."""
        try:
            present = self._hardware.cards()
        except TransientFault:
            if known := self._known():
                return known
            raise
        found = {card.uuid for card in present}
        with self._lock:
            if (finds := self._finds()) != self._found:
                if self._found:
                    self._seen, self._failed = {}, []
                self._found = finds
            before = self._seen or {card.name: card for card in self._failed}
            kept = {name: card for name, card in before.items() if card.uuid not in found}
            self._seen = kept | {card.name: card for card in present}
        return self._known()

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``; a card that the backend knows nothing of is lost."""
        health = self._health()
        with self._lock:
            failed = [card for name, card in sorted(self._seen.items()) if health.get(name, Health()).state == "fatal"]
            if failed != self._failed:
                self._file.choose(failed or None)
            self._failed = failed
        self._file.save()
        return health

    def _health(self) -> Mapping[str, Health]:
        try:
            reported = self._reported = self._hardware.health()
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
            self._hardware.observe(card)
        except (HardwareRefusal, TransientFault):
            return False
        return True
