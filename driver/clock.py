"""The port to time, so that tests of the whole system can use a virtual clock."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The time."""

    def now(self) -> float:
        """Seconds since the Unix epoch (for timestamps)."""

    def monotonic(self) -> float:
        """Seconds that never decrease (for durations and back-off)."""

    def sleep(self, seconds: float) -> None:
        """Wait. A virtual clock advances at once."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def rfc3339(seconds: float, *, micro: bool = False) -> str:
    """``seconds`` since the epoch as the API writes times (``micro``: as MicroTime, for Leases and Events)."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
