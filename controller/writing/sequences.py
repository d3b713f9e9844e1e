"""Turns a decision into a sequence of writes. Pure.

A placement: for each claim the finalizer and then the status, then the pod's condition with the nominated node, then
the annotations that containers of other systems read, then the gate. The gate comes last, so a pod without it has
everything.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from controller.allocation import small_amounts
from controller.reconcile.decisions import Allocate, ClaimUpdate, MakeRoom, PlacePod, Reason, Reserve, is_recorded
from controller.reconcile.othernames import named_within
from controller.state import PodView, Promise, State
from controller.writing.steps import (
    AddFinalizer,
    AnnotatePod,
    EvictPod,
    ExpectUnbound,
    PatchClaimStatus,
    PatchPodStatus,
    RemoveGate,
    Step,
    Target,
)
from driver.adoption import output_annotations
from driver.kube.api import PODS, RESOURCE_CLAIMS, Object
from driver.limits import bounded, listed
from driver.model import Claim
from driver.names import FINALIZER

_SCHEDULED: Final = "PodScheduled"
_UNSCHEDULABLE: Final = "Unschedulable"


def claim_target(claim: Claim) -> Target:
    """Return the claim in the version that is known, as a target."""
    return Target(RESOURCE_CLAIMS, claim.key, claim.uid, claim.resource_version)


def pod_target(pod: PodView, version: str = "") -> Target:
    """Return the pod as a target, in any version if none is given."""
    return Target(PODS, pod.key, pod.uid, version)


def claim_steps(state: State, updates: Iterable[ClaimUpdate]) -> Iterator[Step]:
    """Yield the writes of the updates that change anything; the finalizer of an allocation is a write of its own."""
    for update in updates:
        claim = state.claims[update.claim].claim
        patch = update.status_patch(claim)
        if not patch:
            continue
        target, allocation = claim_target(claim), None
        if isinstance(update, Allocate):
            allocation = update.allocation
            if FINALIZER not in claim.finalizers:
                yield AddFinalizer(target, (*claim.finalizers, FINALIZER))
        yield PatchClaimStatus(target, patch, allocation)


def promises_of(state: State, updates: Iterable[ClaimUpdate]) -> Mapping[str, Promise]:
    """Return the promises to claims, by key. Devices that are taken away count until that is written."""
    promises = {}
    for update in updates:
        if isinstance(update, Allocate | Reserve):
            allocation = update.allocation if isinstance(update, Allocate) else None
            consumers = update.consumers if isinstance(update, Allocate) else (update.consumer,)
            promises[update.claim] = Promise(state.claims[update.claim].claim.uid, consumers, allocation)
    return promises


def admit_steps(state: State, pod: PodView, decision: PlacePod, timestamp: str) -> Iterator[Step]:
    """Say that the pod has its devices, nominate the node, and remove our gate if the pod has it.

    kube-scheduler tries ``nominatedNodeName`` before all other nodes and keeps its CPU and memory for the pod.
    """
    node = decision.node
    reported = pod.allocated is not None and pod.allocated.status == "True"
    nominated = "" if pod.node_name else node
    if not reported or (nominated and nominated != pod.nominated):
        message = listed((f"on node {node}" if node else "reachable from every node", *_doubts(state, pod)))
        status: Object = {
            "conditions": [condition(state, pod, timestamp, status="True", reason="Allocated", message=message)]
        }
        if nominated:
            status["nominatedNodeName"] = nominated
        yield PatchPodStatus(pod_target(pod), status)
    if annotations := output_annotations(_devices(state, pod, decision)):
        yield AnnotatePod(pod_target(pod), annotations)
    yield from gate_steps(state, pod)


def _devices(state: State, pod: PodView, decision: PlacePod) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield the entry and the template of each claim from a template, and the names of its devices of ours."""
    decided = dict(decision.allocations)
    for reference in pod.references:
        key = f"{pod.namespace}/{reference.claim}"
        record = state.claims.get(key)
        allocation = decided.get(key) or (record.claim.allocation if record else None)
        if reference.template and allocation is not None:
            ours = [one.device.device for one in allocation.results if one.device.driver == state.names.driver]
            yield reference.entry, reference.template, ours


def _doubts(state: State, pod: PodView) -> Iterator[str]:
    """Yield warnings about amounts that the claims' author hardly means."""
    for key in pod.claim_keys:
        if record := state.claims.get(key):
            yield from (f"ResourceClaim {key}: {text}" for text in small_amounts(record.claim.spec))


def gate_steps(state: State, pod: PodView) -> Iterator[Step]:
    """Remove our gate if the pod has it."""
    gate = state.names.gate
    if gate in pod.gates:
        yield RemoveGate(pod_target(pod), gate, pod.gates.index(gate))


def let_go_steps(state: State, pod: PodView) -> Iterator[Step]:
    """Let a pod go that gets no devices of ours: remove our gate, and end what our condition says of its wait.

    The gate comes first: if its removal is refused, the pod goes on waiting and the condition says so.
    """
    yield from gate_steps(state, pod)
    if pod.allocated is not None:
        ended = {"type": state.condition_type, "$patch": "delete"}
        yield PatchPodStatus(pod_target(pod), {"conditions": [ended]})


def verdict_step(pod: PodView, timestamp: str) -> Step:
    """Mark kube-scheduler's message about the pod as older than the allocation that follows.

    The mark is ``lastProbeTime`` of the condition PodScheduled; ``PodView.unschedulable`` says how it works.
    """
    mark = {"type": _SCHEDULED, "lastProbeTime": timestamp}
    return PatchPodStatus(pod_target(pod), {"conditions": [mark]})


def withdraw_step(pod: PodView) -> Step:
    """Nominate no node any more: kube-scheduler keeps the CPU and memory of a nominated node from other pods."""
    return PatchPodStatus(pod_target(pod), {"nominatedNodeName": None})


def wish(message: str, timestamp: str) -> Object:
    """Return the condition by which a gated pod tells autoscalers that no node takes it (``PodView.wishes_node``).

    ``lastProbeTime`` keeps it from being taken for kube-scheduler's own (``PodView.unschedulable``), should somebody
    else remove the gate.
    """
    return {
        "type": _SCHEDULED,
        "status": "False",
        "reason": _UNSCHEDULABLE,
        "message": message,
        "lastTransitionTime": timestamp,
        "lastProbeTime": timestamp,
    }


def no_wish(timestamp: str) -> Object:
    """Return the same condition as the API server writes it for a pod with gates.

    The new time makes it another version of the pod, so that a wish that is still on its way is refused.
    """
    return {
        "type": _SCHEDULED,
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastTransitionTime": timestamp,
        "lastProbeTime": None,
    }


def end_wish_step(pod: PodView, timestamp: str) -> Step:
    """Ask for no node any more: before anything is allocated, because autoscalers would not count it."""
    return PatchPodStatus(pod_target(pod), {"conditions": [no_wish(timestamp)]})


def is_wish(step: Step) -> bool:
    """Return whether the step writes a ``wish``."""
    return any(one.get("reason") == _UNSCHEDULABLE for one in _scheduled(step))


def is_about_wish(step: Step) -> bool:
    """Return whether the step writes a ``wish``, or ends one."""
    return any(True for _ in _scheduled(step))


def _scheduled(step: Step) -> Iterator[Object]:
    conditions = (step.status.get("conditions") or ()) if isinstance(step, PatchPodStatus) else ()
    return (one for one in conditions if one["type"] == _SCHEDULED)


def making_room_steps(state: State, pod: PodView, decision: MakeRoom, timestamp: str) -> Iterator[Step]:
    """Say on the pod for which node others are evicted, and evict the next one.

    The pod is written, or read, before each eviction: nobody is evicted for a pod that is gone or was let go. Of
    several that have to go, nobody is evicted before the API server has said of each that it may be. Nothing is
    recorded where nobody is evicted: after a restart, the pod may have any other place as well.
    """
    if not decision.place.evicts:
        return
    node, gang = decision.place.node, state.gangs.gang_of(pod.key)
    if not is_recorded(state, pod, node):
        pods = (*decision.victims, *(key for key in decision.awaited if key not in decision.victims))
        where = f"gang {gang} makes room, for this member on node {node}" if gang else f"makes room on node {node}"
        named = listed(named_within(pods, {pod.namespace}, "pod"))
        said = bounded(f"{where}: {'1 pod has' if len(pods) == 1 else f'{len(pods)} pods have'} to end before: {named}")
        conditions = [condition(state, pod, timestamp, status="False", reason=Reason.PREEMPTING.value, message=said)]
        yield PatchPodStatus(pod_target(pod), {"conditions": conditions, "nominatedNodeName": node})
    elif decision.victim is not None:
        yield unbound_step(state, pod)
    for one in decision.party:
        yield EvictPod(Target(PODS, one.pod, one.uid), dry_run=True)
    if decision.victim is not None:
        yield EvictPod(Target(PODS, decision.victim.pod, decision.victim.uid))


def unbound_step(state: State, pod: PodView, *, silent: bool = False) -> Step:
    """Make sure that kube-scheduler is not binding the pod; before anything is taken from it.

    Args:
        silent: whether it is taken because nobody has bound the pod for long, nor refused it.
    """
    gate = state.names.gate
    return ExpectUnbound(pod_target(pod), gate if gate in pod.gates else "", silent)


def condition(state: State, pod: PodView, timestamp: str, *, status: str, reason: str, message: str) -> Object:
    """Return our condition on the pod (core/v1 PodCondition)."""
    before = pod.allocated
    since = before.since if before and before.status == status and before.since else timestamp
    opened = state.pods.openings.opened(pod)
    return {
        "type": state.condition_type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        **({"lastProbeTime": opened} if opened else {}),
    }
