"""Keeps lost cards in the list of cards, with fatal health."""

import threading
from collections.abc import Callable, Container, Mapping

from driver.errors import TransientFault
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.port import CardSource, HardwarePorts, HardwareRefusal, Health

_LOST = Health("fatal", "the card is not there any more: it has fallen off the bus or was removed", recovery="reboot")


class StickyCards(CardSource):
    """Reports a card that the hardware has lost, with fatal health, until the machine reboots.

    A card that is no longer published would take its taint and the health of its pods with it. A lost card is forgotten
    when another card gets its number. While the backend does not answer, because one card hangs, all cards seen before
    are reported, and each card that does not answer ``observe`` has fatal health. Thread-safe.

    Args:
        file: keeps the failed cards when the program restarts, so that lost ones are not forgotten.
        finds: number of times that hardware was found for this node. The cards of earlier hardware are forgotten, not
            lost.
        left_out: cards that are not offered any more, and so not lost.
    """

    def __init__(
        self,
        hardware: HardwarePorts,
        file: BootFile[list[Card]],
        finds: Callable[[], int] = lambda: 0,
        left_out: Container[Card] = (),
    ):
        self._hardware = hardware
        self._file = file
        self._lock = threading.Lock()
        self._failed = [card for card in file.load() or () if card not in left_out]
        """The failed cards, as in the file."""
        self._seen: dict[str, Card] = {}
        """The cards seen, by ``Card.name``; empty until the backend has answered, because the file has failed cards
        only."""
        self._finds = finds
        self._found = 0
        """Value of ``finds`` when the cards were seen; 0 before any was found."""
        self._reported: Mapping[str, Health] = {}
        """The last answer of the backend."""

    def cards(self) -> tuple[Card, ...]:
        """See ``CardSource``; in order of unit and index."""
        try:
            present = self._hardware.source.cards()
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
            # A device plugin may rename and remove its devices; its backend remembers them as long as it should.
            kept = {name: card for name, card in before.items() if card.uuid not in found and not card.bridged}
            self._seen = kept | {card.name: card for card in present}
        return self._known()

    def unread_cards(self) -> tuple[str, ...]:
        """See ``CardSource``."""
        return self._hardware.source.unread_cards()

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``. A card that the backend does not report is lost, unless it could not read all."""
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
            reported = self._reported = self._hardware.source.health()
        except TransientFault:
            known = self._known()
            silent = {card.name: why for card in known if (why := self._silence(card))}
            if not silent:
                raise
            last = self._reported
            return {card.name: silent.get(card.name) or last.get(card.name, Health()) for card in known}
        unread = "; ".join(self.unread_cards())
        missing = Health("fatal", f"the card is not among those that could be read: {unread}") if unread else _LOST
        with self._lock:
            lost = {name: missing for name in self._seen if name not in reported}
        return {**reported, **lost}

    def _known(self) -> tuple[Card, ...]:
        with self._lock:
            return tuple(sorted(self._seen.values(), key=lambda card: card.order))

    def _silence(self, card: Card) -> Health | None:
        """The health of a card that does not answer; None if it does. Only the library knows whether it is gone."""
        try:
            self._hardware.control.observe(card)
        except HardwareRefusal as refusal:
            return Health("fatal", f"the card does not answer: {refusal}", recovery="reboot")
        except TransientFault as fault:
            return Health("fatal", f"the card does not answer: {fault}")
        return None
