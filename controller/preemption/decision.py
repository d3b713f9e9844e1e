"""Decides whom to evict for pods that no node takes."""

from collections.abc import Collection, Mapping, Sequence

from controller.allocation import Fleet
from controller.placement import Nodes, Placement, Plan, PodDemand, plan
from controller.preemption.bonds import Bonds
from controller.preemption.for_pod import victims_for_pod
from controller.preemption.least_set import Trials
from controller.preemption.price import Prices
from controller.preemption.vacating import Vacating
from controller.preemption.values import Holder, NoPreemption, Occupancy, Preemption, Victim
from controller.preemption.victim_search import Market

TRIALS = 1000
"""Most trials of one decision: with whom gone is there room?"""


def preempt(
    pod: PodDemand, occupancy: Occupancy, fleet: Fleet, nodes: Nodes, trials: int = TRIALS
) -> Preemption | NoPreemption:
    """Decide which pods have to go so that the pod has a place, or why none of them can.

    A way without victims comes first: room as it is, then room that pods leave which are being deleted. Sets of victims
    compare by the highest priority (lower is better), the cards that are lost, the number of pods, and the ages (the
    oldest pod of the set counts first, younger is better). Only pods of lower priority go. The same input gives the
    same answer. Fleet and nodes are unchanged afterwards; meanwhile no event may reach them.

    Args:
        occupancy: whoever has a place. Pods that are not in it stay, whatever their priority.
        trials: bounds the search. It does not bound the first look at each node, which is cheap.
    """
    found = plan([pod], fleet, nodes)
    if isinstance(found, Plan):
        return Preemption(found.placements)
    if found.faults:
        return NoPreemption(faults=found.faults)
    bonds = Bonds(occupancy, pod.needs.priority, _spared(pod, occupancy, nodes))
    vacating = Vacating(fleet, nodes, bonds)
    with vacating.going():
        found = plan([pod], fleet, nodes) if bonds.going else found
        if isinstance(found, Plan):
            return Preemption(found.placements, awaited=_awaited(found.placements, bonds))
        if not pod.needs.preempts:
            return NoPreemption(never="its preemptionPolicy is Never")
        market = Market(bonds, Prices(fleet, bonds), Trials(trials))
        answer = victims_for_pod(pod, market, vacating)
    if not answer.placements:
        return NoPreemption(tuple(bonds.kept(answer.forbidden)), answer.in_vain, decided=answer.proven)
    freed = {claim.key for claim in bonds.freed(answer.victims)}
    return Preemption(
        answer.placements,
        tuple(_victim(bonds.holders[uid], freed) for uid in answer.victims),
        _awaited(answer.placements, bonds),
        answer.proven,
    )


def _spared(pod: PodDemand, occupancy: Occupancy, nodes: Nodes) -> Mapping[str, str]:
    """Pods that are never victims for this pod, and why: itself, and pods that it has to be beside."""
    spared = {pod.key: "are the pod itself"}
    for term in pod.needs.pod_affinity:
        for holder in occupancy.holders:
            needs = nodes.view(holder.node).holds(holder.pod)
            if needs is not None and nodes.pods.selects((term.pods,), needs.pod):
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
