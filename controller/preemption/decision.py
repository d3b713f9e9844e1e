"""Decides whom to evict for a pod that no node takes, or a gang that no domain takes. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from controller.cluster import Cluster
from controller.gangs import Gang, GangPlan, TriedDomains, choose
from controller.placement import Needs, Nodes, Placement, PodDemand, find_place
from controller.preemption.candidates import Bonds, Market, Prices
from controller.preemption.least_set import Trials
from controller.preemption.occupancy import Holder, Occupancy
from controller.preemption.values import Preemption, Unevicted
from controller.preemption.victim_search import victims_for_gang, victims_for_pod
from controller.reconcile.decisions import Victim
from controller.refusal import Refusal

TRIALS: Final = 1000
"""Most trials of one decision about a pod: with whom gone does a node take it?"""
GANG_TRIALS: Final = 64
"""The same about a gang, beyond those for the first answer: with whom gone does a domain take it?"""
_GANG_NODES: Final = 20_000
"""Most nodes that are looked at in these trials."""
_LEAST_TRIALS: Final = 8


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
        trials: bounds the search; None for ``TRIALS`` or ``GANG_TRIALS``.
    """
    # Nobody goes if there is a place: what is kept for others may have been opened since the pod was refused.
    found = _places(wanted, cluster)
    if isinstance(found, tuple):
        return Preemption(found)
    if found.faults:
        return Refusal(wanted.key, Unevicted(), found.faults)
    demands = demands_of(wanted)
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
            most = min(GANG_TRIALS, max(_LEAST_TRIALS, _GANG_NODES // max(1, len(cluster.nodes))))
            limit = Trials(most if trials is None else trials, is_strict=True)
            answer = victims_for_gang(wanted, Market(cluster, bonds, prices, limit))
        else:
            limit = Trials(TRIALS if trials is None else trials)
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


def demands_of(wanted: PodDemand | Gang) -> Sequence[PodDemand]:
    """What each pod asks for: the members of the gang that are to be placed, or the pod."""
    return [member.demand for member in wanted.members] if isinstance(wanted, Gang) else [wanted]


def _places(
    wanted: PodDemand | Gang, cluster: Cluster
) -> tuple[Placement, ...] | Refusal[TriedDomains] | Refusal[None]:
    """Places without victims, or why there are none."""
    if isinstance(wanted, Gang):
        answer = choose(wanted, cluster)
        return answer.placements if isinstance(answer, GangPlan) else answer
    found = find_place(wanted, cluster.devices, cluster.nodes)
    return (found,) if isinstance(found, Placement) else found


def _spared(wanted: PodDemand | Gang, needs: Sequence[Needs], occupancy: Occupancy, nodes: Nodes) -> Mapping[str, str]:
    """Pods that are never victims for this pod or gang, and why: itself, and pods that it has to be beside."""
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
