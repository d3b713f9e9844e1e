"""Chooses the backends of a node: the one that the setting names, or one for each vendor's hardware on the node."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from driver.errors import OperatorFault, TransientFault
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.port import CardControl, CardGone, CardSource, Hardware, Health

Cards = tuple[Card, ...]
Attach = Callable[[Cards], Cards]
"""Completes cards with facts that backends do not know, and leaves out those that are not offered."""


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """A backend that a node may need."""

    name: str
    is_present: Callable[[], bool]
    """Whether the node has such hardware. Must be cheap: it is called every second on nodes without cards."""
    make: Callable[[], Hardware]
    """Creates the backend. May raise LodeError or OSError; then it is called again later."""


class CombinedHardware(CardSource):
    """The backends of all hardware on the node, as one. Hardware that appears later is added; no hardware means no
    cards. Thread-safe."""

    def __init__(self, choices: Collection[BackendChoice], attach: Attach = lambda cards: cards):
        self._choices = tuple(choices)
        self._attach = attach
        self._lock = threading.Lock()
        self._backends: dict[str, Hardware] = {}
        self._of_card: dict[str, Hardware] = {}
        """The backend of each card seen so far, by the card's uuid."""

    @classmethod
    def only(cls, backend: Hardware, attach: Attach = lambda cards: cards) -> "CombinedHardware":
        """A node with this backend only."""
        return cls([BackendChoice("", lambda: True, lambda: backend)], attach)

    def cards(self) -> Cards:
        """See ``CardSource``.

        Raises:
            OperatorFault: two backends have a card of the same name; the operator must choose one in the settings.
        """
        present = self._present()
        found = {name: backend.cards() for name, backend in present.items()}
        _refuse_shared({name: [card.name for card in cards] for name, cards in found.items()})
        with self._lock:
            self._of_card |= {card.uuid: present[name] for name, cards in found.items() for card in cards}
        every = [card for cards in found.values() for card in cards]
        return self._attach(tuple(sorted(every, key=lambda card: card.order)))

    def unread_cards(self) -> tuple[str, ...]:
        """See ``CardSource``."""
        return tuple(why for backend in self._present().values() for why in backend.unread_cards())

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``.

        Raises:
            OperatorFault: as ``cards``.
        """
        found = {name: backend.health() for name, backend in self._present().items()}
        _refuse_shared(found)
        return {name: health for each in found.values() for name, health in each.items()}

    def of_card(self, uuid: str) -> CardControl:
        """The backend that has the card.

        Raises:
            Gone: none has it.
            TransientFault: a backend did not say which cards it has, or could not read one.
        """
        with self._lock:
            known = self._of_card.get(uuid)
        if known is None:
            if len(backends := self._present()) == 1:
                return next(iter(backends.values()))
            self.cards()
            with self._lock:
                known = self._of_card.get(uuid)
        if known is None and (reasons := self.unread_cards()):
            raise TransientFault(f"whether card {uuid} is there is not known: {'; '.join(reasons)}")
        if known is None:
            raise CardGone(f"card {uuid} is not there")
        return known

    def _present(self) -> Mapping[str, Hardware]:
        with self._lock:
            for choice in self._choices:
                if choice.name not in self._backends and choice.is_present():
                    self._backends[choice.name] = choice.make()
            return dict(self._backends)


def _refuse_shared(names: Mapping[str, Iterable[str]]) -> None:
    """Check that no card of a backend has the name of another backend's card.

    Raises:
        OperatorFault: names the card and both backends.
    """
    owners: dict[str, str] = {}
    for backend, cards in names.items():
        for card in cards:
            if (owner := owners.setdefault(card, backend)) != backend:
                raise OperatorFault(
                    f"two backends have a card {card}; set kubeletplugin.hardware to {owner} or {backend}"
                )


def chosen(setting: str, choices: Collection[BackendChoice], attach: Attach) -> CombinedHardware:
    """The hardware that the setting ``hardware`` names: ``auto``, or the backend of one of ``choices``.

    Raises:
        LodeError, OSError: what the backend's ``make`` raises.
    """
    if setting != "auto":
        backend = next(choice for choice in choices if choice.name == setting).make()
        choices = [BackendChoice(setting, lambda: True, lambda: backend)]
    return CombinedHardware(choices, attach)
