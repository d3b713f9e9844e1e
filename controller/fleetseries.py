"""Serves the series of the fleet: a copy is asked for, and everything else is done in the thread that was asked."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as NoAnswer
from functools import partial
from typing import Final

from controller.census import Detail, KnownCards, Snapshot, exposition, peer_exposition
from controller.state import epoch_seconds
from driver.clock import Clock
from driver.names import Names
from driver.settings import Settings

LEAST_SECONDS: Final = 1.0
"""How long an answer is given again at least."""
TIMES: Final = 10
"""An answer is given again for so many times what it took, so all who ask together take a tenth of the machine."""


Write = Callable[[Snapshot, KnownCards, Callable[[str], float], Callable[[], None]], str]
"""``exposition`` at a level of detail, or ``peer_exposition`` for a system."""


def series_by_path(
    ask: Callable[[], Snapshot | None], settings: Settings, clock: Clock
) -> Mapping[str, Callable[[], bytes]]:
    """Return what gives the text of each path: our own names under ``/metrics``, those of others under their own."""
    detail = Detail[settings.controller.fleet_metrics.upper()]
    writes: dict[str, Write] = {}
    if detail is not Detail.NONE:
        writes["/metrics"] = partial(exposition, detail)
        writes |= {f"/metrics/{peer}": partial(peer_exposition, peer) for peer in settings.controller.peer_metrics}
    return {path: FleetSeries(ask, write, settings.names, clock).text for path, write in writes.items()}


class FleetSeries:
    """Writes the series of the fleet. Any thread may ask; one at a time has them written.

    Args:
        ask: returns a copy of what is known, None if another program leads; raises ``NoAnswer`` if that takes too long.
        write: writes a copy as text, with what it remembers of cards, the age of a time stamp, and a pause.
    """

    def __init__(self, ask: Callable[[], Snapshot | None], write: Write, names: Names, clock: Clock):
        self._ask = ask
        self._write = write
        self._clock = clock
        self._known = KnownCards(names)
        self._lock = threading.Lock()
        self._last = b""
        self._until = 0.0

    def text(self) -> bytes:
        """Return the series as text in the format of Prometheus; nothing if another program leads, or is to."""
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
        return self._write(snapshot, self._known, self._age, pause).encode()

    def _age(self, timestamp: str) -> float:
        return max(0.0, self._clock.now() - epoch_seconds(timestamp))
