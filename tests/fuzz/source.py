"""Decisions drawn from bytes, so that who chooses the bytes chooses the input."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Source:
    """Draws decisions from bytes, in order. When these are used up, every decision is the first one."""

    def __init__(self, data: bytes):
        self._data = data
        self._at = 0

    @property
    def exhausted(self) -> bool:
        """Whether all bytes are used up."""
        return self._at >= len(self._data)

    def below(self, bound: int) -> int:
        """A number from 0 to ``bound`` - 1; the bound is at most 65,536."""
        width = 1 if bound <= 256 else 2
        drawn = int.from_bytes(self._data[self._at : self._at + width], "little")
        self._at += width
        return drawn % bound

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.below(len(options))]

    def text(self) -> str:
        """A text of at most 255 bytes; bytes that are no UTF-8 become replacement characters."""
        size = self.below(256)
        drawn, self._at = self._data[self._at : self._at + size], self._at + size
        return drawn.decode(errors="replace")

    def rest(self) -> bytes:
        """All bytes that are left."""
        drawn, self._at = self._data[self._at :], len(self._data)
        return drawn
