"""Durations as people write them for Prometheus and kubectl. Pure."""

import re
from typing import Final

from driver.errors import OperatorFault

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_FORM: Final = re.compile(r"(?:\d{1,6}[smhdw])+", re.ASCII)
_PART: Final = re.compile(r"(\d+)([smhdw])", re.ASCII)
_MOST: Final = 366 * 86400


def seconds_of(option: str, text: str) -> int:
    """Return the seconds of a duration such as ``90s``, ``2h``, ``1h30m`` or ``7d``.

    Raises:
        OperatorFault: it is no duration, or none between a minute and a year.
    """
    total = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(text)) if _FORM.fullmatch(text) else 0
    if not 60 <= total <= _MOST:
        raise OperatorFault(f"{option} {text!r}: write a duration from 1m to 366d, such as 2h or 7d")
    return total
