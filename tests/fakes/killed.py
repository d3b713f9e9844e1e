"""Work in a process that a fake library may kill."""

import multiprocessing
import signal
from collections.abc import Callable


def dies(work: Callable[[], object]) -> bool:
    """Whether a process that does the work is killed. It inherits what this one has loaded, so it starts at once."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0
