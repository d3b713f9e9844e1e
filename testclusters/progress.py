"""Progress messages for the person who waits, on standard error. Standard output is left to results."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEARTBEAT = 15.0
"""Seconds between two messages about a step that is still running."""


def print_status(message: str) -> None:
    """Print one line to standard error."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def progress_step(title: str, detail: Callable[[], str] = str) -> Iterator[None]:
    """Report a step: its title, a line with `detail()` every `HEARTBEAT` seconds, and how long the step took.

    A step that raises reports no duration.
    """
    began = time.monotonic()
    done = threading.Event()

    def report() -> None:
        while not done.wait(HEARTBEAT):
            more = detail()
            print_status(f"    {title}: {time.monotonic() - began:.0f} s{', ' + more if more else ''}")

    print_status(f"==> {title}")
    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()
    print_status(f"    {title}: done in {time.monotonic() - began:.1f} s")
