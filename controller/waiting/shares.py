"""Shares the time for decisions between namespaces, so that none keeps others waiting for long. Pure."""

from collections.abc import Collection
from math import floor
from typing import Final

TURN_SECONDS: Final = 0.1
"""Time that the controller decides for a namespace before others of the same priority have their turn."""
LEAST_SECONDS: Final = 0.001
"""Least time that is charged for a decision, so that many quick ones use up a turn, too."""
_NOTHING: Final = 1e-9
"""Rest that sums of seconds leave because they are not exact."""


class Shares:
    """The time that each namespace has left of its turn (deficit round robin).

    While all have time left, the order of service decides alone. A decision that takes longer than a turn is paid for
    with later turns.
    """

    def __init__(self) -> None:
        self._left: dict[str, float] = {}

    def has_left(self, namespace: str) -> bool:
        """Return whether the namespace has time left."""
        return self._left.get(namespace, TURN_SECONDS) > _NOTHING

    def charge(self, namespace: str, seconds: float) -> None:
        """Charge the namespace for a decision that took so long."""
        self._left[namespace] = self._left.get(namespace, TURN_SECONDS) - max(seconds, LEAST_SECONDS)

    def next_round(self, waiting: Collection[str]) -> None:
        """Give turns to all that wait, none of which has time left, until one has."""
        most = max(self._left.get(name, TURN_SECONDS) for name in waiting)
        turns = max(0, floor((_NOTHING - most) / TURN_SECONDS) + 1) * TURN_SECONDS
        for name in waiting:
            self._left[name] = min(TURN_SECONDS, self._left.get(name, TURN_SECONDS) + turns)

    def forget(self) -> None:
        """Give everybody a whole turn: nobody waits."""
        self._left.clear()
