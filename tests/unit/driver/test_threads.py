"""Threads that are used again."""

import threading
from queue import SimpleQueue

import pytest

from driver.threads import SpareThreads


def test_work_after_other_work_needs_no_new_thread() -> None:
    threads, ran_in = SpareThreads("test"), SimpleQueue[int]()

    def work() -> None:
        ran_in.put(threading.get_ident())

    found = set()
    for _ in range(100):
        threads.run(work)
        found.add(ran_in.get())
    assert len(found) <= 2, "a thread that has just answered may not be idle yet"


def test_work_that_hangs_delays_no_other_work() -> None:
    threads, may_end, done = SpareThreads("test"), threading.Event(), SimpleQueue[bool]()
    threads.run(lambda: done.put(may_end.wait()))
    threads.run(may_end.set)
    assert done.get()


def test_after_work_that_raises_other_work_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, ended, done = SpareThreads("test"), SimpleQueue[type[BaseException]](), SimpleQueue[None]()
    monkeypatch.setattr(threading, "excepthook", lambda arguments: ended.put(arguments.exc_type))

    def defect() -> None:
        raise ZeroDivisionError

    threads.run(defect)
    assert ended.get() is ZeroDivisionError
    threads.run(lambda: done.put(None))
    done.get()
