"""What is known of the pods of each node, and which nodes are alike for a pod, also when some of these go. Pure."""

from collections.abc import Hashable, Iterator, Sequence

from controller.allocation import CompiledRequest
from controller.cluster import Cluster
from controller.placement import NodeView, PodCheck, PodDemand, fits
from controller.preemption.candidates import RANK, Bonds, CannotGo, Market, Prices, Uids
from controller.preemption.occupancy import Holder, Kind, Occupancy, Residents


class ResidentsByNode:
    """Finds out about the pods of nodes. The occupancy remembers it until holders or published devices change."""

    def __init__(self, occupancy: Occupancy, bonds: Bonds, prices: Prices, cluster: Cluster):
        self._occupancy = occupancy
        self._bonds = bonds
        self._prices = prices
        self._fleet = cluster.devices
        self._nodes = cluster.nodes
        self._slots = self._fleet.node_slots
        self._shared = self._fleet.shared_usage if self._fleet.shares_devices else 0

    def all(self) -> Iterator[tuple[str, Residents]]:
        """Each node with holders, and the pods there."""
        known, slots, shared = self._occupancy.residents, self._slots, self._shared
        for name in self._occupancy.nodes:
            # The occupancy forgets a node whose holders change. What the node publishes, and what is used of devices
            # that nodes share, is compared here.
            one, slot = known.get(name), slots.get(name)
            if one is None or one.slot is not slot or one.shared != shared or (slot and slot.made != one.made):
                one = known[name] = self._found(name)
            yield name, one

    def on(self, name: str) -> Residents:
        """The pods of a node that ``all`` gave."""
        return self._occupancy.residents[name]

    def _found(self, name: str) -> Residents:
        occupancy, slot = self._occupancy, self._slots.get(name)
        holders = [holder for holder in occupancy.on(name) if not holder.going]
        allocations = [[one.allocation for one in holder.claims if one.allocation] for holder in holders]
        labels, view = self._nodes.labels_of(name), self._nodes.view(name)
        places = iter(self._fleet.positions(name, labels, [one for some in allocations for one in some]))
        prices = [self._price(holder) for holder in holders]
        pods = [
            ((price[:RANK], tuple([next(places) for _ in own]), view.holds(holder.pod) is not None), holder.uid)
            for holder, price, own in zip(holders, prices, allocations, strict=True)
        ]
        pods.sort()
        return Residents(
            slot=slot,
            made=slot.made if slot else 0,
            shared=self._shared,
            pods=tuple(pods),
            kinds=tuple([kind for kind, _ in pods]),
            cheapest=min(prices, default=()),
            ages=tuple(sorted([price[RANK:] for price in prices])),
            highest=max([price[0] for price in prices], default=0),
            are_kept=any([holder.kept or self._bonds.claims_obstacle(holder) for holder in holders]),
            is_bound=any(map(occupancy.is_bound, holders)),
        )

    def _price(self, holder: Holder) -> tuple[float, ...]:
        return self._prices.price((holder.uid,))


class NodeClasses:
    """Tells which nodes are alike for one pod."""

    def __init__(self, pod: PodDemand, market: Market, residents: ResidentsByNode):
        self._pod = pod
        self._market = market
        self._fleet = market.cluster.devices
        self._nodes = market.cluster.nodes
        self._residents = residents
        self._check = PodCheck(pod.key, pod.needs, self._nodes)
        requests = [self._fleet.compile(claims) for claims in (pod.claims, pod.other_drivers_claims) if claims]
        self._requests = [request for request in requests if isinstance(request, CompiledRequest)]
        self._spared_on = {self._nodes.node_of(pod) for pod in market.bonds.spared}

    def class_of(self, node: str) -> tuple[Hashable, Sequence[Uids]]:
        """The class of the node, and the candidates there, in an order that is the same for all nodes of the class.

        The class is None if the node would not take the pod even if nobody was there.
        """
        there = self._residents.on(node)
        if there.is_bound:
            # Whoever goes with these pods may be on other nodes, so no two nodes are alike.
            candidates = self._market.candidates(uid for _, uid in there.pods)
            return (node if self._passes(node) or self._could_take(node) else None), candidates
        may = self._that_may_go(node, there)
        free = [frozenset((uid,)) for _, uid in may]
        kinds = there.kinds if len(may) == len(there.pods) else tuple([kind for kind, _ in may])
        if self._passes(node):
            # Only devices are missing: what the pods take of anything else makes no difference.
            return (kinds, True, self._likeness(node)), free
        if not self._could_take(node):
            return None, free
        if self._check.depends_on_others:
            # Affinity and spread look at pods of other nodes, so each node answers for itself.
            return node, sorted(free, key=lambda one: (self._market.prices.price(one), sorted(one)))
        kinds_here, left, ordered = self._by_requests(node, may)
        return (kinds_here, left, self._likeness(node)), ordered

    def _that_may_go(self, node: str, there: Residents) -> Sequence[tuple[Kind, str]]:
        """The pods of the node that may go, none of which concerns others."""
        bonds = self._market.bonds
        if there.highest < bonds.priority and not there.are_kept and node not in self._spared_on:
            return there.pods
        return [one for one in there.pods if not isinstance(bonds.together(one[1]), CannotGo)]

    def _likeness(self, node: str) -> Hashable:
        labels = self._nodes.labels_of(node)
        return tuple([self._fleet.likeness(node, labels, one) for one in self._requests])

    def _passes(self, node: str) -> bool:
        """Whether the node takes the pod as it is, apart from devices."""
        return not self._pod.bound_to and self._pod.allows(node) and self._check.passes(node)

    def _could_take(self, node: str) -> bool:
        """Whether the node might take the pod if nobody was there."""
        if not self._pod.allows(node):
            return False
        if self._pod.bound_to:
            # It is on the node already: it needs devices there, and nothing else.
            return True
        facts = self._nodes.view(node).facts
        if facts is None:
            return False
        empty = NodeView.without_pods(facts)
        return not fits(self._pod.key, self._pod.needs, empty, self._nodes.extended_resources)

    def _by_requests(self, node: str, pods: Sequence[tuple[Kind, str]]) -> tuple[Hashable, Hashable, Sequence[Uids]]:
        """What the pods take of the resources that the pod needs, too; what is left; and the candidates in order."""
        view, holders = self._nodes.view(node), self._market.bonds.holders
        named = sorted(self._pod.needs.requests)
        keyed = []
        for kind, uid in pods:
            needs = view.holds(holders[uid].pod)
            keyed.append((kind, tuple([needs.requests.get(name, 0) if needs else 0 for name in named]), uid))
        keyed.sort()
        left = tuple([view.facts.allocatable.get(name, 0) - view.used[name] for name in (*named, "pods") if view.facts])
        return tuple([one[:2] for one in keyed]), (left, view.pods), [frozenset((uid,)) for _, _, uid in keyed]
