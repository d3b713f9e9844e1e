"""Nodes that are alike for a pod, also when some of their pods go: one search is enough for all of them. Pure."""

from collections.abc import Hashable, Sequence

from controller.allocation import CompiledRequest
from controller.placement import NodeView, PodCheck, PodDemand, fits
from controller.preemption.price import RANK
from controller.preemption.vacating import Vacating
from controller.preemption.victim_search import Market, Uids


class NodeClasses:
    """Tells which nodes are alike for one pod."""

    def __init__(self, pod: PodDemand, market: Market, vacating: Vacating):
        self._pod = pod
        self._market = market
        self._vacating = vacating
        self._check = PodCheck(pod.key, pod.needs, vacating.nodes)
        requests = [vacating.fleet.compile(claims) for claims in (pod.claims, pod.other_drivers_claims)]
        self._requests = [request for request in requests if isinstance(request, CompiledRequest)]

    def could_take(self, node: str) -> bool:
        """Whether the node might take the pod if nobody was there."""
        if self._pod.bound_to:
            return self._pod.allows(node)
        nodes, facts = self._vacating.nodes, self._vacating.nodes.view(node).facts
        if facts is None or not self._pod.allows(node):
            return False
        empty = NodeView.without_pods(facts)
        return not fits(self._pod.key, self._pod.needs, empty, nodes.extended_resources)

    def of(self, node: str, candidates: Sequence[Uids]) -> tuple[Hashable, Sequence[Uids]]:
        """The class of the node, and its candidates in an order that is the same for all nodes of the class."""
        fleet, nodes, holders = self._vacating.fleet, self._vacating.nodes, self._market.bonds.holders
        if any(self._market.bonds.is_bound(holders[uid]) for one in candidates for uid in one):
            return node, candidates
        passes = self._check.passes(node)
        if not passes and self._check.depends_on_others:
            return node, candidates
        labels, view = nodes.labels_of(node), nodes.view(node)
        named = () if passes else tuple(sorted(self._pod.needs.requests))
        keyed = []
        for (uid,) in candidates:
            holder = holders[uid]
            needs = view.holds(holder.pod)
            keyed.append(
                (
                    self._market.prices.of((uid,))[:RANK],
                    tuple(fleet.places(node, labels, claim.allocation) for claim in holder.claims if claim.allocation),
                    tuple([needs.requests.get(name, 0) if needs else 0 for name in named]),
                    needs is not None,
                    uid,
                )
            )
        keyed.sort()
        left = tuple([view.facts.allocatable.get(name, 0) - view.used[name] for name in (*named, "pods") if view.facts])
        key = (
            tuple([one[:-1] for one in keyed]),
            passes or (left, view.pods),
            tuple([fleet.likeness(node, labels, request) for request in self._requests]),
        )
        return key, [frozenset((one[-1],)) for one in keyed]
