"""Logs an error once, although a loop meets it in every round."""

from typing import Any

from driver.observe import Logger


class ErrorReports:
    """Logs each error, with its fields, the first time."""

    def __init__(self, log: Logger):
        self._log = log
        self._reported: set[str] = set()

    def once(self, event: str, **fields: Any) -> None:
        """Log the error unless the same event was reported with the same fields."""
        key = f"{event} {fields}"
        if key not in self._reported:
            self._reported.add(key)
            self._log.error(event, **fields)
