"""Decides about one pod. Pure.

How a pod is kept on its node
    An allocation names its one node, and kube-scheduler binds a pod only where all its allocations can be reached. That
    pins the pod. Its own node affinity stays as its author wrote it: it cannot be changed once the gate is removed, so
    a pod pinned by it could not be moved when kube-scheduler finds it unschedulable there (a volume in another zone,
    pod anti-affinity, a node that died meanwhile). Two other means have the effects of affinity:
    kube-scheduler tries ``status.nominatedNodeName`` before any other node and keeps its CPU and memory for the pod,
    and the admission policy lets only this controller and the resource-claim-controller clear an allocation.

How an allocation is taken back
    From a gated pod in one write, because it cannot be bound meanwhile. From a pod that kube-scheduler may be binding
    at this moment in two writes: the first drops its reservation. From then on kube-scheduler has to write the claim
    before it binds. The second is made only to a version in which nothing is reserved, and fails if there is a newer
    one; a reservation that was made again starts the procedure over. Before anything is cleared, the pod is read once
    more. Two kinds of claims are never touched: those reserved for other consumers, and those that are allocated on the
    node that the pod is bound to.

    A bind itself carries no version of the claims. So kube-scheduler binds the pod nevertheless if the reservation that
    it saw is older than its release. No pause between the two steps excludes that, because its cache may be of any age.
    The kubelet does not start such a pod. Its devices on another node are taken back, and it gets devices
    on its node as soon as these are free, and is told so meanwhile.

Everything is derived from the objects, so a controller that died between two writes is continued by the next one: the
gate of a gated pod whose claims are all allocated is removed; if only some of its claims are allocated, the rest is
allocated on that node, or the allocations are undone.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final

from controller.allocation import NodeReasons
from controller.placement import Placed, Placement, PodDemand, find_place
from controller.reconcile.claims import double_use
from controller.reconcile.decisions import (
    Decision,
    Idle,
    LetGo,
    PlacePod,
    PodQuestion,
    Reason,
    Release,
    TakeBack,
    Wait,
)
from controller.reconcile.demand import (
    ANY_NODE,
    HasDevices,
    NeedsDevices,
    NodeRestrictions,
    demand_of,
    quota_wait,
    reachable_nodes,
)
from controller.reconcile.history import NO_HISTORY, PATIENCE_SECONDS, PlacementHistory, relevant_reason
from controller.reconcile.lettinggo import (
    as_expected,
    bound_by_nobody,
    finish,
    full,
    hold_expected_foreign_use,
    resting,
    unknown_scheduler,
    unusable,
)
from controller.reconcile.podclaims import (
    ClaimsByDriver,
    aligned_records,
    claims_of,
    combine,
    exclusive,
    faults_of,
    measured_by_driver,
    node_of,
    said_by_kube_scheduler,
    unreserved,
)
from controller.refusal import AskedInVain, Refusal
from controller.state import NEVER, ClaimRecord, PodView, State
from driver.limits import listed

NOT_ASKED_YET: Final = AskedInVain(1)
"""For a decision on its own. Nobody fills it."""
MOST_SHAPES: Final = 64
"""Most shapes of pods of which it is remembered that every node refused them."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The limits that other pods and earlier decisions set to a decision about a pod or gang."""

    restrictions: NodeRestrictions = ANY_NODE
    """The nodes that are held back from the pod, or tried last."""
    in_vain: AskedInVain = NOT_ASKED_YET
    """The shapes of pods that every node refused, as of ``Nodes.generation``."""
    max_wait: float = 60
    """Most seconds that kube-scheduler gets to bind a pod."""


NO_CONTEXT: Final = DecisionContext()


def decide(
    state: State,
    key: str,
    now: float,
    history: PlacementHistory = NO_HISTORY,
    context: DecisionContext = NO_CONTEXT,
) -> Decision:
    """Decide about the pod ``key`` (namespace/name) at ``now`` (as of ``State.at``). Changes no argument.

    Args:
        history: the nodes that refused the pod before.
    """
    match examine(state, key, now, history, context.max_wait):
        case NeedsDevices() as pod:
            return allocate(state, pod, now, history, context)
        case HasDevices() as pod:
            return finish(state, pod)
        case decision:
            return decision


def examine(
    state: State, key: str, now: float, history: PlacementHistory, max_wait: float, *, in_gang: bool = False
) -> Decision | NeedsDevices | HasDevices:
    """Return the pod as one that is about to be placed, or another decision about it. Arguments as of ``decide``.

    Args:
        in_gang: whether the pod needs a node even if it has no claims of ours, because it starts together with others.
    """
    pod = state.pods.get(key)
    if pod is None or pod.terminal or pod.deleting:
        return Idle()
    gated = state.names.gate in pod.gates
    records, missing = claims_of(state, pod, now)
    by_driver = measured_by_driver(state, records)
    if isinstance(by_driver, Wait):
        return by_driver
    ours, problems = by_driver.ours, [*missing, *by_driver.problems]
    # Claims of a pod that was let go may be ours although their class is gone.
    unclear = (problems or in_gang) if gated else (pod.allocated is not None and by_driver.problems)
    if not ours and not unclear:
        return _without_devices(pod, now, history, gated=gated)
    if others := [gate for gate in pod.gates if gate != state.names.gate]:
        message = f"the pod has scheduling gates of others: {', '.join(others)}; whoever added them has to remove them"
        return Wait(Reason.OTHER_GATES, message, report=False)
    if gated and ours and (foreign := unknown_scheduler(state, pod, ours)):
        return foreign
    if pod.node_name and (settled := _bound(state, pod, ours, in_gang)):
        return settled
    problems += faults_of(state, ours)
    problems += [Wait(Reason.GANG_INVALID, f"{fault.field}: {fault.message}") for fault in state.gangs.faults(key)]
    if problems:
        wait = combine(problems)
        may_be_others = gated and not ours and all(one.reason is Reason.UNKNOWN_CLASS for one in problems)
        return replace(wait, unschedulable=said_by_kube_scheduler(state, records)) if may_be_others else wait
    if not pod.node_name and (given_back := _give_back(state, pod, ours, now, history)):
        return given_back
    if refused := _refused(state, pod, ours, now, history):
        return refused
    found = _at_our_gate(state, pod, records, by_driver, now=now, history=history)
    return found or _let_go(state, pod, ours, now, history=history, max_wait=max_wait)


def _at_our_gate(
    state: State,
    pod: PodView,
    records: Sequence[ClaimRecord],
    by_driver: ClaimsByDriver,
    now: float,
    history: PlacementHistory,
) -> NeedsDevices | HasDevices | TakeBack | Wait | None:
    """Return the pod as one that is about to be placed, or what has to come first; None if it was let go."""
    ours, gated = by_driver.ours, state.names.gate in pod.gates
    unallocated = aligned_records(state, pod, [record for record in ours if record.claim.allocation is None])
    if isinstance(unallocated, Wait):
        return unallocated
    if ours and not unallocated and not gated:
        return None
    allocated = [record for record in ours if record.claim.allocation is not None]
    if not pod.node_name and (moved := unusable(state, pod, allocated)):
        return moved
    if not unallocated and gated and ours:
        return HasDevices(pod, ours)
    if not pod.node_name and (rest := resting(state, pod, now, history)):
        return rest
    expected = as_expected(state, pod, records) if by_driver.others else records
    still_open = tuple(record for record in by_driver.others if record in expected)
    needed = NeedsDevices(pod, tuple(expected), unallocated, still_open)
    return full(state, unreserved(state, allocated, pod)) or needed


def _let_go(
    state: State, pod: PodView, ours: Sequence[ClaimRecord], now: float, *, history: PlacementHistory, max_wait: float
) -> Decision:
    """Decide about a pod without our gate that has all its devices, and is not bound."""
    if pod.unschedulable:
        return _unschedulable(state, pod, ours, now, history=history, max_wait=max_wait)
    if _says_that_it_waits(pod):
        return PlacePod(node_of(ours))
    return bound_by_nobody(state, pod, ours, now, history)


def _says_that_it_waits(pod: PodView) -> bool:
    """Return whether our condition on the pod says that it waits for devices."""
    return pod.allocated is not None and pod.allocated.status != "True"


def _without_devices(pod: PodView, now: float, history: PlacementHistory, *, gated: bool) -> Decision:
    """Let a pod go that needs no devices of ours, or end a condition that is left on one that was let go."""
    if not gated and not _says_that_it_waits(pod):
        return Idle()
    if history.unwritten is not None and now < history.written_again:
        return replace(history.unwritten, after=history.written_again - now)
    return LetGo()


def _bound(state: State, pod: PodView, ours: Sequence[ClaimRecord], in_gang: bool) -> Decision | None:
    """Decide about a pod on a node; None if it lacks devices there."""
    if held_elsewhere := _bound_elsewhere(state, pod, ours, in_gang):
        return held_elsewhere
    if not all(record.claim.allocation for record in ours):
        return None
    return PlacePod(node_of(ours)) if ours and _says_that_it_waits(pod) else Idle()


def _bound_elsewhere(state: State, pod: PodView, ours: Sequence[ClaimRecord], in_gang: bool) -> TakeBack | Wait | None:
    """Take back the devices that a bound pod holds alone on another node, where it cannot use them.

    It gets devices on its own node afterwards. A member of a gang does not: the others were placed beside these
    devices, and its own node may be outside of their domain.
    """
    elsewhere = [record for record in ours if node_of([record]) not in ("", pod.node_name)]
    if not elsewhere:
        return None
    if not in_gang and (own := exclusive(state, elsewhere, pod)):
        message = f"the pod is bound to node {pod.node_name}"
        return TakeBack(tuple(record.claim.key for record in own), node_of(own), message)
    keys = tuple(record.claim.key for record in elsewhere)
    message = (
        f"the pod is bound to node {pod.node_name}, but its devices are on node {node_of(elsewhere)}: ResourceClaim "
        f"{', '.join(keys)}; delete the pod, so that another one is placed there"
    )
    return Wait(Reason.BOUND_WITHOUT_DEVICES, message, keys)


def _give_back(
    state: State, pod: PodView, ours: Sequence[ClaimRecord], now: float, history: PlacementHistory
) -> Decision | None:
    """Take back devices that older claims hold, too, unless other pods use the claims as well."""
    found = [double for record in ours if (double := double_use(state, record.claim.key))]
    records = [state.claims[double.claim] for double in found]
    if not found or len(exclusive(state, records, pod)) < len(records):
        return None
    keys, node, message = tuple(double.claim for double in found), node_of(records), found[0].message(found[0].claim)
    remaining = max(double.settled_at for double in found) - now
    if remaining > 0:
        return Wait(Reason.DOUBLE_USE, message, report=False, after=remaining)
    if first := _before_taking_back(state, pod, records, now, history=history, wait=Wait(Reason.DOUBLE_USE, message)):
        return first
    return TakeBack(keys, node, message)


def _before_taking_back(
    state: State, pod: PodView, records: Sequence[ClaimRecord], now: float, history: PlacementHistory, wait: Wait
) -> Release | Wait | None:
    """Return what comes before these claims of the pod are cleared; None if nothing does, as for a gated pod.

    kube-scheduler may be binding a pod without gates: as in ``_unschedulable``, its reservations are dropped first.

    Args:
        wait: says what the pod waits for meanwhile.
    """
    if state.names.gate in pod.gates:
        return None
    if history.released is None or any(record.claim.reserved_for for record in records):
        return Release(tuple(record.claim.key for record in records), node_of(records))
    remaining = history.until_visible(now)
    return replace(wait, report=False, after=remaining) if remaining > 0 else None


def _refused(
    state: State, pod: PodView, ours: Sequence[ClaimRecord], now: float, history: PlacementHistory
) -> Decision | None:
    """Take back the pod's devices after the API server refused a write of its placement, or wait."""
    wait = history.unwritten
    if wait is None:
        return None
    own = exclusive(state, (record for record in ours if state.holds_ours(record.claim)), pod)
    if own and not pod.node_name and not history.keeps:
        if first := _before_taking_back(state, pod, own, now, history=history, wait=wait):
            return first
        return TakeBack(tuple(record.claim.key for record in own), node_of(own), wait.message)
    return replace(wait, after=history.written_again - now) if now < history.written_again else None


def allocate(
    state: State, found: NeedsDevices, now: float, history: PlacementHistory, context: DecisionContext
) -> Decision:
    """Find a node and devices for the pod, or decide that it waits. Arguments as of ``decide``."""
    pod, other_drivers_claims, restrictions = found.pod, found.other_drivers_claims(state), context.restrictions
    needed = (*found.unallocated, *other_drivers_claims)
    reachable, held = reachable_nodes(state, found.records), restrictions.held_from(pod.key)
    reachable = restrictions.limit(pod.key, reachable)
    refused = found.refused(state, history, now)
    # Without these, the answer is the same for every pod of the shape.
    own_answer = reachable is not None or bool(pod.node_name or refused)
    unconstrained = not own_answer and not held
    shape = found.shape(state)
    answer: Placement | Refusal[None] = Refusal(pod.key, None)
    if not (unconstrained and context.in_vain.holds(shape, state.nodes.generation)):
        demand = _demand(
            found,
            other_drivers_claims,
            reachable=reachable,
            refused=refused,
            history=history,
            restrictions=restrictions,
        )
        with hold_expected_foreign_use(state, [pod.key]) if other_drivers_claims else nullcontext():
            answer = find_place(demand, state.devices, state.nodes)
    if isinstance(answer, Placement):
        # Others of the shape may get other devices where the nodes differ that they can go to.
        group = shape, pod.limit_seconds, pod.key if own_answer else ""
        over = quota_wait(state, pod.namespace, answer.allocations, group)
        if over is None:
            return place(state, found, answer)
        message = f"the pod's other claims cannot be allocated: {over.message}"
        return _taken_back(state, found, message, now, history) or over
    if answer.faults:
        faulty = dict.fromkeys(fault.key for fault in answer.faults)
        return Wait(Reason.INVALID_CLAIM, listed([str(fault) for fault in answer.faults]), tuple(faulty))
    if taken_back := _taken_back(state, found, "the pod's other claims cannot be allocated there", now, history):
        return taken_back
    after = max(0.0, history.last_resort_at - now) if refused else None
    question = PodQuestion(
        tuple(record.claim.key for record in needed),
        shape=shape,
        by_every_node=unconstrained,
        own=pod.key if own_answer else "",
        refused=refused,
        held=held,
        bound_to=pod.node_name,
        tied_by=found.tied_by(),
    )
    return Refusal(pod.key, question, after=after)


def _taken_back(
    state: State, found: NeedsDevices, message: str, now: float, history: PlacementHistory
) -> TakeBack | Release | Wait | None:
    """Take back the devices that an unbound pod holds alone while its other claims have none; None if it holds none."""
    own = exclusive(state, found.held(state), found.pod)
    if not own or found.pod.node_name:
        return None
    if first := _before_taking_back(state, found.pod, own, now, history=history, wait=Wait(Reason.REFUSED, message)):
        return first
    return TakeBack(tuple(record.claim.key for record in own), node_of(own), message)


def question_about(
    state: State, found: NeedsDevices, now: float, history: PlacementHistory, restrictions: NodeRestrictions
) -> PodDemand:
    """Return the demand of a pod that needs a node. Arguments as of ``decide``."""
    return _demand(
        found,
        found.other_drivers_claims(state),
        reachable=restrictions.limit(found.pod.key, reachable_nodes(state, found.records)),
        refused=found.refused(state, history, now),
        history=history,
        restrictions=restrictions,
    )


def _demand(
    found: NeedsDevices,
    others: Sequence[ClaimRecord],
    *,
    reachable: Collection[str] | None,
    refused: Mapping[str, NodeReasons],
    history: PlacementHistory,
    restrictions: NodeRestrictions,
) -> PodDemand:
    claims, others_claims = [[record.claim for record in some] for some in (found.unallocated, others)]
    return demand_of(
        found.pod,
        claims,
        reachable,
        other_drivers_claims=others_claims,
        avoid={**refused, **restrictions.held_from(found.pod.key)},
        last=(*restrictions.retried, *history.refused),
    )


def place(state: State, found: NeedsDevices, placed: Placed) -> PlacePod:
    """Return the decision that gives the pod the chosen node and devices."""
    chosen = [result.device.driver for one in placed.allocations for result in one.results]
    assert all(map(state.names.allocates, chosen)), f"devices of other drivers chosen for {found.pod.key}: {chosen}"
    keys = (record.claim.key for record in found.unallocated)
    allocations = tuple(zip(keys, placed.allocations, strict=True))
    reserve = unreserved(state, found.held(state), found.pod)
    return PlacePod(
        placed.node,
        allocations,
        reserve,
        shape=found.shape(state),
        outdates_verdict=bool(found.pod.unschedulable),
        revision=state.revision_of(placed.node, found.pod.needs),
    )


def _unschedulable(
    state: State, pod: PodView, ours: Sequence[ClaimRecord], now: float, *, history: PlacementHistory, max_wait: float
) -> Decision:
    """Decide about a pod that kube-scheduler does not bind on the node of its claims."""
    own = exclusive(state, ours, pod)
    if len(own) < len(ours):
        message = (
            f"kube-scheduler refuses the pod on the node of its claims: {relevant_reason(pod.unschedulable)}; other "
            "consumers use the claims, so they stay there"
        )
        return Wait(Reason.REFUSED, message)
    keys, node = tuple(record.claim.key for record in own), node_of(own)
    if victims := state.pods.preempted_on(node, pod.priority):
        message = f"kube-scheduler makes room on node {node}: it waits for the end of {len(victims)} pods"
        return Wait(Reason.PREEMPTING, message, report=False, after=PATIENCE_SECONDS)
    refusal = f"kube-scheduler refuses the pod on node {node}: {relevant_reason(pod.unschedulable)}"
    if history.preempting:
        # The last of these pods has ended just now, and kube-scheduler tries the pod again.
        return Wait(Reason.REFUSED, refusal, report=False, after=history.patience(max_wait))
    allocations = (record.claim.allocation for record in ours)
    since = max((state.at(allocation.timestamp) for allocation in allocations if allocation), default=NEVER)
    # kube-scheduler that reserved the claims again after a release is binding the pod, and gets as long as before.
    since = max(since, history.spared, NEVER if history.released is None else history.released)
    reserved = any(record.claim.reserved_for for record in own)
    if reserved or history.released is None:
        remaining = since + history.patience(max_wait) - now
        if remaining > 0:
            return Wait(Reason.REFUSED, refusal, report=False, after=remaining)
        return Release(keys, node)
    if (remaining := history.until_visible(now)) > 0:
        return Wait(Reason.REFUSED, refusal, report=False, after=remaining)
    message = f"kube-scheduler refuses the pod there: {relevant_reason(pod.unschedulable)}"
    return TakeBack(
        keys,
        node,
        message,
        unschedulable=True,
        verdict=pod.unschedulable,
        revision=state.revision_of(node, pod.needs),
    )
