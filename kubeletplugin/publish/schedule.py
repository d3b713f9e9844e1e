"""Schedules the steps of a publisher. Thread-safe."""

import threading
from collections.abc import Callable
from enum import IntEnum

from driver.backoff import delay, spread
from driver.clock import Clock

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 60.0


class Trigger(IntEnum):
    """The reason of a step; a larger one includes the smaller ones."""

    POLL = 0
    """Only the hardware may have changed."""
    CHANGE = 1
    """The Node or a slice changed, or the last step failed."""
    REGISTRATION = 2
    """The kubelet registered the plugin: it may just have deleted the slices."""


class Schedule:
    """Times of the steps. The first step is due at once.

    Args:
        wake: called, from any thread, when ``next_due`` may have moved forward.
        name: of this node; it spreads the retries of different nodes.
    """

    def __init__(self, clock: Clock, wake: Callable[[], None], name: str = ""):
        self._name = name
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._due: float | None = clock.monotonic()
        self._not_before = 0.0
        self._failures = 0
        self._trigger = Trigger.CHANGE

    def next_due(self) -> float | None:
        """Time of the next step, in seconds of ``Clock.monotonic``; None: only after a request."""
        with self._lock:
            return self._due

    def start(self) -> Trigger | None:
        """Start the step that is due and return its trigger; None if no step is due. No other step is due after it."""
        with self._lock:
            if self._due is None or self._clock.monotonic() < self._due:
                return None
            self._due = None
            trigger, self._trigger = self._trigger, Trigger.POLL
            return trigger

    def request(self, trigger: Trigger, seconds: float = 0.0) -> None:
        """Request a step within ``seconds``, but not before the back-off has passed."""
        with self._lock:
            self._trigger = max(self._trigger, trigger)
            self._hasten(seconds)
        self._wake()

    def registered(self) -> None:
        """Request a step at once: the kubelet's start must not wait for a back-off."""
        with self._lock:
            self._trigger = Trigger.REGISTRATION
            self._not_before = 0.0
            self._due = self._clock.monotonic()
        self._wake()

    def again(self, seconds: float) -> None:
        """Request a step in ``seconds`` at the latest. Called between steps by the thread that steps."""
        with self._lock:
            self._hasten(seconds)

    def succeeded(self) -> None:
        """End the back-off."""
        with self._lock:
            self._failures, self._not_before = 0, 0.0

    def failed(self) -> float:
        """Delay the next step by a pause that grows with each failure; returns the pause in seconds."""
        with self._lock:
            self._failures += 1
            pause = delay(self._failures, base=FIRST_RETRY_SECONDS, bound=LONGEST_RETRY_SECONDS)
            pause = spread(pause, self._name)
            self._trigger = max(self._trigger, Trigger.CHANGE)
            self._due = self._not_before = self._clock.monotonic() + pause
            return pause

    def _hasten(self, seconds: float) -> None:
        moment = max(self._clock.monotonic() + seconds, self._not_before)
        self._due = moment if self._due is None else min(self._due, moment)
