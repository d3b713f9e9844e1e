"""What each namespace gets of the time for decisions, so that nobody keeps others waiting for long. Pure."""

from collections.abc import Collection
from math import floor
from typing import Final

TURN_SECONDS: Final = 0.1
"""How long the controller decides for a namespace before others of the same priority have their turn."""
LEAST_SECONDS: Final = 0.001
"""What a decision counts at least, so that many quick ones are a turn, too."""
_NOTHING: Final = 1e-9
"""What is left because sums of seconds are not exact."""


class Shares:
    """How much of its turn each namespace has left (deficit round robin).

    While all have some left, the order of service decides alone. A decision that takes longer than a turn is paid for
    with later ones.
    """

    def __init__(self) -> None:
        self._left: dict[str, float] = {}

    def has_left(self, namespace: str) -> bool:
        """Whether the namespace has its turn still, or has not had it."""
        return self._left.get(namespace, TURN_SECONDS) > _NOTHING

    def charge(self, namespace: str, seconds: float) -> None:
        """A decision for the namespace took so long."""
        self._left[namespace] = self._left.get(namespace, TURN_SECONDS) - max(seconds, LEAST_SECONDS)

    def next_round(self, waiting: Collection[str]) -> None:
        """None of those that wait has anything left: give all of them turns, until one has."""
        most = max(self._left.get(name, TURN_SECONDS) for name in waiting)
        turns = max(0, floor((_NOTHING - most) / TURN_SECONDS) + 1) * TURN_SECONDS
        for name in waiting:
            self._left[name] = min(TURN_SECONDS, self._left.get(name, TURN_SECONDS) + turns)

    def forget(self) -> None:
        """Nobody waits: everybody has a whole turn."""
        self._left.clear()
