"""A dict of bounded size, for everything that is remembered to save time. Pure."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict that forgets the older half of its entries when it would grow beyond ``most``.

    Age is the time of the first entry under a key: reading is a plain dict look-up and records nothing. What is kept
    must be worth no more than the time it takes to find it again, because any entry may be gone at any time.
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
