"""Dicts of bounded size, for caches. Pure."""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict that forgets the older half of its entries when it would grow beyond ``most``.

    Age is the time of the first entry under a key: reading is a plain dict look-up and records nothing. Any entry may
    be gone at any time, so it must be possible to compute a value again.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int):
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._most and key not in self:
            for old in list(self)[: (self._most + 1) // 2]:
                del self[old]
        super().__setitem__(key, value)


class SizedCache(BoundedCache[K, V]):
    """A ``BoundedCache`` that forgets its older half, too, while all entries together are larger than ``most_size``.

    The newest entry is kept, however large it is.

    Args:
        size_of: the size of one entry, in the unit of ``most_size``; it never changes.
    """

    __slots__ = ("_most_size", "_size_of", "size")

    def __init__(self, most: int, most_size: int, size_of: Callable[[K, V], int]):
        super().__init__(most)
        self._most_size = most_size
        self._size_of = size_of
        self.size = 0
        """The size of all entries."""

    def __setitem__(self, key: K, value: V) -> None:
        if key in self:
            del self[key]
        super().__setitem__(key, value)
        self.size += self._size_of(key, value)
        while self.size > self._most_size and len(self) > 1:
            for old in list(self)[: len(self) // 2]:
                del self[old]

    def __delitem__(self, key: K) -> None:
        self.size -= self._size_of(key, self[key])
        super().__delitem__(key)

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self.size = 0
