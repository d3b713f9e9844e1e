"""The term of leadership that a write belongs to."""

from typing import Protocol


class Terms(Protocol):
    """The present term of leadership: without one, nothing may be written."""

    @property
    def term(self) -> int | None:
        """The number of the present term, which differs from every earlier one; None while nothing may be written."""
        ...
