"""The term of leadership that a write belongs to."""

from typing import Protocol


class Terms(Protocol):
    """Who may write: the present term of leadership."""

    @property
    def term(self) -> int | None:
        """The number of the present term, which differs from every earlier one; None while nothing may be written."""
        ...
