"""Pods that were let go, and that nobody binds. Pure.

A pod behind our gate goes to the scheduler that its ``spec.schedulerName`` names. If no such scheduler runs, nobody
binds the pod and nobody refuses it. So only pods of schedulers that the operator has named are let go, and devices are
taken back from those that are neither bound nor refused for ``max_unbound_seconds``. It is done in the same two
steps as after a refusal, because a bind may be on its way. The pod has no gate any more: it gets devices again after a
pause, which doubles each time. Such a pod never has others evicted, since only gated pods do.
"""

from collections.abc import Sequence
from typing import Final

from controller.reconcile.decisions import Idle, Reason, Release, TakeBack, Wait
from controller.reconcile.history import PlacementHistory
from controller.reconcile.podclaims import exclusive, is_reserved, node_of, reserved_only_for
from controller.state import ClaimRecord, PodView, State
from driver.model import Claim

_REMEDY: Final = "check that this scheduler runs, and that whatever else it waits for, such as a PodGroup, exists"


def unknown_scheduler(state: State, pod: PodView, ours: Sequence[ClaimRecord]) -> TakeBack | Wait | None:
    """Let a gated pod wait, and hold nothing, if nobody says that its scheduler runs; None if it may be let go."""
    served = state.settings.scheduler_names
    if not served or pod.scheduler in served:
        return None
    message = (
        f"spec.schedulerName: {pod.scheduler}: pods with devices of {state.names.driver} are bound by "
        f"{' or '.join(served)}; make the pod again with that name, or have the operator add this one to the setting "
        "controller.schedulerNames, if it is a profile of kube-scheduler"
    )
    held = [record for record in ours if record.claim.allocation is not None]
    if own := exclusive(state, held, pod):
        return TakeBack(tuple(record.claim.key for record in own), node_of(own), message)
    return Wait(Reason.UNKNOWN_SCHEDULER, message)


def unbound_until(state: State, pod: PodView) -> float | None:
    """Return from when on (``State.at``) the pod counts as one that nobody binds; None if it holds nothing unbound.

    It counts from its last allocation, and from when it was told that it has its devices.
    """
    records = (state.claims.get(key) for key in pod.claim_keys)
    found = (record.claim.allocation for record in records if record is not None and state.holds_ours(record.claim))
    stamps = [allocation.timestamp for allocation in found if allocation]
    if pod.node_name or not stamps:
        return None
    if pod.allocated is not None and pod.allocated.status == "True":
        stamps.append(pod.allocated.since)
    return max(map(state.at, stamps)) + state.settings.max_unbound_seconds


def is_bound_by_nobody(state: State, pod: PodView, now: float) -> bool:
    """Return whether the pod has had a place for so long without being bound that it shields nothing any more."""
    until = unbound_until(state, pod)
    return until is not None and now >= until


def bound_by_nobody(
    state: State, pod: PodView, ours: Sequence[ClaimRecord], now: float, history: PlacementHistory
) -> Idle | Release | TakeBack:
    """Decide about a pod that has its devices, and about which its scheduler has said nothing yet."""
    until = unbound_until(state, pod)
    own = [record for record in ours if _is_held_in_vain(state, record.claim, pod, now)]
    if until is None or not own:
        return Idle(after=until - now if until is not None and until > now else None)
    keys, node = tuple(record.claim.key for record in own), node_of(own)
    reserved = any(is_reserved(state, record.claim, pod) for record in own)
    if reserved and history.released is not None:
        # The scheduler that reserved the claims again is binding the pod, and gets as long as before.
        until = max(until, history.released + state.settings.max_unbound_seconds)
    if until > now:
        return Idle(after=until - now)
    if reserved or history.released is None:
        return Release(keys, node, unbound=True)
    if any(record.claim.reserved_for for record in own):
        # Other pods that nobody binds give up theirs as well.
        return Idle()
    if (remaining := history.until_visible(now)) > 0:
        return Idle(after=remaining)
    message = f"nobody has bound the pod for {state.settings.max_unbound_seconds:.0f} s, nor said why not"
    return TakeBack(keys, node, message, unbound=True)


def _is_held_in_vain(state: State, claim: Claim, pod: PodView, now: float) -> bool:
    """Return whether the claim is reserved for nobody but the pod, and other pods that nobody binds."""
    users = (state.pods[key] for key in state.pods.using(claim.key))
    return reserved_only_for(state, claim, (pod, *(user for user in users if is_bound_by_nobody(state, user, now))))


def resting(state: State, pod: PodView, now: float, history: PlacementHistory) -> Wait | None:
    """Return a wait if the pod gets no devices for a while, because nobody bound it when it had some."""
    longest = state.settings.max_unbound_seconds
    remaining = history.rests_until(longest) - now
    if remaining <= 0:
        return None
    message = (
        f"spec.schedulerName: {pod.scheduler}: nobody bound the pod within {longest:.0f} s after it had got its "
        f"devices, nor said why not, so they were taken back; it gets devices again after a pause; {_REMEDY}"
    )
    return Wait(Reason.NOT_BOUND, message, after=remaining)
