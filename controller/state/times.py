"""Reads time stamps of objects. Pure."""

from datetime import datetime
from typing import Final

NEVER: Final = float("-inf")
"""Stands for the time of an event that has not happened."""


def epoch_seconds(timestamp: str) -> float:
    """Return an RFC 3339 time stamp in seconds since the epoch; 0 if it is not one."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
