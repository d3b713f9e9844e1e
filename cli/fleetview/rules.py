"""The cards that DeviceTaintRules close. Pure."""

from collections.abc import Iterable

from cli.cards.rules import KnownRule
from cli.fleetview.cards import FleetCard
from driver.names import Names


class ClosedByRules:
    """Says which cards rules close, in a time that does not grow with the number of rules."""

    def __init__(self, rules: Iterable[KnownRule], names: Names):
        self._names = names
        self._by_place: set[tuple[str, str]] = set()
        """Pool and device; "" stands for each."""
        for one in rules:
            if one.closes and one.rule.driver in ("", names.driver):
                self._by_place.add((one.rule.pool, one.rule.device))

    def closes(self, card: FleetCard) -> bool:
        """Return whether no device of the card is given to a claim that tolerates nothing."""
        if not self._by_place:
            return False
        pool = self._names.pool(card.node)
        if {("", ""), (pool, "")} & self._by_place:
            return True
        devices = [f"{card.name}{part.suffix}" for part in card.parts] or [card.name]
        return all({(pool, device), ("", device)} & self._by_place for device in devices)
