"""Keys with due times: each key at most once, the earliest first, equal ones in order of arrival. Pure."""

import heapq
from typing import Generic, Literal, TypeVar

K = TypeVar("K")
Key = tuple[Literal["pod", "claim"], str]
"""What the controller decides about: the kind of object and its key (``namespace/name``)."""


class KeyedQueue(Generic[K]):
    """Work to do, by key. A key that is added twice is due at the earlier of the two times."""

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
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
        heapq.heappush(self._heap, (due, self._sequence, key))

    def discard(self, key: K) -> None:
        """Remove ``key`` if it is queued."""
        self._due.pop(key, None)

    def next_due(self) -> float | None:
        """When the next key is due (monotonic seconds); None if the queue is empty."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def pop(self, now: float) -> K | None:
        """Remove and return the next key that is due at ``now``; None if none is."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        return key

    def _drop_stale(self) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
