"""Keeps the answers of a vendor's library: what was read once holds, and what was not read is asked again."""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from driver.backoff import delay
from driver.clock import Clock
from kubeletplugin.hardware.answer import Answer, Unread, kept

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is known of one question."""

    answer: Answer[Any]
    """The answer that holds."""
    failed: Unread | None = None
    """Why it was not answered the last time; None if it was."""
    failures: int = 0
    """How often in a row it was not answered."""
    due: float = 0.0
    """When a question without an answer is asked again, in seconds of ``Clock.monotonic``."""


class KnownAnswers:
    """The answers to questions about subjects, such as chips. Thread-safe; questions are asked without the lock.

    Nothing that was read is lost because the same question is not answered later.
    """

    def __init__(self, clock: Clock):
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[tuple[Hashable, str], _Asked] = {}

    def fact(self, subject: Hashable, name: str, question: Callable[[], Answer[T]]) -> Answer[T]:
        """The answer to a question whose answer never changes: it is asked until it is answered.

        After a question that was not answered it is asked again at the next call, and then after growing pauses.
        """
        with self._lock:
            before = self._asked.get((subject, name))
        if before is not None and (before.failed is None or self._clock.monotonic() < before.due):
            return before.answer
        return self._after(subject, name, question())

    def latest(self, subject: Hashable, name: str, question: Callable[[], Answer[T]]) -> Answer[T]:
        """The answer to a question whose answer changes. It is asked now; without an answer, the last one holds."""
        return self._after(subject, name, question())

    def unread(self, subject: Hashable) -> tuple[str, ...]:
        """Why questions about a subject were not answered the last time, also those with an earlier answer."""
        with self._lock:
            failed = [asked.failed for (about, _), asked in self._asked.items() if about == subject]
        return tuple(each.why for each in failed if each)

    def _after(self, subject: Hashable, name: str, now: Answer[T]) -> Answer[T]:
        with self._lock:
            before = self._asked.get((subject, name))
            asked = _Asked(now)
            if isinstance(now, Unread):
                failures = (before.failures if before else 0) + 1
                pause = delay(failures - 1, base=FIRST_PAUSE_SECONDS, bound=LONGEST_PAUSE_SECONDS)
                known = kept(before.answer if before else None, now)
                asked = _Asked(known, now, failures, self._clock.monotonic() + pause)
            self._asked[subject, name] = asked
        answer: Answer[T] = asked.answer
        return answer
