"""A clock that moves only when told to, so that hours of a cluster's life pass in milliseconds."""

_EPOCH = 1_800_000_000.0


class VirtualClock:
    """Implements ``driver.clock.Clock``. Every run starts at the same moment, so that a seed gives the same history."""

    def __init__(self, start: float = _EPOCH):
        self._start = start
        self._elapsed = 0.0

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Move on by ``seconds`` at once."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move on by ``seconds``.

        Raises:
            ValueError: ``seconds`` is negative; time does not go back.
        """
        if seconds < 0:
            raise ValueError(f"seconds: {seconds} is negative; a clock only moves forward")
        self._elapsed += seconds
