"""How much can flow through a network of pipes; with it, whether enough is there for several who compete for it."""

from collections import deque
from collections.abc import Hashable
from typing import Final

SOURCE: Final = "source"
SINK: Final = "sink"


class Network:
    """Pipes between nodes, any hashable values. Augmenting paths, shortest first (Edmonds and Karp)."""

    def __init__(self) -> None:
        self._room: dict[Hashable, dict[Hashable, int]] = {SOURCE: {}, SINK: {}}

    def pipe(self, start: Hashable, end: Hashable, room: int) -> None:
        """Let ``room`` more flow from one node to another."""
        ahead = self._room.setdefault(start, {})
        ahead[end] = ahead.get(end, 0) + room
        self._room.setdefault(end, {}).setdefault(start, 0)

    def limit(self, start: Hashable, end: Hashable, room: int) -> None:
        """Let no more than ``room`` flow from one node to another, however often they are connected."""
        self._room.setdefault(start, {})[end] = room
        self._room.setdefault(end, {}).setdefault(start, 0)

    def carries(self, amount: int) -> bool:
        """Whether ``amount`` can flow from ``SOURCE`` to ``SINK``; uses the network up."""
        while amount > 0:
            found = self._path()
            if found is None:
                return False
            path, room = found
            for start, end in path:
                self._room[start][end] -= room
                self._room[end][start] += room
            amount -= room
        return True

    def _path(self) -> tuple[list[tuple[Hashable, Hashable]], int] | None:
        """The pipes of a shortest way with room left, and its room."""
        reached: dict[Hashable, Hashable] = {SOURCE: SOURCE}
        queue: deque[Hashable] = deque([SOURCE])
        while queue and SINK not in reached:
            start = queue.popleft()
            for end, room in self._room[start].items():
                if room > 0 and end not in reached:
                    reached[end] = start
                    queue.append(end)
        if SINK not in reached:
            return None
        path: list[tuple[Hashable, Hashable]] = []
        node: Hashable = SINK
        while node != SOURCE:
            path.append((reached[node], node))
            node = reached[node]
        return path, min(self._room[start][end] for start, end in path)
