"""Decides whom to evict next for a pod that no node takes. Pure.

A plan is not kept. It is made anew before every eviction, on the node where room is kept for the pod, and pods that are
being deleted count as gone. So what others do meanwhile is taken into account, and a restart changes nothing.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from controller.placement import Placement
from controller.preemption import NoPreemption, Occupancy, Preemption, preempt
from controller.reconcile.context import NO_CONTEXT, DecisionContext
from controller.reconcile.decisions import MakeRoom, Reason
from controller.reconcile.examined import NeedsDevices
from controller.reconcile.expected import hold_expected_foreign_use
from controller.reconcile.history import NO_HISTORY, PlacementHistory
from controller.reconcile.occupancy import occupancy_of
from controller.reconcile.pods import examine, question_about
from controller.reconcile.quotas import quota_wait
from controller.state import PodView, Room, State

_OVER_QUOTA: Final = "a quota of its namespace leaves too little for these devices"


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Nobody is evicted for the pod: the reason, or None if it is not a matter of that."""

    why: NoPreemption | None = None


def make_room(
    state: State,
    key: str,
    now: float,
    history: PlacementHistory,
    context: DecisionContext,
    spared: Mapping[str, str],
) -> MakeRoom | NoRoom:
    """Return the next step to make room for the pod ``key``, or that nobody is evicted. Arguments as of ``decide``.

    Args:
        spared: as of ``occupancy_of``.
    """
    found = examine(state, key, now, history, context.max_wait)
    if not isinstance(found, NeedsDevices) or not is_free_to_move(state, found):
        return NoRoom()
    answer = _preemption(
        state, found, now, history=history, context=context, occupancy=occupancy_of(state, now, spared)
    )
    if isinstance(answer, NoPreemption):
        return NoRoom(answer)
    (placement,) = answer.placements
    return _step(answer, room_of(found.pod, placement, found))


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
    return _preemption(state, found, now, history=history, context=context, occupancy=occupancy)


def _preemption(
    state: State,
    found: NeedsDevices,
    now: float,
    history: PlacementHistory,
    context: DecisionContext,
    occupancy: Occupancy,
) -> Preemption | NoPreemption:
    demand = question_about(state, found, now, history, context.restrictions)
    others = demand.other_drivers_claims
    with hold_expected_foreign_use(state, [found.pod.key]) if others else nullcontext():
        answer = preempt(demand, occupancy, state.devices, state.nodes)
    if isinstance(answer, Preemption):
        (placement,) = answer.placements
        if quota_wait(state, found.pod.namespace, placement.allocations, found.pod.key):
            # Whoever may not have the devices preempts nobody.
            return NoPreemption(never=_OVER_QUOTA)
    return answer


def is_free_to_move(state: State, found: NeedsDevices) -> bool:
    """Return whether the pod waits at our gate without any devices yet."""
    return state.names.gate in found.pod.gates and not found.pod.node_name and not found.held(state)


def room_of(pod: PodView, placement: Placement, found: NeedsDevices) -> Room:
    """Return the room that the placement means for the pod."""
    claims = [record.claim for record in found.unallocated]
    return Room(pod.key, pod.uid, placement.node, tuple(zip(claims, placement.allocations, strict=True)))


def is_recorded(state: State, pod: PodView) -> bool:
    """Return whether the pod says itself that room is made for it, on the node that it is nominated for."""
    known, gated = pod.allocated, state.names.gate in pod.gates
    return gated and known is not None and (known.status, known.reason) == ("False", Reason.PREEMPTING.value)


def _step(answer: Preemption, room: Room) -> MakeRoom:
    victim = answer.victims[0] if answer.victims else None
    awaited = tuple(one.pod for one in answer.awaited)
    return MakeRoom(room, victim, awaited, tuple(one.pod for one in answer.victims))
