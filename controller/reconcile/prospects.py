"""Finds changes that could help a pod or gang that has no place: of a node, or the end of others. Pure.

The latest end of pods is predicted from their deadlines. ``activeDeadlineSeconds`` of a pod counts from
``status.startTime``, when the kubelet accepts the pod. When it has passed, the kubelet ends the pod, which gets its
grace period (core/v1 PodSpec).
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import Final

from controller.cluster import WhatIf
from controller.gangs import GangPlan
from controller.placement import PodCheck
from controller.reconcile.decisions import GangDecision, PodRefusal
from controller.reconcile.demand import reachable_nodes
from controller.reconcile.podclaims import as_decided, reserved_only_for
from controller.state import ClaimRecord, PodView, State

_MOST_TRIED: Final = 64
"""Most nodes that are tried for one answer of ``node_to_hold``."""

ComesAfter = Callable[[PodView], bool]
"""Tells whether a pod comes after the one that waits, in the order in which pods are served."""


def could_take(state: State, refusal: PodRefusal, node: str) -> bool:
    """Return whether this node, if it is not held back, might take the pod now. True if only deciding can tell."""
    pod = state.pods.get(refusal.subject)
    claims = _claims(state, refusal)
    if pod is None or claims is None or refusal.why.lenient:
        return True
    return _takes(state, pod, claims, node)


def depends_on_other_pods(state: State, pod: PodView) -> bool:
    """Return whether pods on other nodes restrict the pod: by affinity between pods, or by topology spread."""
    needs = pod.needs
    own = needs.pod_affinity or needs.pod_anti_affinity or needs.spread
    return bool(own or state.nodes.pods.terms_against(needs.pod))


def node_to_hold(state: State, refusal: PodRefusal, comes_after: ComesAfter, without: Collection[str] = ()) -> str:
    """Return the node to hold back for a pod that waits (rule in ``controller.waiting.held``); "" if there is none.

    Nodes are tried one by one, those with the fewest pods to end first: so few have to end, and each try is quick. For
    a gang (``start_without``), that would be one search for a domain after another, so all end at once.

    Args:
        without: nodes that may not be held back.
    """
    pod, claims = state.pods.get(refusal.subject), _claims(state, refusal)
    if pod is None or claims is None or pod.node_name:
        return ""
    reachable = reachable_nodes(state, (state.claims[key] for key in pod.claim_keys if key in state.claims))
    counted = []
    for name in state.nodes if reachable is None else reachable:
        if name not in refusal.why.refused and name not in refusal.why.held and name not in without:
            after = _pods_after(state, name, comes_after)
            if after:
                counted.append((len(after), name))
    for _, name in sorted(counted)[:_MOST_TRIED]:
        if fits_without_later_pods(state, refusal, name, comes_after):
            return name
    return ""


def start_without(
    state: State, ends: ComesAfter, decide: Callable[[], GangDecision], among: Collection[str] | None = None
) -> GangPlan | None:
    """Return the places of a gang if other pods ended. The state is as before.

    Args:
        ends: tells whether a pod ends.
        decide: decides about the gang on the state as it is then.
        among: the nodes on which they end; None for all.
    """
    with state.cluster.what_if() as trial:
        for name in sorted(state.nodes if among is None else among):
            if name in state.nodes:
                _end(trial, state, _pods_after(state, name, ends))
        return decide().plan


def fits_without_later_pods(state: State, refusal: PodRefusal, node: str, comes_after: ComesAfter) -> bool:
    """Return whether the node could take the pod if pods that come after it ended there. The state is as before."""
    pod, claims = state.pods.get(refusal.subject), _claims(state, refusal)
    if pod is None or claims is None or node not in state.nodes:
        return False
    with state.cluster.what_if() as trial:
        _end(trial, state, _pods_after(state, node, comes_after))
        return _takes(state, pod, claims, node)


def _takes(state: State, pod: PodView, claims: Sequence[ClaimRecord], node: str) -> bool:
    if not _can_be_on(state, pod, node):
        return False
    values = tuple(record.claim for record in claims)
    return isinstance(state.devices.allocate(node, state.nodes.labels_of(node), values), tuple)


def _can_be_on(state: State, pod: PodView, node: str) -> bool:
    """Return whether the node takes the pod apart from its claims.

    Where the pod is bound, only cordons and taints count.
    """
    check = PodCheck(pod.key, pod.needs, state.nodes)
    if pod.node_name:
        return node == pod.node_name and not check.closed(node)
    return check.passes(node) or check.victims(node) is not None


def _claims(state: State, refusal: PodRefusal) -> Sequence[ClaimRecord] | None:
    if any(key not in state.claims for key in refusal.why.claims):
        return None
    records, pod = [state.claims[key] for key in refusal.why.claims], state.pods.get(refusal.subject)
    return records if pod is None else as_decided(state, pod, records)


def _pods_after(state: State, node: str, comes_after: ComesAfter) -> Sequence[PodView]:
    """Return the pods on the node that come after the pod that waits."""
    pods = (state.pods.get(key) for key, _ in state.nodes.view(node).held())
    return [pod for pod in pods if pod is not None and comes_after(pod)]


def _end(trial: WhatIf, state: State, pods: Sequence[PodView]) -> None:
    """Let these pods end on trial, with the claims that only they use."""
    ending = []
    for key in dict.fromkeys(key for pod in pods for key in pod.claim_keys):
        record = state.claims.get(key)
        if record is not None and record.claim.allocation is not None and reserved_only_for(state, record.claim, pods):
            ending.append(record.claim.uid)
    trial.remove([pod.key for pod in pods], ending)


START_SECONDS: Final = 30.0
"""Longest time from a decision about a pod until the kubelet has accepted it."""


def latest_end(state: State, pod: PodView) -> float | None:
    """Return the time (``State.at``) at which a pod on a node has ended at the latest; None if it is not known.

    It is known of a pod that has a deadline and has started.
    """
    if pod.limit_seconds is None or not pod.started:
        return None
    return state.at(pod.started) + pod.limit_seconds


def latest_end_of_new(pods: Collection[PodView], now: float) -> float | None:
    """Return the latest end (``State.at``) of pods that are placed at ``now``; None if one has no deadline."""
    limits = [pod.limit_seconds for pod in pods]
    known = [limit for limit in limits if limit is not None]
    return now + START_SECONDS + max(known) if known and len(known) == len(limits) else None


def predicted_start(state: State, nodes: Collection[str], decide: Callable[[], GangDecision]) -> float | None:
    """Return the time (as of ``State.at``) at which enough pods on these nodes have ended for the gang to start.

    None if pods without a deadline, or pods that have not started yet, have to end, too. The state is as before.

    Args:
        decide: decides about the gang on the state as it is then.
    """
    held = (state.pods.get(key) for name in nodes if name in state.nodes for key, _ in state.nodes.view(name).held())
    ends = sorted({end for pod in held if pod is not None and (end := latest_end(state, pod)) is not None})

    def starts(end: float) -> bool:
        def ended(pod: PodView) -> bool:
            at = latest_end(state, pod)
            return at is not None and at <= end

        return start_without(state, ended, decide, nodes) is not None

    if not ends or not starts(ends[-1]):
        return None
    # The more pods have ended, the more room there is.
    return ends[bisect_left(ends, True, hi=len(ends) - 1, key=starts)]
