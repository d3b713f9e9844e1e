"""Serves the series of the fleet: a copy is asked for, and everything else is done in the thread that was asked."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as NoAnswer
from functools import partial
from typing import Final

from controller.census import Census, Detail, KnownCards, Snapshot, count, exposition, peer_exposition
from controller.state import epoch_seconds
from driver.clock import Clock
from driver.names import Names
from driver.settings import Settings

LEAST_SECONDS: Final = 1.0
"""How long an answer is given again at least."""
TIMES: Final = 10
"""An answer is given again for so many times what it took, so all who ask together take a tenth of the machine."""


Write = Callable[[Census, Callable[[], None]], str]
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
    series = FleetSeries(ask, writes, settings.names, clock)
    return {path: partial(series.text, path) for path in writes}


class FleetSeries:
    """Writes the series of the fleet. Any thread may ask; one at a time has them written.

    What is known is copied and counted once for all paths; each path is written when it is asked for.

    Args:
        ask: returns a copy of what is known, None if another program leads; raises ``NoAnswer`` if that takes too long.
        writes: by path, what writes a census as text, with a pause.
    """

    def __init__(self, ask: Callable[[], Snapshot | None], writes: Mapping[str, Write], names: Names, clock: Clock):
        self._ask = ask
        self._writes = writes
        self._clock = clock
        self._known = KnownCards(names)
        self._lock = threading.Lock()
        self._census: Census | None = None
        self._texts: dict[str, bytes] = {}
        """By path, what was written of the census."""
        self._until = 0.0
        """Until when the census is used."""

    def text(self, path: str) -> bytes:
        """Return the series of a path in the format of Prometheus; nothing if another program leads, or is to."""
        with self._lock:
            began = self._clock.monotonic()
            if began >= self._until:
                self._texts.clear()
                self._census = self._counted()
                ended = self._clock.monotonic()
                self._until = ended + max(LEAST_SECONDS, TIMES * (ended - began))
            if path not in self._texts:
                self._texts[path] = self._written(path)
            return self._texts[path]

    def _counted(self) -> Census | None:
        try:
            snapshot = self._ask()
        except NoAnswer:
            # The program is busy, and what it measures of itself says so.
            return None
        return None if snapshot is None else count(snapshot, self._known, self._age, self._pause)

    def _written(self, path: str) -> bytes:
        if self._census is None:
            return b""
        began = self._clock.monotonic()
        text = self._writes[path](self._census, self._pause).encode()
        self._until += TIMES * (self._clock.monotonic() - began)
        return text

    def _pause(self) -> None:
        """Let the thread that decides go on, which otherwise waits for the interpreter."""
        self._clock.sleep(0)

    def _age(self, timestamp: str) -> float:
        return max(0.0, self._clock.now() - epoch_seconds(timestamp))
