"""Finds the least victims among some pods: on one node for a pod, or anywhere for a gang. Pure.

For a pod, nodes are searched one by one, from the cheapest on, and each class of nodes that are alike for it once.
"""

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from controller.allocation import Card, CompiledRequest
from controller.cluster import Cluster
from controller.gangs import Gang, GangPlan, Member, Memory, SearchOptions, choose
from controller.placement import NodeView, Placement, PodCheck, PodDemand, fits, place_on
from controller.preemption.candidates import RANK, Bonds, CannotGo, Market, Price, Prices, Uids
from controller.preemption.least_set import Least, LeastSet
from controller.preemption.occupancy import Holder, Kind, Occupancy, Residents

_MOST_EQUAL: Final = 64
"""Most sets of equal rank that are compared by age on nodes that are alike."""
_FIRST: Final = 8
"""The cheapest candidates that are tried at first."""
_MOST_SEARCHED: Final = 48
"""Most candidates among which the least victims are proved to be the least."""
_WIDER: Final = 4
"""How many times as many as are sufficient are searched, if these may not go together."""


@dataclass(frozen=True, slots=True)
class Found:
    """The least victims (UIDs, in order), and the places that they make; no places if no victims make room.

    Attributes:
        in_vain: number of pods that could be evicted, but whose end makes no room.
        forbidden: pods whose end would make room, but who may not go together, by the reason.
        proven: whether no other set is better.
    """

    victims: tuple[str, ...] = ()
    placements: tuple[Placement, ...] = ()
    in_vain: int = 0
    forbidden: Mapping[str, Collection[str]] = field(default_factory=dict)
    proven: bool = True


class VictimSearch:
    """One search among candidates: sets of pods that go together.

    Args:
        candidates: as of ``Market.candidates``, in any order. Of equal ones, the first to go stands first.
        suffices: whether there is room once these pods are gone.
    """

    def __init__(self, candidates: Sequence[Uids], market: Market, suffices: Callable[[Uids], bool]):
        self._candidates = candidates
        self._market = market
        self._suffices = suffices
        self._chosen: dict[int, tuple[Uids, Price | None]] = {}

    def find(self, most: int = 1, below: Price | None = None) -> Least:
        """Find the least sets of candidates, up to ``most`` of one rank.

        Args:
            below: worse sets need not be found.
        """
        search = LeastSet(len(self._candidates), self._worth(), self._price, self._is_sufficient, self._market.trials)
        return search.find(RANK, most, None if below is None else below[:RANK])

    def victims(self, chosen: int) -> Uids:
        """The pods that go with a set of candidates."""
        return self._pods(chosen)[0]

    def obstacle(self, chosen: int) -> tuple[str, Uids]:
        """Why a forbidden set of candidates cannot go, as a clause about pods; and these pods."""
        together = self._market.bonds.closure(self._pods(chosen)[0])
        return together if isinstance(together, CannotGo) else "", self._pods(chosen)[0]

    def _pods(self, chosen: int) -> tuple[Uids, Price | None]:
        """The pods that go with a set of candidates, and their price; no price if they cannot go."""
        known = self._chosen.get(chosen)
        if known is None:
            parts = [one for at, one in enumerate(self._candidates) if chosen >> at & 1]
            every = frozenset[str]().union(*parts)
            together = every if len(parts) == 1 else self._market.bonds.closure(every)
            # Without the rules for pods together, more sets are sufficient, never fewer.
            known = (every, None) if isinstance(together, CannotGo) else (together, self._market.prices.price(together))
            self._chosen[chosen] = known
        return known

    def _price(self, chosen: int) -> Price | None:
        return self._pods(chosen)[1]

    def _is_sufficient(self, chosen: int) -> bool:
        return self._suffices(self._pods(chosen)[0])

    def _worth(self) -> Sequence[int]:
        """The candidates in the order in which they are spared: by priority; then those on the fullest cards, card by
        card, so that the emptiest cards become free; then the most expensive."""
        prices, load = self._market.prices, Counter[Card]()
        cards = [[prices.cards(uid) for uid in sorted(one)] for one in self._candidates]
        for every in cards:
            for its in every:
                load.update(its)

        def key(at: int) -> tuple[float, float, str, int]:
            price = self._price(1 << at)
            fullest = min(((-load[card], str(card)) for every in cards[at] for card in every), default=(0, ""))
            return -(price[0] if price else 0), *fullest, -at

        return sorted(range(len(self._candidates)), key=key)


def needed(parts: Iterable[Uids], suffices: Callable[[Uids], bool]) -> Sequence[Uids]:
    """The parts without those that can be spared, the first ones first; all of them together suffice."""
    kept = dict.fromkeys(parts)
    # Part by part: what is left is a set of which nobody can be spared, not the cheapest one. Whoever wants that puts
    # the most expensive parts first.
    for one in tuple(kept):
        del kept[one]
        if not suffices(frozenset[str]().union(*kept)):
            kept[one] = None
    return tuple(kept)


def in_order(victims: Uids, bonds: Bonds, needed_of: Callable[[Sequence[Uids]], Iterable[Uids]]) -> tuple[str, ...]:
    """The victims in the order in which they are evicted (``Preemption.victims``).

    Args:
        needed_of: of single victims, the ones that have to go to make room.
    """
    holders = [bonds.holders[uid] for uid in victims]
    holders.sort(key=lambda holder: (holder.priority, -holder.created, holder.pod))
    order = [holder.uid for holder in holders]
    if any(map(bonds.is_bound, holders)):
        in_the_way = frozenset[str]().union(*needed_of([frozenset((uid,)) for uid in order]))
        order.sort(key=in_the_way.__contains__)
    return tuple(order)


class _ResidentsByNode:
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


def prepare(occupancy: Occupancy, cluster: Cluster) -> None:
    """Find out about the pods of each node. Without it, the first decision does the same, and takes long."""
    bonds = Bonds(occupancy, 0, {})
    for _ in _ResidentsByNode(occupancy, bonds, Prices(cluster.devices, bonds), cluster).all():
        pass


def victims_for_pod(pod: PodDemand, occupancy: Occupancy, market: Market) -> Found:
    """Find the least victims on one node for the pod, which has no room now."""
    residents = _ResidentsByNode(occupancy, market.bonds, market.prices, market.cluster)
    search = _PodSearch(pod, market, residents)
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


class _PodSearch:
    """The search for one pod.

    Attributes:
        best: the best victims so far: their price, the node, and their UIDs.
        in_vain, forbidden, proven: as of ``Found``.
    """

    def __init__(self, pod: PodDemand, market: Market, residents: _ResidentsByNode):
        self._pod = pod
        self._market = market
        self._residents = residents
        self._classes = _NodeClasses(pod, market, residents)
        self._known: dict[Hashable, tuple[Least, Price]] = {}
        self.best: tuple[Price, str, Uids] | None = None
        self.in_vain = 0
        self.forbidden: dict[str, set[str]] = {}
        self.proven = True

    def run(self) -> None:
        """Search node by node. None can be better than its cheapest pod; of equal ones, the first by name is."""
        below = self._market.bonds.priority
        every = self._residents.all()
        # Of thousands of nodes, few are looked at: a set costs no less than the cheapest pod of its node, which is
        # known without a trial (test_one_trial_finds_the_victim_among_many_nodes).
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
        key, candidates = self._classes.class_of(node)
        if not candidates:
            return
        if key is None:
            self.in_vain += len(candidates)
            return
        search = VictimSearch(candidates, self._market, lambda uids: self.placed(node, uids) is not None)
        if key not in self._known:
            # Candidates stand in the same order on all nodes of a class, so a set, which is a number with a bit for
            # each, is sufficient on all of them or on none (test_nodes_are_not_alike_if_pods_hold_other_devices).
            if self._market.trials.are_used_up:
                self.proven = False
                return
            # The first one found is the least of this node; others of its class have pods of other ages.
            least = search.find(1 if key == node else _MOST_EQUAL, self.best[0] if self.best else None)
            rank = self._market.prices.price(search.victims(least.sets[0]))[:RANK] if least.sets else ()
            self._known[key] = least, rank
            self.proven &= least.proven
        found, rank = self._known[key]
        if found.sets:
            if key != node and self._is_too_old(node, rank):
                return
            chosen = found.sets[0] if len(found.sets) == 1 else self._youngest(found.sets, candidates)
            victims = search.victims(chosen)
            one = self._market.prices.price(victims), node, victims
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
        # No set of so many pods can be better than the youngest ones of the node, whether these suffice or not. This
        # spares the comparison of all sets on most nodes of a class. The number of pods is the last part of a rank.
        youngest = self._residents.on(node).ages[: int(rank[-1])]
        return self.best[:2] < ((*rank, *(age for ages in reversed(youngest) for age in ages)), node)

    def _youngest(self, sets: Sequence[int], candidates: Sequence[Uids]) -> int:
        """The set with the best ages. It is asked for every node of a class that may be better."""
        holders = self._market.bonds.holders
        ages = [(1 << at, -holders[uid].created) for at, (uid,) in enumerate(candidates)]
        # Whatever is as old as the oldest one that has to go comes first.
        ages.sort(key=itemgetter(1), reverse=True)
        return min(sets, key=lambda chosen: [age for bit, age in ages if chosen & bit])


class _NodeClasses:
    """Tells which nodes are alike for one pod."""

    def __init__(self, pod: PodDemand, market: Market, residents: _ResidentsByNode):
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


def victims_for_gang(gang: Gang, market: Market) -> Found:
    """Find the least victims for the gang, which has no room now. Each trial is a search for a domain."""
    return _GangSearch(gang, market).run()


class _GangSearch:
    """The search for one gang."""

    def __init__(self, gang: Gang, market: Market):
        self._gang = gang
        self._members = {member.demand.key: member for member in gang.members}
        self._market = market
        self._memory = Memory()
        self._undecided = False

    def run(self) -> Found:
        """Find an answer, then a better one."""
        candidates = self._candidates()
        size = self._least_prefix(candidates)
        if not size:
            return Found(in_vain=len(frozenset[str]().union(*candidates)), proven=not self._undecided)
        first = self._in_the_way(candidates[:size])
        if first is not None:
            # Nobody of a higher priority has to go.
            level = self._market.prices.price(first)[0]
            candidates = [one for one in candidates if self._market.prices.price(one)[0] <= level]
        is_whole = len(candidates) <= _MOST_SEARCHED
        among = candidates if is_whole else candidates[: _WIDER * size]
        search = VictimSearch(among, self._market, self._suffices)
        least = Least()
        if is_whole or first is None:
            least = search.find(below=None if first is None else self._market.prices.price(first))
        found = [search.victims(chosen) for chosen in least.sets] + ([] if first is None else [first])
        proven = is_whole and least.proven and not self._undecided
        if not found:
            forbidden = dict([search.obstacle(least.forbidden)]) if least.forbidden else {}
            return Found(forbidden=forbidden, proven=proven)
        # What the search found is of the same rank as the first answer, or better; of the same rank, ages decide.
        victims = min(found, key=lambda one: (self._market.prices.price(one), sorted(one)))
        plan = self._choose(victims)
        assert plan is not None
        order = in_order(victims, self._market.bonds, lambda every: self._needed(every, plan.placements))
        return Found(order, plan.placements, proven=proven)

    def _candidates(self) -> Sequence[Uids]:
        """The pods that may go from nodes where a member could go, the cheapest first."""
        holders = self._market.bonds.holders
        demands = [member.demand for member in self._gang.members]
        nodes = {holder.node for holder in holders.values()}
        nodes = {node for node in nodes if any(demand.allows(node) for demand in demands)}
        return self._market.candidates(
            uid for uid, holder in holders.items() if holder.node in nodes and not holder.going
        )

    def _least_prefix(self, candidates: Sequence[Uids]) -> int:
        """The fewest candidates, the cheapest ones, whose end makes room; 0 if even the end of all does not."""

        def suffices(size: int) -> bool:
            return self._suffices(frozenset[str]().union(*candidates[:size]))

        # Larger and larger, then between the last two: a search for a domain that fails costs most, and whoever goes
        # besides makes no domain impossible (test_as_few_of_the_cheapest_go_as_are_needed).
        too_few, size = 0, min(_FIRST, len(candidates))
        while too_few < size and not suffices(size):
            too_few, size = size, min(4 * size, len(candidates))
        if too_few == size:
            return 0
        sizes = range(too_few + 1, size)
        return too_few + 1 + bisect_left(sizes, x=True, key=suffices)

    def _in_the_way(self, candidates: Sequence[Uids]) -> Uids | None:
        """Of these, whose end makes room, the ones in the way of the places that are found then; None if in vain."""
        plan = self._choose(frozenset[str]().union(*candidates))
        if plan is None:
            return None
        # The most expensive ones are spared first.
        found = self._needed(tuple(reversed(candidates)), plan.placements)
        # Nodes were asked one by one. What goes with the ones that are in the way may be elsewhere, and devices that
        # nodes share may not be enough for all: so the whole is tried once more.
        together = self._market.bonds.closure(frozenset[str]().union(*found))
        return None if isinstance(together, CannotGo) or not self._suffices(together) else together

    # Trials

    def _suffices(self, uids: Uids) -> bool:
        return self._choose(uids) is not None

    def _choose(self, without: Uids) -> GangPlan | None:
        """The plan for the gang once these are gone; None if there is none."""
        every = all(self._market.bonds.holders[uid].claims for uid in without)
        # A memory does not notice the end of pods that hold no devices.
        memory = self._memory if every else None
        with self._market.cluster.what_if() as trial:
            self._market.bonds.end(trial, without)
            found = choose(self._gang, self._market.cluster, SearchOptions(memory=memory))
        if isinstance(found, GangPlan):
            return found
        self._undecided |= not found.why.decided
        return None

    # Places that are found

    def _needed(self, parts: Sequence[Uids], placements: Sequence[Placement]) -> Collection[Uids]:
        """The parts in the way of these places, node by node."""
        members: dict[str, list[Member]] = defaultdict(list)
        for placement in placements:
            members[placement.node].append(self._members[placement.pod])
        holders, found = self._market.bonds.holders, set[Uids]()
        for node, there in members.items():

            def fits(uids: Uids, node: str = node, there: Sequence[Member] = there) -> bool:
                with self._market.cluster.what_if() as trial:
                    self._market.bonds.end(trial, uids)
                    return self._fit_on(node, there)

            found.update(needed([one for one in parts if any(holders[uid].node == node for uid in one)], fits))
        return found

    def _fit_on(self, node: str, members: Sequence[Member]) -> bool:
        """Whether the node takes all of these members as it is now."""
        fleet, nodes = self._market.cluster.devices, self._market.cluster.nodes
        with self._market.cluster.what_if() as trial:
            for member in members:
                demand = member.demand
                check = PodCheck(demand.key, demand.needs, nodes)
                if check.closed(node) if demand.bound_to else not check.passes(node):
                    return False
                trial.add_pod(demand.key, demand.needs, node)
        # Members that share a claim need its devices once, so they are asked for together.
        slot = fleet.slot(node, nodes.labels_of(node))
        for claims in zip(*((one.demand.claims, one.demand.other_drivers_claims) for one in members), strict=True):
            distinct = tuple({claim.uid: claim for some in claims for claim in some}.values())
            request = fleet.compile(distinct)
            if not isinstance(request, CompiledRequest) or fleet.fit(slot, request, distinct) is None:
                return False
        return True
