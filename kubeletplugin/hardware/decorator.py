"""Hardware that has its answers from other hardware. The port is forwarded here, once for all of them."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kubeletplugin.hardware.actions import Action, Handle
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.port import Assessment, CardState, Hardware, Health
from kubeletplugin.hardware.use import Use

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """One call of the port as a value."""

    card: str
    """The uuid of the card that it is about; "" if it is about the whole node."""
    ask: Callable[[Hardware], T]
    """Makes the call."""
    changes: bool = False
    """Whether it creates or destroys something."""


class ForwardedHardware(Hardware):
    """``Hardware`` that passes every question on. A subclass says to whom (``answer``)."""

    @abstractmethod
    def answer(self, question: Question[T]) -> T:
        """The answer of other hardware."""

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``."""
        return self.answer(Question("", lambda other: other.cards()))

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        return self.answer(Question("", lambda other: other.health()))

    def observe(self, card: Card) -> CardState:
        """See ``Hardware``."""
        return self.answer(Question(card.uuid, lambda other: other.observe(card)))

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``Hardware``."""
        return self.answer(Question(use.card.uuid, lambda other: other.actions(use, taken)))

    def assess(self, use: Use, taken: Collection[str]) -> Assessment:
        """See ``Hardware``."""
        return self.answer(Question(use.card.uuid, lambda other: other.assess(use, taken)))

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        return self.answer(Question(action.card, lambda other: other.ensure(action), changes=True))

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        self.answer(Question(action.card, lambda other: other.release(action, handle), changes=True))

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``Hardware``."""
        return self.answer(Question(use.card.uuid, lambda other: other.edits(use, handles)))


class CardsDecorator(ForwardedHardware):
    """``Hardware`` that answers as another. A subclass changes which cards there are, or whether they work."""

    def __init__(self, hardware: Hardware):
        self.decorated = hardware

    def answer(self, question: Question[T]) -> T:
        """The answer of the other one."""
        return question.ask(self.decorated)


class HardwareDecorator(CardsDecorator):
    """``Hardware`` that answers as another. A subclass may change any answer."""

    def assess(self, use: Use, taken: Collection[str]) -> Assessment:
        """See ``Hardware``. The other one is asked one by one, so an answer that a subclass changes is in this one."""
        return Hardware.assess(self, use, taken)
