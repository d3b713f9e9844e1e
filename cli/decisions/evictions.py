"""Who would be evicted for a pod or gang that waits, where preemption is on; nothing is evicted."""

from collections.abc import Iterable

from controller.gangs import Gang
from controller.preemption import (
    Preemption,
    Unevicted,
    occupancy_of,
    preemption_for,
    render,
    waiting_pod,
)
from controller.reconcile import DecisionContext, PlacementHistory
from controller.reconcile.decisions import Victim
from controller.refusal import Refusal
from controller.state import PodView, State
from driver.wire import Json

Answer = Preemption | Refusal[Unevicted]


def for_pod(
    state: State, pod: PodView, now: float, seen: float, history: PlacementHistory, context: DecisionContext
) -> Answer | None:
    """Return who would go for a pod that no node takes; None if it does not wait for devices.

    Args:
        now: as of ``decide``.
        seen: when the pods that are being deleted were seen (seconds since the epoch).
    """
    if none_lower := _none_lower(state, pod.key, pod.priority):
        return none_lower
    wanted = waiting_pod(state, pod.key, now, history, context)
    return None if wanted is None else preemption_for(state, wanted, occupancy_of(state, seen))


def for_gang(state: State, gang: Gang, seen: float) -> Answer:
    """Return who would go for a gang that no domain takes. Arguments as of ``for_pod``."""
    priority = min(member.demand.needs.priority for member in gang.members)
    return _none_lower(state, gang.key, priority) or preemption_for(state, gang, occupancy_of(state, seen))


def asks(state: State, priority: int) -> bool:
    """Return whether anybody has a priority, so that a pod with this one may want to know."""
    return priority > 0 or state.nodes.pods.has_below(priority)


def _none_lower(state: State, subject: str, priority: int) -> Refusal[Unevicted] | None:
    if not state.budgets.readable:
        return Refusal(subject, Unevicted(never="PodDisruptionBudgets may not be read, which say who may go"))
    if state.nodes.pods.has_below(priority):
        return None
    return Refusal(subject, Unevicted(never="no pod has a lower priority"))


def text_of(answer: Answer) -> str:
    """Return one line for people; "" if there is nothing to say."""
    said = render(answer)
    return f"Where preemption is on: {said}" if said else ""


def to_json(answer: Answer) -> Json:
    """Return the answer with the keys of docs/simulate.md."""
    if isinstance(answer, Refusal):
        why = answer.why
        kept = [{"reason": one.reason, "pods": one.pods, "some": list(one.some)} for one in why.kept]
        never = {"never": why.never} if why.never else {}
        return {"victims": [], "kept": kept, "inVain": why.in_vain, "decided": why.decided, **never}
    return {
        "victims": _pods(answer.victims),
        "awaited": _pods(answer.awaited),
        "nodes": list(dict.fromkeys(placement.node for placement in answer.placements)),
        "decided": answer.least,
    }


def _pods(some: Iterable[Victim]) -> list[Json]:
    return [
        {
            "namespace": one.pod.partition("/")[0],
            "name": one.pod.partition("/")[2],
            "node": one.node,
            "priority": one.priority,
            "claims": list(one.claims),
        }
        for one in some
    ]
