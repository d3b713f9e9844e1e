"""Where the time of a measurement goes."""

import cProfile
import pstats
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PROFILED = 25
"""How many functions are listed."""


@contextmanager
def profiled(enabled: bool) -> Iterator[None]:
    """List on standard error which functions take most time in the ``with`` block, if ``enabled``."""
    if not enabled:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    yield
    profile.disable()
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(PROFILED)
