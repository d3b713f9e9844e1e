"""Predicts the latest end of pods from their deadlines, and from these the start of a gang. Pure.

``activeDeadlineSeconds`` of a pod counts from ``status.startTime``, when the kubelet accepts the pod. When it has
passed, the kubelet ends the pod, which gets its grace period (core/v1 PodSpec).
"""

from bisect import bisect_left
from collections.abc import Callable, Collection
from typing import Final

from controller.reconcile.gangdecision import GangDecision
from controller.reconcile.prospects import start_without
from controller.state import PodView, State

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
