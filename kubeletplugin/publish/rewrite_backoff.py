"""Back-off between two writers that overwrite each other's slices. Pure."""

from driver.backoff import delay

FIRST_CONTEST_SECONDS = 0.2
LONGEST_CONTEST_SECONDS = 30.0
UNCONTESTED_SECONDS = 60.0
"""Slices that another writer changes within this time after a write are rewritten at growing intervals."""


class RewriteBackoff:
    """Delays writes of the same slices when another writer keeps changing them."""

    def __init__(self) -> None:
        self.confirmed = ""
        """The digest of the pool last seen published in full; "" while it is being written."""
        self._written = float("-inf")
        self._repeats = 0

    def wait(self, desired: str, now: float) -> float:
        """Seconds to wait before writing the pool with the digest ``desired``; 0 counts as a write."""
        if desired != self.confirmed or now - self._written > UNCONTESTED_SECONDS:
            self._repeats = 0
        else:
            pause = delay(self._repeats + 1, base=FIRST_CONTEST_SECONDS, bound=LONGEST_CONTEST_SECONDS)
            if self._written + pause > now:
                return self._written + pause - now
            self._repeats += 1
        self._written, self.confirmed = now, ""
        return 0.0
