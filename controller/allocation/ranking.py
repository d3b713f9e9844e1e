"""Which node is tried first: what the preferences of all requests of a pod make of the nodes of the fleet. Pure.

Requests are compared one after the other, in the order of the claims; a request without a preference says nothing. Of
two nodes the better one for a request is, in this order, the one

1. that satisfies an earlier one of its alternatives (``firstAvailable``);
2. where several cards can be had closer to one another (``controller.allocation.arrange``);
3. for partitions under ``binpack``: where the partition it would get costs least (``controller.allocation.cutting``);
4. that ``node_rank`` puts first: with the highest load under ``binpack``, with the lowest under ``spread``.

Nodes that are equal in all of that stay in natural order.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final

from controller.allocation.arrange import arrange, closeness, share_load
from controller.allocation.attempt import Candidate
from controller.allocation.candidates import Survey
from controller.allocation.cutting import Cards, Lost, cards_of, partial
from controller.allocation.demand import Choice, Demand
from controller.allocation.pools import Pool, Unit
from controller.allocation.preference import MILLION, Preference, node_rank
from controller.allocation.shapes import Shape
from controller.allocation.supply import Seat

Standing = tuple[int, int, Lost, tuple[int, ...]]
"""A node's place for one request: alternative, closeness, cost of a partition, rank by load. The smallest is best."""
Standings = tuple[Standing, ...]
"""One for each request that has a preference."""

_SHAPES: Final = 16
_NODES: Final = 1 << 16


def prefers(wanted: Sequence[Demand]) -> bool:
    """Whether any request prefers some devices or nodes to others."""
    return any(_orders(choice) for demand in wanted for choice in demand.choices)


class Ranking:
    """Standings of nodes, remembered for the shapes asked for last until something on the node changes."""

    def __init__(self) -> None:
        self._known: OrderedDict[Shape, dict[Seat, tuple[Hashable, Standings | None]]] = OrderedDict()

    def best_first(
        self, seats: Iterable[Seat], shape: Shape, clock: Callable[[Seat], Hashable], survey: Callable[[Seat], Survey]
    ) -> Iterator[Seat]:
        """Those of ``seats``, given in natural order, that could satisfy each request alone, the best first.

        Args:
            clock: differs whenever something on the node has changed.
            survey: a look at the node for claims of this shape.
        """
        known = self._of(shape)
        ranked: list[tuple[Standings, int, Seat]] = []
        for place, seat in enumerate(seats):
            now = clock(seat)
            seen, standing = known.get(seat, (None, None))
            if seen != now:
                standing = standings(survey(seat), shape.demands)
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


def standings(survey: Survey, wanted: Sequence[Demand]) -> Standings | None:
    """The node's place for every request that has a preference; None if it cannot satisfy one of these."""
    found: list[Standing] = []
    for demand in wanted:
        if any(_orders(choice) for choice in demand.choices):
            every = (_standing(survey, place, choice) for place, choice in enumerate(demand.choices))
            best = next((standing for standing in every if standing is not None), None)
            if best is None:
                return None
            found.append(best)
    return tuple(found)


def _orders(choice: Choice) -> bool:
    return choice.want.mode == "ExactCount" and choice.preference.orders(choice.want.count)


def _standing(survey: Survey, place: int, choice: Choice) -> Standing | None:
    count = choice.want.count if choice.want.mode == "ExactCount" else 1
    candidates = [one for one in survey.fitting(choice) if one.fault is None]
    if len(candidates) < count:
        return None
    if not _orders(choice):
        return place, 0, (), ()
    preference = choice.preference
    first = arrange(preference, 1, candidates) if candidates[0].takes is not None else candidates
    rank = node_rank(
        preference,
        available=sum(map(_left, candidates)),
        total=sum(_whole(unit) for unit, fault in survey.matched(choice) if fault is None),
        asked=sum(_asked(one) for one in first[:count]),
    )
    return place, closeness(preference, count, candidates), _lost(preference, candidates), rank


def _whole(unit: Unit) -> int:
    return MILLION if unit.device.allow_multiple else 1


def _left(candidate: Candidate) -> int:
    return 1 if candidate.takes is None else MILLION - share_load(candidate, candidate.unit.use.consumed, picked=False)


def _asked(candidate: Candidate) -> int:
    return 1 if candidate.takes is None else share_load(candidate, {})


def _lost(preference: Preference, candidates: Sequence[Candidate]) -> Lost:
    if preference.policy != "binpack":
        return ()
    best: Lost | None = None
    cards: dict[Pool, Cards] = {}
    for one in candidates:
        unit = one.unit
        if one.takes is None and partial(unit):
            pool = unit.pool
            if pool not in cards:
                cards[pool] = cards_of(pool)
            lost = cards[pool].cost(unit, pool.free)[0]
            if best is None or lost < best:
                best = lost
    return best or ()
