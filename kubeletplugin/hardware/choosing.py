"""Chooses the backends of a node: the one that the setting names, or one for each vendor's hardware on the node."""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from driver.errors import OperatorFault
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.port import CardControl, CardSource, Gone, Hardware, Health

Cards = tuple[Card, ...]
Attach = Callable[[Cards], Cards]
"""Completes cards with facts that backends do not know."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend that a node may need."""

    name: str
    is_present: Callable[[], bool]
    """Whether the node has such hardware. Must be cheap: it is called every second on nodes without cards."""
    make: Callable[[], Hardware]
    """Creates the backend. May raise LodeError or OSError; then it is called again later."""


class CombinedHardware(CardSource):
    """The backends of all hardware on the node, as one. Hardware that appears later is added; no hardware means no
    cards. Thread-safe."""

    def __init__(self, choices: Collection[Choice], attach: Attach = lambda cards: cards):
        self._choices = tuple(choices)
        self._attach = attach
        self._lock = threading.Lock()
        self._backends: dict[str, Hardware] = {}
        self._of_card: dict[str, Hardware] = {}
        """The backend of each card seen so far, by the card's uuid."""

    @classmethod
    def of(cls, backend: Hardware) -> "CombinedHardware":
        """A node with this backend only."""
        return cls([Choice("", lambda: True, lambda: backend)])

    def cards(self) -> Cards:
        """See ``CardSource``.

        Raises:
            OperatorFault: two backends have a card of the same name; the operator must choose one in the settings.
        """
        found = [(card, backend) for backend in self._present() for card in backend.cards()]
        of_name: dict[str, Hardware] = {}
        for card, backend in found:
            if of_name.setdefault(card.name, backend) is not backend:
                names = " or ".join(self._backends)
                raise OperatorFault(f"two backends have a card {card.name}; set kubeletplugin.hardware to {names}")
        with self._lock:
            self._of_card |= {card.uuid: backend for card, backend in found}
        return self._attach(tuple(sorted((card for card, _ in found), key=lambda card: (card.unit, card.index))))

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``."""
        return {name: health for backend in self._present() for name, health in backend.health().items()}

    def of_card(self, uuid: str) -> CardControl:
        """The backend that has the card.

        Raises:
            Gone: none has it.
            TransientFault: a backend did not say which cards it has.
        """
        with self._lock:
            known = self._of_card.get(uuid)
        if known is None:
            if len(backends := self._present()) == 1:
                return backends[0]
            self.cards()
            with self._lock:
                known = self._of_card.get(uuid)
        if known is None:
            raise Gone(f"card {uuid} is not there")
        return known

    def _present(self) -> tuple[Hardware, ...]:
        with self._lock:
            for choice in self._choices:
                if choice.name not in self._backends and choice.is_present():
                    self._backends[choice.name] = choice.make()
            return tuple(self._backends.values())


def chosen(setting: str, choices: Collection[Choice], attach: Attach) -> CombinedHardware:
    """The hardware that the setting ``hardware`` names: ``auto``, or the backend of one of ``choices``.

    Raises:
        LodeError, OSError: what the backend's ``make`` raises.
    """
    if setting != "auto":
        backend = next(choice for choice in choices if choice.name == setting).make()
        choices = [Choice(setting, lambda: True, lambda: backend)]
    return CombinedHardware(choices, attach)
