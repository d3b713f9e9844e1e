"""Translates time stamps of objects to the clock of this program, which never goes back."""

from typing import Final

from controller.state import epoch_seconds
from driver.bounded import BoundedCache
from driver.clock import Clock

_MOST: Final = 1 << 16
"""Most time stamps that are remembered. They have whole seconds: one for each second in which objects came."""


class Timeline:
    """Time stamps of objects in the seconds of ``Clock.monotonic``.

    The wall clocks of those who write them differ, and each may be set at any time. A time stamp is translated when it
    is seen first. One that is in the future then happened at that moment. So no wait that starts then takes longer
    than it may, whatever the clocks say later.
    """

    def __init__(self, clock: Clock):
        self._clock = clock
        self._seen: BoundedCache[str, float] = BoundedCache(_MOST)

    def at(self, timestamp: str) -> float:
        """Return when the RFC 3339 time stamp was written, never later than now; long ago if it is not one."""
        known = self._seen.get(timestamp)
        if known is None:
            elapsed = max(0.0, self._clock.now() - epoch_seconds(timestamp))
            known = self._seen[timestamp] = self._clock.monotonic() - elapsed
        return known
