"""Best fit: orders rooms so that few are needed and large ones stay whole. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import TypeVar

from controller.gangs.topology import Path

K = TypeVar("K", Path, int)


def best_fit(rooms: Mapping[K, int], wanted: int) -> list[K]:
    """Order keys so that few are needed for ``wanted``: the largest first, and the tightest that takes the rest."""
    left = sorted(rooms, key=lambda key: (-rooms[key], key))
    for at, key in enumerate(left):
        if wanted <= 0:
            break
        if rooms[key] >= wanted:
            end = bisect_right(left, -wanted, lo=at, key=lambda other: -rooms[other])
            tight = bisect_left(left, -rooms[left[end - 1]], lo=at, key=lambda other: -rooms[other])
            left.insert(at, left.pop(tight))
            break
        wanted -= rooms[key]
    return left


def fewest(rooms: Mapping[K, int], wanted: int) -> int:
    """Fewest of these rooms that take ``wanted``."""
    used = 0
    for key in best_fit(rooms, wanted):
        if wanted <= 0:
            break
        wanted -= rooms[key]
        used += 1
    return used
