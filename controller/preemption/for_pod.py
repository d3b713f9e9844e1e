"""Finds whom to evict for one pod: the least victims of each node, those with the cheapest pods first. Pure."""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from controller.placement import Placement, PodDemand, place_on
from controller.preemption.least_set import Least
from controller.preemption.node_classes import NodeClasses
from controller.preemption.price import Price
from controller.preemption.vacating import Vacating
from controller.preemption.victim_search import Found, Market, Uids, VictimSearch, in_order, needed

_MOST_EQUAL: Final = 64
"""Most sets of equal rank that are compared by age on nodes that are alike."""


def victims_for_pod(pod: PodDemand, market: Market, vacating: Vacating) -> Found:
    """Find the least victims on one node for the pod, which has no room now."""
    search = _Search(pod, market, vacating)
    search.run()
    if search.best is None:
        return Found(in_vain=search.in_vain, forbidden=search.forbidden, proven=search.proven)
    _, node, victims = search.best
    placement = search.placed(node, victims)
    assert placement is not None

    def suffices(uids: Uids) -> bool:
        return search.placed(node, uids) is not None

    order = in_order(victims, market.bonds, lambda every: needed(every, suffices))
    return Found(order, (placement,), proven=search.proven)


class _Search:
    """The search for one pod.

    Attributes:
        best: the best victims so far: their price, the node, and their UIDs.
        in_vain, forbidden, proven: as of ``Found``.
    """

    def __init__(self, pod: PodDemand, market: Market, vacating: Vacating):
        self._pod = pod
        self._market = market
        self._vacating = vacating
        self._classes = NodeClasses(pod, market, vacating)
        self._known: dict[Hashable, Least] = {}
        self.best: tuple[Price, str, Uids] | None = None
        self.in_vain = 0
        self.forbidden: dict[str, set[str]] = {}
        self.proven = True

    def run(self) -> None:
        """Search node by node. None can be better than its cheapest candidate."""
        nodes = self._candidates()
        queue = [(min(map(self._market.prices.of, candidates)), name) for name, candidates in nodes.items()]
        heapq.heapify(queue)
        while queue and not (self.best and queue[0][0] > self.best[0]):
            _, name = heapq.heappop(queue)
            if self._classes.could_take(name):
                self._look_at(name, nodes[name])
            else:
                self.in_vain += len(nodes[name])

    def placed(self, node: str, without: Uids) -> Placement | None:
        """The place of the pod on the node once these are gone; None if the node does not take it."""
        with self._vacating.without(without):
            return place_on(node, self._pod, self._vacating.fleet, self._vacating.nodes)

    def _look_at(self, node: str, candidates: Sequence[Uids]) -> None:
        key, candidates = self._classes.of(node, candidates)
        search = VictimSearch(candidates, self._market, lambda uids: self.placed(node, uids) is not None)
        found = self._known.get(key)
        if found is None:
            if self._market.trials.are_used_up:
                self.proven = False
                return
            # The first one found is the least of this node; others of its class have pods of other ages.
            most = 1 if key == node else _MOST_EQUAL
            found = self._known[key] = search.find(most, self.best[0] if self.best else None)
            self.proven &= found.proven
        if found.sets:
            chosen = found.sets[0] if len(found.sets) == 1 else self._youngest(found.sets, candidates)
            victims = search.victims(chosen)
            one = self._market.prices.of(victims), node, victims
            if self.best is None or one[:2] < self.best[:2]:
                self.best = one
        elif self.best is None and found.forbidden:
            reason, pods = search.obstacle(found.forbidden)
            self.forbidden.setdefault(reason, set()).update(pods)
        elif self.best is None:
            self.in_vain += len(candidates)

    def _youngest(self, sets: Sequence[int], candidates: Sequence[Uids]) -> int:
        """The set with the best ages. It is asked for every node of a class."""
        holders = self._market.bonds.holders
        ages = [(1 << at, -holders[uid].created) for at, (uid,) in enumerate(candidates)]
        # Whatever is as old as the oldest one that has to go comes first.
        ages.sort(key=itemgetter(1), reverse=True)
        return min(sets, key=lambda chosen: [age for bit, age in ages if chosen & bit])

    def _candidates(self) -> Mapping[str, Sequence[Uids]]:
        """The pods that may go, by node."""
        on_node: dict[str, list[str]] = defaultdict(list)
        for uid, holder in self._market.bonds.holders.items():
            if not holder.going:
                on_node[holder.node].append(uid)
        found = {name: self._market.candidates(uids) for name, uids in on_node.items()}
        return {name: candidates for name, candidates in found.items() if candidates}
