"""Threads whose failure is reported. Only the ``__main__`` modules of the programs start threads."""

import threading
from collections.abc import Callable


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
