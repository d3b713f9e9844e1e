"""Decides whom to evict next for a pod that no node takes, or for a gang that no domain takes. Pure.

A plan is not kept. It is made anew before every eviction, on the node where room is kept for the pod, and pods that are
being deleted count as gone. So what others do meanwhile is taken into account, and a restart changes nothing. A gang
gets room for all members in one decision, and nobody is evicted before each of them says for which node it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final

from controller.gangs import Gang
from controller.placement import Placement
from controller.preemption.decision import preempt
from controller.preemption.occupancy import Occupancy
from controller.preemption.occupants import UNBOUND
from controller.preemption.values import NoPreemption, Preemption
from controller.reconcile.context import NO_CONTEXT, DecisionContext
from controller.reconcile.decisions import MakeRoom, Reason, Victim, Wait, is_recorded
from controller.reconcile.examined import NeedsDevices
from controller.reconcile.expected import hold_expected_foreign_use
from controller.reconcile.history import NO_HISTORY, PlacementHistory
from controller.reconcile.podclaims import split_by_driver
from controller.reconcile.pods import examine, question_about
from controller.reconcile.quotas import quota_wait
from controller.state import ClaimRecord, KeptRoom, State

_STARTED: Final = "it has started, and only a gang that has not preempts"
_IN_PARTS: Final = "members of it are made later"
_UNPUBLISHED: Final = "nobody publishes the devices that it asks for in claims of other drivers"
_OVER_QUOTA: Final = "a quota of its namespace leaves too little for these devices"


@dataclass(frozen=True, slots=True)
class NobodyToEvict:
    """Nobody is evicted for the pod or gang.

    Attributes:
        over_quota: why it waits, if the quotas of its namespace do not allow what it would get; None otherwise.
        unbound: whether pods of lower priority are about to be bound, so that there may be victims then.
        unpublished: whether it also asks for devices of other drivers that no slice has. Others of its shape may not.
    """

    over_quota: Wait | None = None
    unbound: bool = False
    unpublished: bool = False


def make_room(
    state: State,
    key: str,
    now: float,
    history: PlacementHistory,
    context: DecisionContext,
    occupancy: Occupancy,
) -> MakeRoom | NobodyToEvict:
    """Return the next step to make room for the pod ``key``, or that nobody is evicted. Arguments as of ``decide``."""
    found = examine(state, key, now, history, context.max_wait)
    if not isinstance(found, NeedsDevices) or not is_free_to_move(state, found):
        return NobodyToEvict()
    if not _are_published(state, found.others):
        return NobodyToEvict(unpublished=True)
    answer = _preemption(state, found, now, history=history, context=context, occupancy=occupancy)
    if not isinstance(answer, Preemption):
        return _no_room(answer, occupancy, found.pod.priority)
    (placement,) = answer.placements
    claims = [record.claim for record in found.unallocated]
    given = tuple(zip(claims, placement.allocations, strict=True))
    pod, said = found.pod, is_recorded(state, found.pod, placement.node)
    room = KeptRoom(
        pod=pod.key,
        uid=pod.uid,
        node=placement.node,
        priority=pod.priority,
        allocations=given,
        evicts=said or bool(answer.victims),
    )
    return _step(answer, room, answer.victims[0] if answer.victims else None)


def make_room_for_gang(state: State, gang: Gang, occupancy: Occupancy) -> Mapping[str, MakeRoom] | NobodyToEvict:
    """Return the next step to make room for a gang, for each member that gets a place; or that nobody is evicted.

    Args:
        gang: as ``decide_gang`` asked for it. It may still start, and all members that it lacks exist and are gated.
    """
    if not _is_gang_free_to_move(state, gang):
        return NobodyToEvict()
    if not _are_published(state, _others_of_gang(state, gang)):
        return NobodyToEvict(unpublished=True)
    answer = _preemption_for_gang(state, gang, occupancy)
    if not isinstance(answer, Preemption):
        return _no_room(answer, occupancy, min(member.demand.needs.priority for member in gang.members))
    rooms = _rooms_of_gang(state, gang, answer.placements)
    said = [is_recorded(state, state.pods[room.pod], room.node) for room in rooms]
    if not answer.victims and not any(said):
        rooms = [replace(room, evicts=False) for room in rooms]
    victim = answer.victims[0] if all(said) and answer.victims else None
    teller = next((room for room in rooms if victim is not None and room.node == victim.node), rooms[0])
    return {room.pod: _step(answer, room, victim if room is teller else None) for room in rooms}


def preemption_for(
    state: State,
    key: str,
    now: float,
    occupancy: Occupancy,
    history: PlacementHistory = NO_HISTORY,
    context: DecisionContext = NO_CONTEXT,
) -> Preemption | NoPreemption | None:
    """Return who would have to go for the pod ``key``; None if it does not wait for devices at our gate.

    Other arguments as of ``decide``.
    """
    found = examine(state, key, now, history, context.max_wait)
    if not isinstance(found, NeedsDevices) or not is_free_to_move(state, found):
        return None
    if not _are_published(state, found.others):
        return NoPreemption(never=_UNPUBLISHED)
    return _told(_preemption(state, found, now, history=history, context=context, occupancy=occupancy))


def preemption_for_gang(state: State, gang: Gang, occupancy: Occupancy) -> Preemption | NoPreemption:
    """Return who would have to go for the gang, as ``decide_gang`` asked for it."""
    if not gang.starts:
        return NoPreemption(never=_STARTED)
    if any(member.demand.key not in state.pods for member in gang.members):
        return NoPreemption(never=_IN_PARTS)
    if not _are_published(state, _others_of_gang(state, gang)):
        return NoPreemption(never=_UNPUBLISHED)
    return _told(_preemption_for_gang(state, gang, occupancy))


def _no_room(answer: NoPreemption | Wait, occupancy: Occupancy, priority: int) -> NobodyToEvict:
    if isinstance(answer, Wait):
        return NobodyToEvict(answer)
    return NobodyToEvict(unbound=any(one.kept == UNBOUND and one.priority < priority for one in occupancy.holders))


def _told(answer: Preemption | NoPreemption | Wait) -> Preemption | NoPreemption:
    return NoPreemption(never=_OVER_QUOTA) if isinstance(answer, Wait) else answer


def _preemption(
    state: State,
    found: NeedsDevices,
    now: float,
    history: PlacementHistory,
    context: DecisionContext,
    occupancy: Occupancy,
) -> Preemption | NoPreemption | Wait:
    """Return who has to go for the pod; or why it waits, if its quotas forbid it to have others evicted."""
    demand = question_about(state, found, now, history, context.restrictions)
    others = demand.other_drivers_claims
    with hold_expected_foreign_use(state, [found.pod.key]) if others else nullcontext():
        answer = preempt(demand, occupancy, state.cluster)
    if isinstance(answer, Preemption):
        (placement,) = answer.placements
        return quota_wait(state, found.pod.namespace, placement.allocations) or answer
    return answer


def _preemption_for_gang(state: State, gang: Gang, occupancy: Occupancy) -> Preemption | NoPreemption | Wait:
    demands = [member.demand for member in gang.members]
    others = any(demand.other_drivers_claims for demand in demands)
    with hold_expected_foreign_use(state, [demand.key for demand in demands]) if others else nullcontext():
        answer = preempt(gang, occupancy, state.cluster)
    if isinstance(answer, NoPreemption):
        return answer
    rooms = _rooms_of_gang(state, gang, answer.placements)
    given = [allocation for room in rooms for _, allocation in room.allocations]
    return quota_wait(state, gang.key.partition("/")[0], given, gang.key, f"gang {gang.key}") or answer


def _are_published(state: State, others: Iterable[ClaimRecord]) -> bool:
    """Return whether there are devices, in use or not, for these claims of other drivers.

    If not, kube-scheduler most likely refuses every node. A pod may be placed all the same, as that costs nobody
    anything (``NeedsDevices.other_drivers_claims``); but nobody is evicted for it.
    """
    return all(state.devices.publishes(record.claim) for record in others)


def _others_of_gang(state: State, gang: Gang) -> Sequence[ClaimRecord]:
    pods = [state.pods[member.demand.key] for member in gang.members if member.demand.key in state.pods]
    claims = dict.fromkeys(key for pod in pods for key in pod.claim_keys if key in state.claims)
    return split_by_driver(state, [state.claims[key] for key in claims]).others


def is_free_to_move(state: State, found: NeedsDevices) -> bool:
    """Return whether the pod waits at our gate without any devices yet."""
    return state.names.gate in found.pod.gates and not found.pod.node_name and not found.held(state)


def _is_gang_free_to_move(state: State, gang: Gang) -> bool:
    """Return whether the gang has not started, and all of its members exist and wait at our gate."""
    keys = [*(member.demand.key for member in gang.members), *(one.pod for one in gang.standing)]
    pods = map(state.pods.get, keys)
    return gang.starts and all(pod is not None and state.names.gate in pod.gates for pod in pods)


def _rooms_of_gang(state: State, gang: Gang, placements: Sequence[Placement]) -> Sequence[KeptRoom]:
    """Return the room of each member. The first of the members that share a claim has it for all of them."""
    demands = {member.demand.key: member.demand for member in gang.members}
    priority, given, rooms = min(demand.needs.priority for demand in demands.values()), set[str](), []
    for placement in placements:
        pairs = zip(demands[placement.pod].claims, placement.allocations, strict=True)
        own = tuple((claim, allocation) for claim, allocation in pairs if claim.uid not in given)
        given.update(claim.uid for claim, _ in own)
        pod = state.pods.get(placement.pod)
        rooms.append(KeptRoom(placement.pod, pod.uid if pod else "", placement.node, priority, own))
    return rooms


def wait_for_ends(decision: MakeRoom) -> Wait:
    """Return what a pod is told for whose room nobody is evicted."""
    ended = "1 pod has ended" if len(decision.awaited) == 1 else f"{len(decision.awaited)} pods have ended"
    return Wait(Reason.UNALLOCATABLE, f"gets its place on node {decision.room.node} when {ended}")


def _step(answer: Preemption, room: KeptRoom, victim: Victim | None) -> MakeRoom:
    awaited = tuple(one.pod for one in answer.awaited)
    party = answer.victims if victim is not None and len(answer.victims) > 1 else ()
    return MakeRoom(room, victim, awaited, tuple(one.pod for one in answer.victims), party)
