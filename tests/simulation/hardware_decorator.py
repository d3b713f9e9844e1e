"""Hardware that stands before other hardware. A subclass changes some of its answers."""

from collections.abc import Collection, Mapping

from kubeletplugin.hardware import Action, Card, CardState, Edits, Handle, Hardware, Health, Readings, Use


class HardwareDecorator(Hardware):
    """``Hardware`` that answers as another. ``assess`` asks this one, so what a subclass changes is in its answer."""

    def __init__(self, hardware: Hardware):
        self.decorated = hardware

    def cards(self) -> tuple[Card, ...]:
        """See ``CardSource``."""
        return self.decorated.cards()

    def unread_cards(self) -> tuple[str, ...]:
        """See ``CardSource``."""
        return self.decorated.unread_cards()

    def health(self) -> Mapping[str, Health]:
        """See ``CardSource``."""
        return self.decorated.health()

    def observe(self, card: Card) -> CardState:
        """See ``CardControl``."""
        return self.decorated.observe(card)

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``CardControl``."""
        return self.decorated.actions(use, taken)

    def ensure(self, action: Action) -> Handle:
        """See ``CardControl``."""
        return self.decorated.ensure(action)

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``CardControl``."""
        self.decorated.release(action, handle)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``CardControl``."""
        return self.decorated.edits(use, handles)

    def readings(self, card: Card) -> Readings:
        """See ``CardControl``."""
        return self.decorated.readings(card)
