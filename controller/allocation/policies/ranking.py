"""Which node is tried first: what the preferences of all requests of a pod make of the nodes of the fleet. Pure.

Requests are compared one after the other, in the order of the claims; a request without a preference says nothing. Of
two nodes the better one for a request is, in this order, the one

1. that satisfies an earlier one of its alternatives (``firstAvailable``);
2. where several cards can be had closer to one another (``policies.arrange``);
3. for partitions under ``binpack``: where the partition it would get costs least (``policies.cutting``);
4. that ``node_rank`` puts first: with the highest load under ``binpack``, with the lowest under ``spread``.

Nodes that are equal in all of that stay in natural order.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final

from controller.allocation.policies.standing import Standings, orders
from controller.allocation.requests.demand import Demand
from controller.allocation.requests.shapes import Shape
from controller.allocation.stock.supply import Seat

_SHAPES: Final = 16
_NODES: Final = 1 << 16


def prefers(wanted: Sequence[Demand]) -> bool:
    """Whether any request prefers some devices or nodes to others."""
    return any(orders(choice) for demand in wanted for choice in demand.choices)


class Ranking:
    """Standings of nodes, remembered for the shapes asked for last until something on the node changes."""

    def __init__(self) -> None:
        self._known: OrderedDict[Shape, dict[Seat, tuple[Hashable, Standings | None]]] = OrderedDict()

    def best_first(
        self,
        seats: Iterable[Seat],
        shape: Shape,
        clock: Callable[[Seat], Hashable],
        standing_of: Callable[[Seat], Standings | None],
    ) -> Iterator[Seat]:
        """Those of ``seats``, given in natural order, that could satisfy each request alone, the best first.

        Args:
            clock: differs whenever something on the node has changed.
            standing_of: the node's place for this shape; None if it cannot satisfy it.
        """
        known = self._of(shape)
        ranked: list[tuple[Standings, int, Seat]] = []
        for place, seat in enumerate(seats):
            now = clock(seat)
            seen, standing = known.get(seat, (None, None))
            if seen != now:
                standing = standing_of(seat)
                known[seat] = now, standing
            if standing is not None:
                ranked.append((standing, place, seat))
        heapq.heapify(ranked)
        while ranked:
            yield heapq.heappop(ranked)[2]

    def _of(self, shape: Shape) -> dict[Seat, tuple[Hashable, Standings | None]]:
        known = self._known.get(shape)
        if known is None:
            if len(self._known) >= _SHAPES:
                self._known.popitem(last=False)
            known = self._known[shape] = {}
        elif len(known) > _NODES:
            known.clear()
        self._known.move_to_end(shape)
        return known
