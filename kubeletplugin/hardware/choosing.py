"""Which backends serve a node: the one that the setting names, or those of the hardware that the node has."""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.decorator import ForwardedHardware, Question
from kubeletplugin.hardware.port import Gone, Hardware, Health

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend that a node may need."""

    name: str
    is_present: Callable[[], bool]
    """Whether the node has such hardware, found at little cost: it is asked every second on nodes without cards."""
    make: Callable[[], Hardware]
    """May raise LodeError or OSError, and is called again then."""


class CombinedHardware(ForwardedHardware):
    """``Hardware`` of all backends whose hardware the node has, now or later; without any, no cards. Thread-safe."""

    def __init__(self, choices: Collection[Choice]):
        self._choices = tuple(choices)
        self._lock = threading.Lock()
        self._backends: dict[str, Hardware] = {}
        self._of_card: dict[str, Hardware] = {}
        """By the uuid of each card that was seen."""

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``."""
        found = [(card, backend) for backend in self._present() for card in backend.cards()]
        with self._lock:
            self._of_card |= {card.uuid: backend for card, backend in found}
        return tuple(sorted((card for card, _ in found), key=lambda card: (card.unit, card.index)))

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        return {name: health for backend in self._present() for name, health in backend.health().items()}

    def answer(self, question: Question[T]) -> T:
        """The answer of the backend that has the card."""
        return question.ask(self._backend(question.card))

    def _present(self) -> tuple[Hardware, ...]:
        with self._lock:
            for choice in self._choices:
                if choice.name not in self._backends and choice.is_present():
                    self._backends[choice.name] = choice.make()
            return tuple(self._backends.values())

    def _backend(self, uuid: str) -> Hardware:
        with self._lock:
            known = self._of_card.get(uuid)
        if known is None:
            self.cards()
            with self._lock:
                known = self._of_card.get(uuid)
        if known is None:
            raise Gone(f"card {uuid} is not there")
        return known


def chosen(setting: str, choices: Collection[Choice]) -> Hardware:
    """The hardware that the setting ``hardware`` names: ``auto``, or one of ``choices``.

    Raises:
        LodeError, OSError: what the backend's ``make`` raises.
    """
    if setting == "auto":
        return CombinedHardware(choices)
    return next(choice for choice in choices if choice.name == setting).make()
