"""Threads that do not die unnoticed. Only the programs' ``__main__`` modules start any."""

import threading
from collections.abc import Callable


def start_thread(name: str, work: Callable[[], None], died: Callable[[], None]) -> threading.Thread:
    """Run ``work`` in a daemon thread; ``died`` is called there if it ends by an error, which goes on to be printed."""

    def guarded() -> None:
        sound = False
        try:
            work()
            sound = True
        finally:
            if not sound:
                died()

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    thread.start()
    return thread
