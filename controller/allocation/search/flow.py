"""How much can flow through a network of pipes; with it, whether enough is there for several who compete for it."""

from collections.abc import Hashable
from itertools import pairwise
from typing import Final

SOURCE: Final = "source"
SINK: Final = "sink"


class Network:
    """Pipes between nodes, any hashable values. All shortest ways are filled at once, then longer ones (Dinic)."""

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
            ahead = self._ahead()
            if SINK not in ahead:
                return False
            while (filled := self._fill(ahead)) > 0:
                amount -= filled
        return True

    def _ahead(self) -> dict[Hashable, list[Hashable]]:
        """Per node that can be reached, those one step further from the source on a shortest way."""
        depth: dict[Hashable, int] = {SOURCE: 0}
        ahead: dict[Hashable, list[Hashable]] = {}
        front: list[Hashable] = [SOURCE]
        while front and SINK not in depth:
            further: list[Hashable] = []
            for node in front:
                ahead[node] = []
                level = depth[node] + 1
                for end, room in self._room[node].items():
                    if room > 0 and depth.setdefault(end, level) == level:
                        if end not in ahead:
                            ahead[end] = []
                            further.append(end)
                        ahead[node].append(end)
            front = further
        return ahead

    def _fill(self, ahead: dict[Hashable, list[Hashable]]) -> int:
        """Fill one of the shortest ways; how much went through, 0 if none has room. Dead ends are struck off."""
        way: list[Hashable] = [SOURCE]
        while way[-1] != SINK:
            node = way[-1]
            ends = ahead[node]
            while ends and self._room[node][ends[-1]] <= 0:
                ends.pop()
            if ends:
                way.append(ends[-1])
                continue
            way.pop()
            if not way:
                return 0
            ahead[way[-1]].pop()
        steps = list(pairwise(way))
        room = min(self._room[start][end] for start, end in steps)
        for start, end in steps:
            self._room[start][end] -= room
            self._room[end][start] += room
        return room
