"""Makes one decision at a time, about what comes first in the queue, and repeats writes that are in doubt."""

from collections.abc import Callable, Mapping
from typing import Final

from controller.reconcile.decisions import Reason
from controller.state import Changes
from controller.worker import Shared, Worker
from controller.worker.metrics import DecisionOutcome
from controller.worker.queue import Kind

Decide = Callable[[str, Changes], DecisionOutcome | Reason | None]
"""Decides about the object with this key and has that carried out; what has to be looked at again goes to the changes.
Returns the outcome; None if nothing could be decided, or if the outcome is known later."""

_GAUGE_SECONDS: Final = 5.0
"""Least time between two updates of the gauge of allocated devices."""


class Repeats(Worker):
    """The writes of decisions that are made again, because nobody knows whether they were made."""

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._in_flight.next_due()

    def work(self) -> bool:
        """Repeat the next sequence that is due; return False if none is."""
        return self._in_flight.repeat_due()


class Decisions(Worker):
    """The decisions that are due, in the order of the queue.

    Args:
        decide: by kind of key.
        note: has all workers note what a decision has changed.
    """

    def __init__(self, shared: Shared, decide: Mapping[Kind, Decide], note: Callable[[Changes], None]):
        super().__init__(shared)
        self._decide = decide
        self._note = note
        self._gauge_at = 0.0

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._queue.next_due()

    def work(self) -> bool:
        """Make the decision that comes first among those that are due; return False if none is."""
        now = self._clock.monotonic()
        key = self._queue.pop(now)
        if key is not None:
            kind, name = key
            changes = Changes()
            outcome = self._decide[kind](name, changes)
            self._note(changes)
            took = self._clock.monotonic() - now
            self._queue.charge(key, took)
            self._metrics.took(took)
            if outcome is not None:
                self._metrics.decided(outcome)
        self._measure(now)
        return key is not None

    def _measure(self, now: float) -> None:
        if now >= self._gauge_at:
            self._gauge_at = now + _GAUGE_SECONDS
            self._metrics.allocated(self._state.allocated_by_kind())
