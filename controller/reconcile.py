"""What to do about one pod or one claim, from what is known and nothing else. Pure.

How a pod is held to its node
    An allocation names its one node, and kube-scheduler places a pod only where all its allocations can be reached.
    That is the pin. The pod's own node affinity is left as its author wrote it: once the gate is lifted it can never
    be changed again, so a pod pinned there could not be moved when kube-scheduler refuses it (a volume in another
    zone, pods it must keep away from, a node that died meanwhile). What the affinity would add is given otherwise:
    kube-scheduler tries ``status.nominatedNodeName`` before any other node and keeps its CPU and memory for the pod,
    and the admission policy lets nobody but this controller and the resource-claim-controller clear an allocation.

How an allocation is taken back
    From a gated pod in one write: it cannot be bound meanwhile. From a pod that kube-scheduler may be binding at this
    very moment in two: its reservation is dropped first. From then on kube-scheduler has to write the claim before it
    binds, and the second write, which carries the claim's version, fails if it did. A pod that was bound all the same
    gets its devices on that node. Never touched: a claim reserved for anybody else, or of a pod that is bound.

Everything is derived from the objects, so a controller that died between two writes is continued by the next one: a
gated pod whose claims are allocated is let go, one of which only some claims are is completed on that node or undone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from controller.allocation import Placed, Unsatisfiable, render
from controller.decisions import (
    ClaimDecision,
    Decision,
    Free,
    Idle,
    Lift,
    Past,
    Place,
    Release,
    TakeBack,
    Unallocatable,
    Wait,
)
from controller.placement import fits
from controller.pods import ClaimReference, PodView
from controller.records import ClaimRecord, NodeRefusal, Refusals
from controller.state import State
from driver.backoff import delay
from driver.errors import InvalidInput
from driver.model import Claim
from driver.node_selectors import selects
from driver.parameters import parameters_of

PATIENCE_SECONDS = 5.0
"""How long kube-scheduler may refuse a pod before that is believed; doubles with each refusal."""
RELEASE_SECONDS = 1.0
"""How long a dropped reservation must have been visible before the allocation is cleared."""
ORPHAN_SECONDS = 5.0
"""How long an allocation must have had no consumer before we clear it; the resource-claim-controller goes first."""
GENERATION_SECONDS = 5.0
"""How long the resource-claim-controller may take to make a claim from its template before the user is told."""
MAX_CONSUMERS = 256
"""Upper bound of ``status.reservedFor`` (resource.k8s.io/v1)."""

_NO_PAST = Past()


def decide(state: State, key: str, now: float, past: Past = _NO_PAST, max_wait: float = 60) -> Decision:
    """What to do about the pod ``key`` (namespace/name) at ``now`` (epoch seconds); waits are at most ``max_wait``."""
    pod = state.pods.get(key)
    if pod is None or pod.terminal or pod.deleting:
        return Idle()
    gated = state.names.gate in pod.gates
    records, problems = _claims(state, pod, now)
    ours = []
    for record in records:
        verdict = _judge(state, record)
        if isinstance(verdict, Wait):
            problems.append(verdict)
        elif verdict:
            ours.append(record)
    if not ours and (not gated or not problems):
        return Lift() if gated else Idle()
    if set(pod.gates) - {state.names.gate}:
        return Wait("OtherGates", "the pod has scheduling gates of others", quiet=True)
    if pod.node_name and all(record.claim.allocation for record in ours):
        return Idle()
    problems += _usability(state, ours)
    if problems:
        return _together(problems)
    rest = [record for record in ours if record.claim.allocation is None]
    if rest:
        return _seek(state, pod, records, rest, now, past)
    return _finish(state, pod, ours, now, past, max_wait)


def _claims(state: State, pod: PodView, now: float) -> tuple[list[ClaimRecord], list[Wait]]:
    found, problems = [], []
    for reference in pod.references:
        key = f"{pod.namespace}/{reference.claim}"
        record = state.claims.get(key)
        if not reference.claim:
            problems.append(_not_made(pod, reference, now))
        elif record is None:
            # A claim made just now is heard of through another watch than the pod that names it.
            remaining = _seconds(pod.created) + GENERATION_SECONDS - now if reference.template else 0
            message = f"ResourceClaim {key} does not exist"
            problems.append(
                Wait("ClaimMissing", message, quiet=remaining > 0, after=remaining if remaining > 0 else None)
            )
        elif reference.template and record.claim.owner_pod_uid != pod.uid:
            problems.append(Wait("ClaimNotOwned", f"ResourceClaim {key} was made for another pod"))
        else:
            found.append(record)
    return found, problems


def _not_made(pod: PodView, reference: ClaimReference, now: float) -> Wait:
    remaining = _seconds(pod.created) + GENERATION_SECONDS - now
    message = (
        f"the claim {reference.entry} has not been made from ResourceClaimTemplate {reference.template}; "
        f"see that it exists in namespace {pod.namespace}"
    )
    if remaining > 0:
        return Wait("ClaimMissing", message, quiet=True, after=remaining)
    return Wait("ClaimMissing", message)


def _judge(state: State, record: ClaimRecord) -> bool | Wait:
    """Whether the claim is ours to allocate; a Wait if that cannot be told, or must not be done."""
    claim = record.claim
    if claim.allocation is not None:
        return state.holds_ours(claim)
    wanted = dict.fromkeys(want.device_class for request in claim.spec.requests for want in request.wants)
    unknown = [name for name in wanted if name not in state.classes]
    if unknown:
        message = f"ResourceClaim {claim.key}: no DeviceClass is named {', '.join(unknown)}"
        return Wait("UnknownClass", message, claims=(claim.key,))
    ours = [name for name in wanted if state.classes[name].ours]
    if ours and len(ours) < len(wanted):
        message = (
            f"ResourceClaim {claim.key} asks for {', '.join(wanted)}: devices of {state.names.driver} and of other "
            "drivers are allocated by different programs, so put them into separate claims"
        )
        return Wait("MixedClaim", message, claims=(claim.key,))
    return bool(ours)


def _usability(state: State, ours: Iterable[ClaimRecord]) -> list[Wait]:
    problems = []
    for record in ours:
        claim = record.claim
        if claim.deleting:
            problems.append(Wait("ClaimDeleting", f"ResourceClaim {claim.key} is being deleted"))
        elif claim.allocation is None:
            problems += _parameter_faults(state, record)
    return problems


def _parameter_faults(state: State, record: ClaimRecord) -> Iterable[Wait]:
    claim = record.claim
    try:
        parameters_of(claim.spec.config, state.names, f"ResourceClaim {claim.key}")
    except InvalidInput as error:
        yield Wait("InvalidParameters", str(error), claims=(claim.key,))
    for name in dict.fromkeys(want.device_class for request in claim.spec.requests for want in request.wants):
        try:
            parameters_of(state.classes[name].value.config, state.names, f"DeviceClass {name}", "spec.config")
        except InvalidInput as error:
            yield Wait("InvalidParameters", str(error))


def _together(problems: Sequence[Wait]) -> Wait:
    """All problems in one: the first one's reason, everybody's message; those for nobody's ears only if alone."""
    loud = [problem for problem in problems if not problem.quiet]
    if not loud:
        return problems[0]
    return Wait(
        loud[0].reason,
        "; ".join(problem.message for problem in loud),
        tuple(dict.fromkeys(key for problem in loud for key in problem.claims)),
    )


# Finding a node for claims without an allocation


def _seek(
    state: State, pod: PodView, records: Sequence[ClaimRecord], rest: Sequence[ClaimRecord], now: float, past: Past
) -> Decision:
    held = [record for record in records if state.holds_ours(record.claim)]
    keys = tuple(record.claim.key for record in rest)
    claims = tuple(record.claim for record in rest)
    reachable = _reachable(state, records)
    free = reachable is None and not pod.node_name and not past.avoid
    shape = (pod.needs.shape, tuple(record.shape for record in rest))
    placed: Placed | Unsatisfiable | None = None
    if pod.node_name:
        placed = _there(state, pod.node_name, claims)
    elif not (free and state.blocked(shape)):
        placed = state.devices.place(claims, lambda name: _may_run(state, pod, name, reachable, now, past))
    if isinstance(placed, Placed):
        return Place(placed.node, tuple(zip(keys, placed.allocations, strict=True)), _unreserved(held, pod))
    if placed is not None and placed.faults:
        return Wait("InvalidClaim", render(placed), tuple(dict.fromkeys(fault.claim for fault in placed.faults)))
    sole = _sole(held, pod)
    if sole and not pod.node_name:
        taken = tuple(record.claim.key for record in sole)
        return TakeBack(taken, _node_of(sole), "the pod's other claims cannot be allocated there")
    if free:
        state.block(shape)
    avoided = {name: until for name, until in past.avoid.items() if until > now and not pod.node_name}
    return Unallocatable(pod.key, keys, frozenset(avoided), min(avoided.values()) - now if avoided else None)


def _there(state: State, node: str, claims: Sequence[Claim]) -> Placed | Unsatisfiable:
    """The answer for a pod that is bound already."""
    answer = state.devices.allocate(node, state.labels_of(node), claims)
    return Placed(node, answer) if isinstance(answer, tuple) else answer


def _may_run(state: State, pod: PodView, name: str, reachable: Collection[str] | None, now: float, past: Past) -> bool:
    """Whether the pod could run on the node if it got its devices there."""
    if past.avoid.get(name, now) > now or (reachable is not None and name not in reachable):
        return False
    return not fits(pod.key, pod.needs, state.node(name), state.backed)


def _reachable(state: State, records: Iterable[ClaimRecord]) -> Collection[str] | None:
    """The nodes from which everything the pod's claims hold already can be reached; None if they hold nothing."""
    allocations = (record.claim.allocation for record in records)
    selectors = [allocation.nodes for allocation in allocations if allocation and allocation.nodes]
    if not selectors:
        return None
    return {
        name: None
        for name in state.node_order()
        if all(selects(selector, name, state.labels_of(name)) for selector in selectors)
    }


def refusals(state: State, waits: Unallocatable) -> Mapping[str, NodeRefusal]:
    """Why each node that could be asked for the pod refuses it. Costly on many nodes: for when it is going to be said.

    A node is asked again only when something there has changed.
    """
    pod = state.pods[waits.pod]
    rest = [state.claims[key] for key in waits.claims]
    reachable = _reachable(state, (state.claims[key] for key in pod.claim_keys if key in state.claims))
    names = (pod.node_name,) if pod.node_name else state.node_order() if reachable is None else reachable
    memory = state.refusals((pod.node_name or pod.needs.shape, tuple(record.shape for record in rest)))
    found: dict[str, NodeRefusal] = {}
    for name in names:
        if name in waits.avoided:
            found[name] = NodeRefusal(("kube-scheduler refused the pod there",))
        elif refusal := _refusal(state, pod, rest, name, memory):
            found[name] = refusal
    return found


def _refusal(
    state: State, pod: PodView, rest: Sequence[ClaimRecord], name: str, memory: Refusals
) -> NodeRefusal | None:
    node = state.node(name)
    seen = (state.version, node.version)
    known = memory.get(name)
    if known is not None and known[0] == seen:
        return known[1]
    if reasons := () if pod.node_name else fits(pod.key, pod.needs, node, state.backed):
        refusal = NodeRefusal(reasons)
    else:
        answer = state.devices.allocate(name, state.labels_of(name), tuple(record.claim for record in rest))
        if isinstance(answer, tuple):
            return None
        refusal = NodeRefusal(devices=answer, claims=tuple(record.claim.key for record in rest))
    if node.holds(pod.key) is None:
        memory[name] = (seen, refusal)
    return refusal


def _sole(held: Iterable[ClaimRecord], pod: PodView) -> list[ClaimRecord]:
    """The claims that no other consumer has reserved."""
    return [record for record in held if all(consumer.uid == pod.uid for consumer in record.claim.reserved_for)]


def _unreserved(held: Iterable[ClaimRecord], pod: PodView) -> tuple[str, ...]:
    claims = (record.claim for record in held)
    return tuple(c.key for c in claims if all(consumer.uid != pod.uid for consumer in c.reserved_for))


def _node_of(held: Iterable[ClaimRecord]) -> str:
    names = (record.claim.allocation.node_name for record in held if record.claim.allocation)
    return next((name for name in names if name), "")


# A pod all of whose claims are allocated


def _finish(
    state: State, pod: PodView, ours: Sequence[ClaimRecord], now: float, past: Past, max_wait: float
) -> Decision:
    node = _node_of(ours)
    if state.names.gate not in pod.gates:
        if pod.refusal:
            return _refused(pod, ours, now, past, max_wait)
        told = pod.allocated is None or pod.allocated.status == "True"
        return Idle() if told else Place(node)
    problem = _misplaced(state, pod, ours)
    if problem:
        if sole := _sole(ours, pod):
            return TakeBack(tuple(record.claim.key for record in sole), _node_of(sole), problem)
        return Wait("NodeUnusable", problem)
    reserve = _unreserved(ours, pod)
    full = [key for key in reserve if len(state.claims[key].claim.reserved_for) >= MAX_CONSUMERS]
    if full:
        message = f"ResourceClaim {', '.join(full)} has {MAX_CONSUMERS} consumers already, as many as there can be"
        return Wait("ClaimFull", message, tuple(full))
    return Place(node, (), reserve)


def _misplaced(state: State, pod: PodView, ours: Sequence[ClaimRecord]) -> str:
    """Why the pod cannot run where its claims are, "" if it can."""
    names = dict.fromkeys(record.claim.allocation.node_name for record in ours if record.claim.allocation)
    places = [name for name in names if name]
    if len(places) > 1:
        return f"the pod's claims are allocated on different nodes: {', '.join(places)}"
    if not places:
        return ""
    reasons = fits(pod.key, pod.needs, state.node(places[0]), state.backed)
    return f"the pod's claims are allocated on node {places[0]}: {'; '.join(reasons)}" if reasons else ""


def _refused(pod: PodView, ours: Sequence[ClaimRecord], now: float, past: Past, max_wait: float) -> Decision:
    sole = _sole(ours, pod)
    if len(sole) < len(ours):
        message = f"kube-scheduler refuses the pod where its claims are, which others use too: {pod.refusal}"
        return Wait("Refused", message)
    patience = delay(past.refusals + 1, base=PATIENCE_SECONDS, bound=max_wait)
    since = max((_seconds(record.claim.allocation.timestamp) for record in ours if record.claim.allocation), default=0)
    if now - since < patience:
        return Wait("Refused", pod.refusal, quiet=True, after=since + patience - now)
    keys, node = tuple(record.claim.key for record in sole), _node_of(sole)
    if past.released is None:
        return Release(keys, node)
    if now - past.released < RELEASE_SECONDS:
        return Wait("Refused", pod.refusal, quiet=True, after=past.released + RELEASE_SECONDS - now)
    return TakeBack(keys, node, f"kube-scheduler refuses the pod there: {pod.refusal}", refused=True)


def _seconds(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0


# Claims


def decide_claim(state: State, key: str, now: float, since: float | None) -> ClaimDecision:
    """Whether the claim's allocation has to be cleared because nobody uses it.

    Deleted claims and those whose consumers end are the resource-claim-controller's. An allocation that lost its
    reservation otherwise (kube-scheduler gave up a bind, then the pod was deleted) is nobody's: it is ours.

    Args:
        since: when (epoch seconds) the claim was first seen without a consumer, None if it had one when last seen.
    """
    record = state.claims.get(key)
    if record is None or not state.holds_ours(record.claim) or record.claim.reserved_for:
        return Idle()
    if not record.claim.deleting and any(_may_use(state, pod, record) for pod in state.pods_of(key)):
        return Idle()
    if since is None or now - since < ORPHAN_SECONDS:
        remaining = ORPHAN_SECONDS - (now - since if since is not None else 0)
        return Wait("Unused", f"ResourceClaim {key} has no consumer", quiet=True, after=remaining)
    return Free(f"no consumer for {ORPHAN_SECONDS:.0f} s")


def _may_use(state: State, pod_key: str, record: ClaimRecord) -> bool:
    pod = state.pods.get(pod_key)
    if pod is None or pod.terminal:
        return False
    return not record.claim.owner_pod_uid or record.claim.owner_pod_uid == pod.uid
