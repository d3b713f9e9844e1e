"""Cards of a node that are left to other uses than claims, such as its display. Pure."""

from collections.abc import Collection
from fnmatch import fnmatchcase

from kubeletplugin.hardware.card import Card


class LeftOut:
    """Cards that patterns name. They are not offered; the other cards keep their names.

    Args:
        patterns: with ``*``, ``?`` and ``[]``, of what is said of a card: ``gpu-3`` or ``3``, the product's name, the
            uuid, or the PCI address. Upper and lower case are the same.
    """

    def __init__(self, patterns: Collection[str]):
        self._patterns = tuple(pattern.lower() for pattern in patterns)

    def __contains__(self, card: object) -> bool:
        """Whether a pattern names the card."""
        if not isinstance(card, Card):
            return False
        said = [card.name, card.model, card.uuid]
        said += [str(card.index)] if card.index >= 0 else []
        # NVIDIA's tools write the domain with eight digits.
        said += [card.pci_bus_id, f"0000{card.pci_bus_id}"] if card.pci_bus_id else []
        return any(fnmatchcase(one.lower(), pattern) for one in said for pattern in self._patterns)

    def offered(self, cards: tuple[Card, ...]) -> tuple[Card, ...]:
        """The cards that no pattern names."""
        return tuple(card for card in cards if card not in self)
