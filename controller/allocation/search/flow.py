"""Maximum flow: finds out if there are enough devices for several needs that compete for them."""

from collections.abc import Hashable
from itertools import pairwise
from typing import Final

SOURCE: Final = "source"
SINK: Final = "sink"


class FlowNetwork:
    """Pipes between nodes (any hashable values). Fills all shortest paths at once, then longer ones (Dinic)."""

    def __init__(self) -> None:
        self._left: dict[Hashable, dict[Hashable, int]] = {SOURCE: {}, SINK: {}}

    def pipe(self, start: Hashable, end: Hashable, capacity: int) -> None:
        """Add a pipe from one node to another, or to one that is there as much capacity."""
        ahead = self._left.setdefault(start, {})
        ahead[end] = ahead.get(end, 0) + capacity
        self._left.setdefault(end, {}).setdefault(start, 0)

    def limit(self, start: Hashable, end: Hashable, capacity: int) -> None:
        """Set the capacity from one node to another to this, whatever was added before."""
        self._left.setdefault(start, {})[end] = capacity
        self._left.setdefault(end, {}).setdefault(start, 0)

    def carries(self, amount: int) -> bool:
        """True if ``amount`` can flow from ``SOURCE`` to ``SINK``. The network cannot be used again."""
        # The shortest paths of each round are longer than those of the round before, so there are at most as many
        # rounds as nodes (Dinic).
        while amount > 0:
            ahead = self._ahead()
            if SINK not in ahead:
                return False
            while (filled := self._fill(ahead)) > 0:
                amount -= filled
        return True

    def _ahead(self) -> dict[Hashable, list[Hashable]]:
        """Per reachable node, the nodes one step further from the source on a shortest path."""
        depth: dict[Hashable, int] = {SOURCE: 0}
        ahead: dict[Hashable, list[Hashable]] = {}
        front: list[Hashable] = [SOURCE]
        while front and SINK not in depth:
            further: list[Hashable] = []
            for node in front:
                ahead[node] = []
                level = depth[node] + 1
                for end, left in self._left[node].items():
                    if left > 0 and depth.setdefault(end, level) == level:
                        if end not in ahead:
                            ahead[end] = []
                            further.append(end)
                        ahead[node].append(end)
            front = further
        return ahead

    def _fill(self, ahead: dict[Hashable, list[Hashable]]) -> int:
        """Fill one of the shortest paths and remove dead ends; returns the flow, 0 if no path has capacity left."""
        path: list[Hashable] = [SOURCE]
        while path[-1] != SINK:
            node = path[-1]
            ends = ahead[node]
            while ends and self._left[node][ends[-1]] <= 0:
                ends.pop()
            if ends:
                path.append(ends[-1])
                continue
            # A dead end stays one until the next round, so the pipe to it is taken off: the last one of the node before
            # it.
            path.pop()
            if not path:
                return 0
            ahead[path[-1]].pop()
        steps = list(pairwise(path))
        flow = min(self._left[start][end] for start, end in steps)
        for start, end in steps:
            self._left[start][end] -= flow
            # Flow can be sent back later: a need gives up a cell that only another need can use.
            self._left[end][start] += flow
        return flow
