"""A clock that only its owner advances, so that hours of a cluster's time pass in milliseconds."""

_EPOCH = 1_800_000_000.0


class VirtualClock:
    """Implements ``driver.clock.Clock``. Every run starts at the same time, so a seed gives the same history."""

    def __init__(self, start: float = _EPOCH):
        self._start = start
        self._elapsed = 0.0

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Seconds since the clock was created."""
        return self._elapsed

    def set(self, seconds: float) -> None:
        """Set the wall clock forward by ``seconds``, or back if negative. What is monotonic goes on as before."""
        self._start += seconds

    def sleep(self, seconds: float) -> None:
        """Advance by ``seconds`` at once."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Advance by ``seconds``.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"seconds: must not be negative: {seconds}")
        self._elapsed += seconds
