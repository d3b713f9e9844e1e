"""Keys with due times: each key at most once; of those that are due, the one that ranks first. Pure."""

import heapq
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

K = TypeVar("K")
Key = tuple[Literal["pod", "claim", "gang"], str]
"""What the controller decides about: the kind of object and its key (``namespace/name``)."""


class KeyedQueue(Generic[K]):
    """Work to do, by key. A key that is added twice is due at the earlier of the two times.

    Keys that are due come up by rank, equal ones in the order in which they became due.

    Args:
        rank: of a key at the moment when it is due, the smallest comes up first; any values that can be compared.
    """

    def __init__(self, rank: Callable[[K], Any] = lambda _: 0) -> None:
        self._rank = rank
        self._due: dict[K, tuple[float, int]] = {}
        self._later: list[tuple[float, int, K]] = []
        self._ready: list[tuple[Any, float, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def add(self, key: K, due: float) -> None:
        """Make ``key`` due at ``due`` (monotonic seconds), unless it is due sooner already."""
        known = self._due.get(key)
        if known is not None and known[0] <= due:
            return
        self._sequence += 1
        self._due[key] = (due, self._sequence)
        heapq.heappush(self._later, (due, self._sequence, key))

    def discard(self, key: K) -> None:
        """Remove ``key`` if it is queued."""
        self._due.pop(key, None)

    def due(self, now: float) -> int:
        """How many keys are due at ``now`` (monotonic seconds). Safe to call in any thread."""
        return sum(due <= now for due, _ in list(self._due.values()))

    def next_due(self) -> float | None:
        """When the next key is due (monotonic seconds); None if the queue is empty."""
        self._drop_stale()
        times = [due for due, _, _ in self._later[:1]] + [due for _, due, _, _ in self._ready[:1]]
        return min(times, default=None)

    def pop(self, now: float) -> K | None:
        """Remove and return the key that comes first among those due at ``now``; None if none is due."""
        self._drop_stale()
        while self._later and self._later[0][0] <= now:
            due, number, key = heapq.heappop(self._later)
            heapq.heappush(self._ready, (self._rank(key), due, number, key))
            self._drop_stale()
        if not self._ready:
            return None
        _, _, _, first = heapq.heappop(self._ready)
        del self._due[first]
        return first

    def _drop_stale(self) -> None:
        while self._later and self._due.get(self._later[0][2]) != self._later[0][:2]:
            heapq.heappop(self._later)
        while self._ready and self._due.get(self._ready[0][3]) != self._ready[0][1:3]:
            heapq.heappop(self._ready)
