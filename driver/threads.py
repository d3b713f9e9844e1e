"""Threads whose failure is reported. docs/architecture.md names the modules that start threads."""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Protocol


def start_thread(name: str, work: Callable[[], None], on_death: Callable[[], None]) -> threading.Thread:
    """Run ``work`` in a daemon thread. If it raises, ``on_death`` is called there and the error is printed."""

    def guarded() -> None:
        finished = False
        try:
            work()
            finished = True
        finally:
            if not finished:
                on_death()

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    thread.start()
    return thread


class Threads(Protocol):
    """Runs work beside that of the caller."""

    def run(self, work: Callable[[], None]) -> None:
        """Run ``work``.

        Raises:
            RuntimeError: no thread can be started now; nothing was run.
        """


class SpareThreads(Threads):
    """Runs work in threads that are used again, because starting a thread takes much longer than waking one.

    There are as many threads as works at once. Work that hangs keeps its thread, and work that raises ends it. Nothing
    waits for them at the end of the program. Thread-safe.
    """

    def __init__(self, name: str):
        self._name = name
        self._idle: deque[SimpleQueue[Callable[[], None]]] = deque()

    def run(self, work: Callable[[], None]) -> None:
        """Run ``work`` in a thread that has nothing to do, or in a new one. See ``Threads``."""
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            start_thread(self._name, partial(self._serve, inbox), lambda: None)
        inbox.put(work)

    def _serve(self, inbox: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            inbox.get()()
            self._idle.append(inbox)
