"""Decides about one claim that nobody uses. Pure."""

from controller.reconcile.decisions import ClaimDecision, FreeClaim, Idle, Reason, Wait
from controller.state import ClaimRecord, State

ORPHAN_SECONDS = 5.0
"""Least time without a consumer before an allocation is cleared; the resource-claim-controller goes first."""


def decide_claim(state: State, key: str, now: float, since: float | None) -> ClaimDecision:
    """Decide whether to clear the claim's allocation because nobody uses it.

    The resource-claim-controller clears the allocation of a deleted claim, and of one whose last consumer ended. Nobody
    else clears an allocation that lost its reservation in another way: kube-scheduler gave up binding the pod, then the
    pod was deleted.

    Args:
        now: seconds of a clock that never goes back.
        since: the time on that clock at which the claim was first seen without a consumer; None if it had one when last
            seen.
    """
    record = state.claims.get(key)
    if record is None or not state.holds_ours(record.claim) or record.claim.reserved_for:
        return Idle()
    if not record.claim.deleting and any(_may_use(state, pod, record) for pod in state.pods.using(key)):
        return Idle()
    unused = 0.0 if since is None else now - since
    if since is None or unused < ORPHAN_SECONDS:
        message = f"ResourceClaim {key} has no consumer"
        return Wait(Reason.UNUSED, message, report=False, after=ORPHAN_SECONDS - unused)
    return FreeClaim(f"no consumer for {ORPHAN_SECONDS:.0f} s")


def _may_use(state: State, pod_key: str, record: ClaimRecord) -> bool:
    pod = state.pods.get(pod_key)
    if pod is None or pod.terminal:
        return False
    return not record.claim.owner_pod_uid or record.claim.owner_pod_uid == pod.uid
