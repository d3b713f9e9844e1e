"""Finds whom to evict for one pod: the least victims of each node, those with the cheapest pods first. Pure."""

import heapq
from collections.abc import Hashable, Sequence
from operator import itemgetter
from typing import Final

from controller.placement import Placement, PodDemand, place_on
from controller.preemption.least_set import Least
from controller.preemption.node_classes import NodeClasses
from controller.preemption.price import RANK, Price
from controller.preemption.residents import ResidentsByNode
from controller.preemption.victim_search import Found, Market, Uids, VictimSearch, in_order, needed

_MOST_EQUAL: Final = 64
"""Most sets of equal rank that are compared by age on nodes that are alike."""


def victims_for_pod(pod: PodDemand, market: Market, residents: ResidentsByNode) -> Found:
    """Find the least victims on one node for the pod, which has no room now."""
    search = _Search(pod, market, residents)
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

    def __init__(self, pod: PodDemand, market: Market, residents: ResidentsByNode):
        self._pod = pod
        self._market = market
        self._residents = residents
        self._classes = NodeClasses(pod, market, residents)
        self._known: dict[Hashable, tuple[Least, Price]] = {}
        self.best: tuple[Price, str, Uids] | None = None
        self.in_vain = 0
        self.forbidden: dict[str, set[str]] = {}
        self.proven = True

    def run(self) -> None:
        """Search node by node. None can be better than its cheapest pod; of equal ones, the first by name is."""
        below = self._market.bonds.priority
        every = self._residents.all()
        queue = [(one.cheapest, name) for name, one in every if one.pods and one.cheapest[0] < below]
        heapq.heapify(queue)
        while queue and not (self.best and queue[0] > self.best[:2]):
            _, name = heapq.heappop(queue)
            self._look_at(name)

    def placed(self, node: str, without: Uids) -> Placement | None:
        """The place of the pod on the node once these are gone; None if the node does not take it."""
        cluster = self._market.cluster
        with cluster.what_if() as trial:
            self._market.bonds.end(trial, without)
            return place_on(node, self._pod, cluster.devices, cluster.nodes)

    def _look_at(self, node: str) -> None:
        key, candidates = self._classes.of(node)
        if not candidates:
            return
        if key is None:
            self.in_vain += len(candidates)
            return
        search = VictimSearch(candidates, self._market, lambda uids: self.placed(node, uids) is not None)
        if key not in self._known:
            if self._market.trials.are_used_up:
                self.proven = False
                return
            # The first one found is the least of this node; others of its class have pods of other ages.
            least = search.find(1 if key == node else _MOST_EQUAL, self.best[0] if self.best else None)
            rank = self._market.prices.of(search.victims(least.sets[0]))[:RANK] if least.sets else ()
            self._known[key] = least, rank
            self.proven &= least.proven
        found, rank = self._known[key]
        if found.sets:
            if key != node and self._is_too_old(node, rank):
                return
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

    def _is_too_old(self, node: str, rank: Price) -> bool:
        """Whether the best victims so far are better than any of this rank on the node, because of their ages."""
        if self.best is None:
            return False
        # The number of pods is the last part of a rank.
        youngest = self._residents.of(node).ages[: int(rank[-1])]
        return self.best[:2] < ((*rank, *(age for ages in reversed(youngest) for age in ages)), node)

    def _youngest(self, sets: Sequence[int], candidates: Sequence[Uids]) -> int:
        """The set with the best ages. It is asked for every node of a class that may be better."""
        holders = self._market.bonds.holders
        ages = [(1 << at, -holders[uid].created) for at, (uid,) in enumerate(candidates)]
        # Whatever is as old as the oldest one that has to go comes first.
        ages.sort(key=itemgetter(1), reverse=True)
        return min(sets, key=lambda chosen: [age for bit, age in ages if chosen & bit])
