"""Serves the series of the fleet: a copy is asked for, and everything else is done in the thread that was asked."""

import threading
from collections.abc import Callable
from concurrent.futures import TimeoutError as NoAnswer
from functools import partial
from typing import Final

from controller.census import Detail, KnownCards, Snapshot, exposition
from controller.state import epoch_seconds
from driver.clock import Clock
from driver.names import Names

LEAST_SECONDS: Final = 1.0
"""How long an answer is given again at least."""
TIMES: Final = 10
"""An answer is given again for so many times what it took, so all who ask together take a tenth of the machine."""


class FleetSeries:
    """Writes the series of the fleet. Any thread may ask; one at a time has them written.

    Args:
        ask: returns a copy of what is known, None if another program leads; raises ``NoAnswer`` if that takes too long.
        detail: a value of ``controller.fleetMetrics``.
    """

    def __init__(self, ask: Callable[[], Snapshot | None], names: Names, detail: str, clock: Clock):
        self._ask = ask
        self._detail = Detail[detail.upper()]
        self._clock = clock
        self._known = KnownCards(names)
        self._lock = threading.Lock()
        self._last = b""
        self._until = 0.0

    def text(self) -> bytes:
        """Return the series as text in the format of Prometheus; nothing if another program leads, or is to."""
        if self._detail is Detail.NONE:
            return b""
        with self._lock:
            began = self._clock.monotonic()
            if began >= self._until:
                self._last = self._written()
                took = self._clock.monotonic() - began
                self._until = self._clock.monotonic() + max(LEAST_SECONDS, TIMES * took)
            return self._last

    def _written(self) -> bytes:
        try:
            snapshot = self._ask()
        except NoAnswer:
            # The program is busy, and what it measures of itself says so.
            snapshot = None
        if snapshot is None:
            return b""
        # A sleep of no time lets the thread that decides go on, which otherwise waits for the interpreter.
        pause = partial(self._clock.sleep, 0)
        return exposition(snapshot, self._known, self._detail, self._age, pause).encode()

    def _age(self, timestamp: str) -> float:
        return max(0.0, self._clock.now() - epoch_seconds(timestamp))
