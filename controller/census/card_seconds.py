"""How long namespaces have held parts of cards: exact sums, without a clock of their own. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.allocation import CARD

FORGET_SECONDS: Final = 3600.0
"""How long a sum is kept of which nothing is held: namespaces come and go without end."""


class CountedUse(NamedTuple):
    """Whose time is summed up: that of a namespace with cards of one type, held as one kind of device."""

    namespace: str
    type: str
    kind: str


@dataclass(slots=True)
class _Meter:
    held: int = 0
    """Parts of ``CARD`` that are held now."""
    since: float = 0.0
    """Until when ``total`` counts."""
    total: float = 0.0
    """Seconds of whole cards."""

    def read(self, now: float) -> float:
        return self.total + self.held / CARD * (now - self.since)


class CardSeconds:
    """Sums up the time for which parts of cards are held. Every change is counted when it is made."""

    def __init__(self) -> None:
        self._meters: dict[CountedUse, _Meter] = {}

    def change(self, use: CountedUse, parts: int, now: float) -> None:
        """Count from ``now`` on that so many parts of ``CARD`` more are held, or less."""
        meter = self._meters.setdefault(use, _Meter(since=now))
        meter.total, meter.since = meter.read(now), now
        meter.held += parts

    def restart(self, now: float) -> None:
        """Begin all sums anew at 0; what is held is held still."""
        self._meters = {use: _Meter(meter.held, now) for use, meter in self._meters.items() if meter.held}

    def totals(self, now: float) -> Mapping[CountedUse, float]:
        """Return the seconds of each use until ``now``; forget those of which nothing was held for long."""
        gone = [use for use, one in self._meters.items() if not one.held and now - one.since > FORGET_SECONDS]
        for use in gone:
            del self._meters[use]
        return {use: meter.read(now) for use, meter in self._meters.items()}
