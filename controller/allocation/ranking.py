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
from collections.abc import Callable, Iterator, Sequence

from controller.allocation.arrange import arrange, closeness, share_load
from controller.allocation.attempt import Candidate
from controller.allocation.candidates import Survey
from controller.allocation.cutting import Lost, cards_of, partial
from controller.allocation.demand import Choice, Demand
from controller.allocation.pools import Unit
from controller.allocation.preference import MILLION, Preference, node_rank

Standing = tuple[int, int, Lost, tuple[int, ...]]
"""A node's place for one request: alternative, closeness, cost of a partition, rank by load. The smallest is best."""


def prefers(wanted: Sequence[Demand]) -> bool:
    """Whether any request prefers some devices or nodes to others."""
    return any(_orders(choice) for demand in wanted for choice in demand.choices)


def by_preference(names: Sequence[str], survey: Callable[[str], Survey], wanted: Sequence[Demand]) -> Iterator[str]:
    """The nodes of ``names`` that could satisfy each request alone, the best first."""
    ranked = []
    for place, name in enumerate(names):
        standing = standings(survey(name), wanted)
        if standing is not None:
            ranked.append((standing, place))
    heapq.heapify(ranked)
    while ranked:
        yield names[heapq.heappop(ranked)[1]]


def standings(survey: Survey, wanted: Sequence[Demand]) -> tuple[Standing, ...] | None:
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
    cut = (one.unit for one in candidates if one.takes is None and partial(one.unit))
    return min((cards_of(unit.pool).cost(unit, unit.pool.free)[0] for unit in cut), default=())
