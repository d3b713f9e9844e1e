"""Finds whom to evict for one pod: the least victims of each node, those with the cheapest pods first. Pure."""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.placement import Placement, PodDemand, place_on
from controller.preemption.price import Price
from controller.preemption.vacating import Vacating
from controller.preemption.victim_search import Market, Uids, VictimSearch


@dataclass(frozen=True, slots=True)
class Found:
    """The least victims, by UID, and the places that they make; no places if no victims make room.

    Attributes:
        in_vain: number of pods that could be evicted, but whose end makes no room.
        proven: whether no other set is better.
    """

    victims: Uids = frozenset()
    placements: tuple[Placement, ...] = ()
    in_vain: int = 0
    proven: bool = True


def victims_for_pod(pod: PodDemand, market: Market, vacating: Vacating) -> Found:
    """Find the least victims on one node for the pod, which has no room now."""
    nodes = _candidates(pod, market)
    queue = [(market.prices.of(candidates[0]), name) for name, candidates in nodes.items()]
    heapq.heapify(queue)
    best: tuple[Price, str, Uids] | None = None
    proven, in_vain = True, 0
    while queue and not (best and queue[0][0] > best[0]):
        if market.trials.are_used_up:
            proven = False
            break
        _, name = heapq.heappop(queue)

        def suffices(uids: Uids, node: str = name) -> bool:
            return _placed(pod, node, uids, vacating) is not None

        sets, sure = VictimSearch(nodes[name], market, suffices).find(below=best[0] if best else None)
        proven &= sure
        if best is None and not sets:
            in_vain += len(nodes[name])
        for victims in sets:
            one = market.prices.of(victims), name, victims
            best = one if best is None or one[:2] < best[:2] else best
    if best is None:
        return Found(in_vain=in_vain, proven=proven)
    placement = _placed(pod, best[1], best[2], vacating)
    assert placement is not None
    return Found(best[2], (placement,), in_vain, proven)


def _placed(pod: PodDemand, node: str, without: Uids, vacating: Vacating) -> Placement | None:
    with vacating.without(without):
        return place_on(node, pod, vacating.fleet, vacating.nodes)


def _candidates(pod: PodDemand, market: Market) -> Mapping[str, Sequence[Uids]]:
    """The pods that may go, by the nodes where the pod could go."""
    on_node: dict[str, list[str]] = defaultdict(list)
    for uid, holder in market.bonds.holders.items():
        if not holder.going and pod.allows(holder.node):
            on_node[holder.node].append(uid)
    found = {name: market.candidates(uids) for name, uids in on_node.items()}
    return {name: candidates for name, candidates in found.items() if candidates}
