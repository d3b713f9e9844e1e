"""Decides whom to evict next for a pod that no node takes, or for a gang that no domain takes. Pure.

A plan is not kept. It is made anew before every eviction (``preempt``), on the nodes that are reserved for those who
wait, and pods that are being deleted count as gone. So what others do meanwhile is taken into account, and a restart
changes nothing.

A pod is a gang of one here: all that wait together get their places in one decision, and nobody is evicted for them
before each of the others says for which node it is.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from controller.cluster import Cluster
from controller.gangs import Gang, GangPlan, TriedDomains, choose
from controller.placement import Needs, Nodes, Placement, PodDemand, find_place
from controller.preemption.candidates import Bonds, Market, Prices
from controller.preemption.least_set import Trials
from controller.preemption.occupancy import UNBOUND, Holder, Occupancy
from controller.preemption.values import Preemption, Unevicted
from controller.preemption.victim_search import victims_for_gang, victims_for_pod
from controller.reconcile import DecisionContext
from controller.reconcile.decisions import MakeRoom, Reason, Victim, Wait, is_recorded
from controller.reconcile.demand import NeedsDevices, quota_wait
from controller.reconcile.history import NO_HISTORY, PlacementHistory
from controller.reconcile.lettinggo import hold_expected_foreign_use
from controller.reconcile.podclaims import split_by_driver
from controller.reconcile.pods import NO_CONTEXT, examine, question_about
from controller.refusal import Refusal
from controller.state import ClaimRecord, State
from controller.state.kept_places import KeptPlace

_TRIALS: Final = 1000
"""Most trials of one decision about a pod: with whom gone does a node take it?"""
_GANG_TRIALS: Final = 64
"""The same about a gang, beyond those for the first answer: with whom gone does a domain take it?"""
_GANG_NODES: Final = 20_000
"""Most nodes that are looked at in these trials."""
_LEAST_TRIALS: Final = 8
_STARTED: Final = "it has started, and only a gang that has not preempts"
_IN_PARTS: Final = "members of it are made later"
_UNPUBLISHED: Final = "nobody publishes the devices that it asks for in claims of other drivers"
_OVER_QUOTA: Final = "a quota of its namespace leaves too little for these devices"


def waiting_pod(
    state: State,
    key: str,
    now: float,
    history: PlacementHistory = NO_HISTORY,
    context: DecisionContext = NO_CONTEXT,
) -> PodDemand | None:
    """Return what the pod ``key`` asks for; None if it does not wait at our gate without any devices yet.

    Arguments as of ``decide``.
    """
    found = examine(state, key, now, history, context.max_wait)
    if not isinstance(found, NeedsDevices) or found.pod.node_name or state.names.gate not in found.pod.gates:
        return None
    return None if found.held(state) else question_about(state, found, now, history, context.restrictions)


def make_room(
    state: State, wanted: PodDemand | Gang, occupancy: Occupancy
) -> Mapping[str, MakeRoom] | Refusal[Unevicted]:
    """Return the next step for each pod that gets a place, by key; or why nobody is evicted.

    Args:
        wanted: as of ``waiting_pod``, or a gang as ``decide_gang`` asked for it. Nobody is evicted for a gang that has
            started, nor if a member that it lacks does not exist or is not gated.
    """
    if isinstance(wanted, Gang) and not _is_free_to_move(state, wanted):
        return Refusal(wanted.key, Unevicted())
    answer = _preemption(state, wanted, occupancy)
    if isinstance(answer, Refusal):
        if answer.why.unpublished or answer.why.over_quota is not None:
            return answer
        priority = min(demand.needs.priority for demand in _demands_of(wanted))
        unbound = any(one.kept == UNBOUND and one.priority < priority for one in occupancy.holders)
        return replace(answer, why=replace(answer.why, unbound=unbound))
    kept = _kept_for(state, wanted, answer.placements)
    said = [is_recorded(state, state.pods[one.pod], one.node) for one in kept]
    if not answer.victims and not any(said):
        kept = [replace(one, evicts=False) for one in kept]
    return _steps(answer, kept, said)


def _steps(answer: Preemption, kept: Sequence[KeptPlace], said: Sequence[bool]) -> Mapping[str, MakeRoom]:
    """Return the step of each pod. One of them has the first victim evicted: the first on its node, or of all."""
    first = answer.victims[0] if answer.victims else None
    teller = next((at for at, one in enumerate(kept) if first is not None and one.node == first.node), 0)
    # Whoever has the victim evicted says first, in the same sequence of writes, for which node it is. The others must
    # have said it: after a crash, what is known of the plan is what the pods say, and a gang of which only one member
    # speaks would get another plan, and the first victim would have gone for nothing
    # (test_gangs_preempting.test_nobody_is_evicted_before_every_member_says_for_which_node).
    may_go = all(recorded for at, recorded in enumerate(said) if at != teller)
    awaited, victims = (tuple(one.pod for one in some) for some in (answer.awaited, answer.victims))
    party = answer.victims if first is not None and len(answer.victims) > 1 else ()

    def step(at: int) -> MakeRoom:
        evicts = at == teller and may_go and first is not None
        return MakeRoom(kept[at], first if evicts else None, awaited, victims, party if evicts else ())

    return {one.pod: step(at) for at, one in enumerate(kept)}


def preemption_for(state: State, wanted: PodDemand | Gang, occupancy: Occupancy) -> Preemption | Refusal[Unevicted]:
    """Return who would have to go for a pod as of ``waiting_pod``, or for a gang as ``decide_gang`` asked for it."""
    if isinstance(wanted, Gang) and not wanted.starts:
        return Refusal(wanted.key, Unevicted(never=_STARTED))
    if any(demand.key not in state.pods for demand in _demands_of(wanted)):
        return Refusal(wanted.key, Unevicted(never=_IN_PARTS))
    return _preemption(state, wanted, occupancy)


def _preemption(state: State, wanted: PodDemand | Gang, occupancy: Occupancy) -> Preemption | Refusal[Unevicted]:
    """Return who has to go, or why nobody does. The quotas of their namespace may forbid to have others evicted."""
    if not _are_published(state, wanted):
        return Refusal(wanted.key, Unevicted(never=_UNPUBLISHED, unpublished=True))
    demands = _demands_of(wanted)
    others = any(demand.other_drivers_claims for demand in demands)
    with hold_expected_foreign_use(state, [demand.key for demand in demands]) if others else nullcontext():
        answer = preempt(wanted, occupancy, state.cluster)
    if isinstance(answer, Refusal):
        return answer
    given = [allocation for one in _kept_for(state, wanted, answer.placements) for allocation in one.given]
    named = (wanted.key, f"gang {wanted.key}") if isinstance(wanted, Gang) else ()
    over = quota_wait(state, wanted.key.partition("/")[0], given, *named)
    return Refusal(wanted.key, Unevicted(never=_OVER_QUOTA, over_quota=over)) if over else answer


def _are_published(state: State, wanted: PodDemand | Gang) -> bool:
    """Return whether there are devices, in use or not, for the claims of other drivers that are not allocated yet.

    If not, kube-scheduler most likely refuses every node. A pod may be placed all the same, as that costs nobody
    anything (``NeedsDevices.other_drivers_claims``); but nobody is evicted for it.
    """
    return all(state.devices.publishes(record.claim) for record in _of_other_drivers(state, wanted))


def _of_other_drivers(state: State, wanted: PodDemand | Gang) -> Iterable[ClaimRecord]:
    pods = [state.pods[demand.key] for demand in _demands_of(wanted) if demand.key in state.pods]
    claims = dict.fromkeys(key for pod in pods for key in pod.claim_keys if key in state.claims)
    return split_by_driver(state, [state.claims[key] for key in claims]).others


def _is_free_to_move(state: State, gang: Gang) -> bool:
    """Return whether the gang has not started, and all of its members exist and wait at our gate."""
    keys = [*(member.demand.key for member in gang.members), *(one.pod for one in gang.standing)]
    pods = map(state.pods.get, keys)
    return gang.starts and all(pod is not None and state.names.gate in pod.gates for pod in pods)


def _kept_for(state: State, wanted: PodDemand | Gang, placements: Sequence[Placement]) -> Sequence[KeptPlace]:
    """Return what is kept for each pod. The first of the members that share a claim has it for all of them."""
    demands = {demand.key: demand for demand in _demands_of(wanted)}
    priority, given, kept = min(demand.needs.priority for demand in demands.values()), set[str](), []
    for placement in placements:
        pairs = zip(demands[placement.pod].claims, placement.allocations, strict=True)
        own = tuple((claim, allocation) for claim, allocation in pairs if claim.uid not in given)
        given.update(claim.uid for claim, _ in own)
        pod = state.pods.get(placement.pod)
        kept.append(KeptPlace(placement.pod, pod.uid if pod else "", placement.node, priority, own))
    return kept


def wait_for_ends(decision: MakeRoom) -> Wait:
    """Return what a pod is told for whose place nobody is evicted."""
    ended = "1 pod has ended" if len(decision.awaited) == 1 else f"{len(decision.awaited)} pods have ended"
    return Wait(Reason.UNALLOCATABLE, f"gets its place on node {decision.place.node} when {ended}")


# The plan


def preempt(
    wanted: PodDemand | Gang, occupancy: Occupancy, cluster: Cluster, trials: int | None = None
) -> Preemption | Refusal[Unevicted]:
    """Decide which pods have to go so that a pod or gang has its places, or why none of them can.

    A way without victims comes first: room as it is, then room that pods leave which are being deleted. Sets of victims
    compare by the highest priority (lower is better), the cards that are lost, the number of pods, and the ages (the
    oldest pod of the set counts first, younger is better). Only pods of lower priority go: lower than that of every
    member of a gang. The same input gives the same answer. Meanwhile no event may reach the cluster.

    Args:
        wanted: a pod, or a gang with members to place.
        occupancy: whoever has a place. Pods that are not in it stay, whatever their priority.
        trials: bounds the search; None for the usual number.
    """
    # Nobody goes if there is a place: what is kept for others may have been opened since the pod was refused.
    found = _places(wanted, cluster)
    if isinstance(found, tuple):
        return Preemption(found)
    if found.faults:
        return Refusal(wanted.key, Unevicted(), found.faults)
    demands = _demands_of(wanted)
    needs = [one.needs for one in demands]
    bonds = Bonds(occupancy, min(one.priority for one in needs), _spared(wanted, needs, occupancy, cluster.nodes))
    with cluster.what_if() as trial:
        # Those on nodes that the pods may not use make no room, unless nodes share devices.
        every = cluster.devices.shares_devices
        going = [one for one in bonds.going if every or any(demand.allows(one.node) for demand in demands)]
        bonds.end(trial, [one.uid for one in going])
        # To wait for those who end anyway costs nobody anything, so it comes before any eviction, however good
        # (test_a_pod_that_is_going_counts_as_gone).
        found = _places(wanted, cluster) if bonds.going else found
        if isinstance(found, tuple):
            return Preemption(found, awaited=_awaited(found, bonds))
        if not all(one.preempts for one in needs):
            return Refusal(wanted.key, Unevicted(never="its preemptionPolicy is Never"))
        prices = Prices(cluster.devices, bonds)
        if isinstance(wanted, Gang):
            most = min(_GANG_TRIALS, max(_LEAST_TRIALS, _GANG_NODES // max(1, len(cluster.nodes))))
            limit = Trials(most if trials is None else trials, is_strict=True)
            answer = victims_for_gang(wanted, Market(cluster, bonds, prices, limit))
        else:
            limit = Trials(_TRIALS if trials is None else trials)
            answer = victims_for_pod(wanted, occupancy, Market(cluster, bonds, prices, limit))
    if not answer.placements:
        kept = tuple(bonds.kept(answer.forbidden))
        return Refusal(wanted.key, Unevicted(kept, answer.in_vain, decided=answer.proven))
    freed = {claim.key for claim in bonds.freed(answer.victims)}
    return Preemption(
        answer.placements,
        tuple(_victim(bonds.holders[uid], freed) for uid in answer.victims),
        _awaited(answer.placements, bonds),
        answer.proven,
    )


def _demands_of(wanted: PodDemand | Gang) -> Sequence[PodDemand]:
    """Return what each pod asks for: the members of the gang that are to be placed, or the pod."""
    return [member.demand for member in wanted.members] if isinstance(wanted, Gang) else [wanted]


def _places(
    wanted: PodDemand | Gang, cluster: Cluster
) -> tuple[Placement, ...] | Refusal[TriedDomains] | Refusal[None]:
    """Return places without victims, or why there are none."""
    if isinstance(wanted, Gang):
        answer = choose(wanted, cluster)
        return answer.placements if isinstance(answer, GangPlan) else answer
    found = find_place(wanted, cluster.devices, cluster.nodes)
    return (found,) if isinstance(found, Placement) else found


def _spared(wanted: PodDemand | Gang, needs: Sequence[Needs], occupancy: Occupancy, nodes: Nodes) -> Mapping[str, str]:
    """Return the pods that never go for it, and why: its own, and pods that it has to be beside."""
    if isinstance(wanted, Gang):
        own = [*(member.demand.key for member in wanted.members), *(one.pod for one in wanted.standing)]
        spared = dict.fromkeys(own, "are members of the gang itself")
    else:
        spared = {wanted.key: "are the pod itself"}
    for term in dict.fromkeys(term for one in needs for term in one.pod_affinity):
        for holder in occupancy.holders:
            its = nodes.view(holder.node).holds(holder.pod)
            if its is not None and nodes.pods.selects((term.pods,), its.pod):
                spared.setdefault(holder.pod, "are selected by its affinity to pods")
    return spared


def _awaited(placements: Sequence[Placement], bonds: Bonds) -> tuple[Victim, ...]:
    on = {placement.node for placement in placements}
    freed = {claim.key for claim in bonds.freed([holder.uid for holder in bonds.going])}
    return tuple(_victim(holder, freed) for holder in bonds.going if holder.node in on)


def _victim(holder: Holder, freed: Collection[str]) -> Victim:
    claims = tuple(claim.key for claim in holder.claims if claim.key in freed)
    return Victim(
        pod=holder.pod, uid=holder.uid, node=holder.node, priority=holder.priority, claims=claims, gang=holder.gang
    )
