"""Reads time stamps of objects, and translates them to the clock of this program. Pure."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from driver.bounded import BoundedCache

NEVER: Final = float("-inf")
"""Stands for the time of an event that has not happened."""
_MOST: Final = 1 << 16
"""Most time stamps that are remembered. They have whole seconds: one for each second in which objects came."""


def epoch_seconds(timestamp: str) -> float:
    """Return an RFC 3339 time stamp in seconds since the epoch; 0 if it is not one."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0


class Timeline:
    """Time stamps of objects in the seconds of a clock that never goes back.

    The wall clocks of those who write them differ, and each may be set at any time. A time stamp is translated when it
    is seen first. One that is in the future then happened at that moment. So no wait that starts then takes longer
    than it may, whatever the clocks say later.

    Args:
        wall: returns the seconds since the epoch by this program's wall clock.
        monotonic: returns the seconds of the clock that never goes back.
    """

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]):
        self._wall = wall
        self._monotonic = monotonic
        self._seen: BoundedCache[str, float] = BoundedCache(_MOST)

    def at(self, timestamp: str) -> float:
        """Return when the RFC 3339 time stamp was written, never later than now; long ago if it is not one."""
        known = self._seen.get(timestamp)
        if known is None:
            elapsed = max(0.0, self._wall() - epoch_seconds(timestamp))
            known = self._seen[timestamp] = self._monotonic() - elapsed
        return known
