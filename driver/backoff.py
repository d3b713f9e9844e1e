"""Exponential back-off. Pure."""

import zlib


def delay(attempt: int, *, base: float = 0.5, bound: float = 60, at_least: float = 0) -> float:
    """Seconds to wait after failed attempt number ``attempt`` (from 1): doubling from ``base``, never above ``bound``.

    Args:
        at_least: seconds that the server asks for (``Retry-After``); they count up to ``bound``.

    >>> [delay(n) for n in (0, 1, 2, 3, 50)]
    [0.0, 0.5, 1.0, 2.0, 60.0]
    """
    if attempt <= 0:
        return 0.0
    return float(min(bound, max(at_least, base * 2.0 ** min(attempt - 1, 62))))


def spread(seconds: float, name: str) -> float:
    """``seconds``, less up to a half of it that depends on ``name``: programs that fail together do not try together.

    Without a name, ``seconds`` as it is.
    """
    return seconds * (1 - zlib.crc32(name.encode()) / 2**33) if name else seconds
