"""Finds whom to evict for a gang: the least victims anywhere, such that one domain takes it. Pure.

Each trial is a whole search for a domain, so there are few. First, as many go as are needed, the cheapest ones; and
whoever of them is not in the way of the places that are found comes back. That is an answer already. Among few
candidates, a better one is looked for.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

from controller.allocation import CompiledRequest
from controller.gangs import Gang, GangPlan, Member, Memory, SearchOptions, choose
from controller.placement import Placement, PodCheck
from controller.preemption.bonds import CannotGo
from controller.preemption.least_set import Least
from controller.preemption.victim_search import Found, Market, Uids, VictimSearch, in_order, needed

_FIRST: Final = 8
"""The cheapest candidates that are tried at first."""
_MOST_SEARCHED: Final = 48
"""Most candidates among which the least victims are proved to be the least."""
_WIDER: Final = 4
"""How many times as many as are sufficient are searched, if these may not go together."""


def victims_for_gang(gang: Gang, market: Market) -> Found:
    """Find the least victims for the gang, which has no room now. Each trial is a search for a domain."""
    return _Search(gang, market).run()


class _Search:
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
            level = self._market.prices.of(first)[0]
            candidates = [one for one in candidates if self._market.prices.of(one)[0] <= level]
        is_whole = len(candidates) <= _MOST_SEARCHED
        among = candidates if is_whole else candidates[: _WIDER * size]
        search = VictimSearch(among, self._market, self._suffices)
        least = Least()
        if is_whole or first is None:
            least = search.find(below=None if first is None else self._market.prices.of(first))
        found = [search.victims(chosen) for chosen in least.sets] + ([] if first is None else [first])
        proven = is_whole and least.proven and not self._undecided
        if not found:
            forbidden = dict([search.obstacle(least.forbidden)]) if least.forbidden else {}
            return Found(forbidden=forbidden, proven=proven)
        victims = min(found, key=lambda one: (self._market.prices.of(one), sorted(one)))
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
        self._undecided |= not found.decided
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
        slot = fleet.slot(node, nodes.labels_of(node))
        for claims in zip(*((one.demand.claims, one.demand.other_drivers_claims) for one in members), strict=True):
            distinct = tuple({claim.uid: claim for some in claims for claim in some}.values())
            request = fleet.compile(distinct)
            if not isinstance(request, CompiledRequest) or fleet.fit(slot, request, distinct) is None:
                return False
        return True
