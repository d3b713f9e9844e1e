"""An answer that is used again for a while, however often somebody asks."""

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from driver.clock import Clock

LEAST_SECONDS: Final = 5.0
"""How long an answer is used again."""

T = TypeVar("T")


class ReusedAnswer(Generic[T]):
    """Asks again only after a while, in one thread at a time. Any thread may call it."""

    def __init__(self, ask: Callable[[], T], clock: Clock):
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._answer: tuple[float, T] | None = None

    def get(self) -> T:
        """Return the answer."""
        with self._lock:
            if self._answer is None or self._clock.monotonic() >= self._answer[0]:
                answer = self._ask()
                self._answer = self._clock.monotonic() + LEAST_SECONDS, answer
            return self._answer[1]
