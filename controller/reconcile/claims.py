"""Decides about one claim: one that nobody uses, one whose devices others hold, too, one whose devices do not work.
Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from controller.reconcile.decisions import ClaimDecision, FreeClaim, Idle, Reason, Wait
from controller.reconcile.othernames import named_within
from controller.state import ClaimRecord, PodView, State, epoch_seconds
from driver.model import Claim

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


@dataclass(frozen=True, slots=True)
class SickDevices:
    """The devices of a claim that do not work, and the pods that use them."""

    claim: str
    """Key of the claim."""
    devices: tuple[str, ...]
    """``<pool>/<device>``, in the order of the allocation."""
    pods: tuple[str, ...]
    """Keys of the pods that use the claim: those that it is reserved for, or that its PodGroup has a place for."""

    @property
    def message(self) -> str:
        """The text for the author of a pod, which is in the claim's namespace."""
        what = "device is" if len(self.devices) == 1 else "devices are"
        return (
            f"ResourceClaim {self.claim}: {what} unhealthy: {', '.join(self.devices)}; the field "
            "allocatedResourcesStatus of the container's status says why. The pod keeps what it has; delete it to have "
            "it placed on other devices"
        )


def sick_devices(state: State, key: str) -> SickDevices | None:
    """Return the devices of the claim ``key`` that their node taints as unhealthy; None if there are none."""
    record = state.claims.get(key)
    if record is None or record.claim.allocation is None:
        return None
    names = state.names
    devices = [result.device for result in record.claim.allocation.results if result.device.driver == names.driver]
    sick = [one for one in devices if any(taint.key == names.unhealthy for taint in state.devices.ledger.taints(one))]
    if not sick:
        return None
    pods = [pod.key for name in state.pods.using(key) if _uses(state, pod := state.pods[name], record.claim)]
    return SickDevices(key, tuple(f"{one.pool}/{one.device}" for one in dict.fromkeys(sick)), tuple(pods))


def _uses(state: State, pod: PodView, claim: Claim) -> bool:
    """Return whether the claim is reserved for the pod, or for its PodGroup and the pod has a place."""
    uids = {consumer.uid for consumer in claim.reserved_for}
    in_group = state.consumer(pod, claim.key).uid in uids and state.nodes.node_of(pod.key) != ""
    return not pod.terminal and (pod.uid in uids or in_group)


SETTLING_SECONDS = 5.0
"""Least time that a double use must last: a claim may be read ahead of the watch that reports another's end."""


@dataclass(frozen=True, slots=True)
class DoubleUse:
    """A claim with devices that older claims hold, too."""

    claim: str
    """Key of the youngest claim. It has to give its devices back."""
    rivals: tuple[str, ...]
    """Keys of the other claims."""
    what: str
    """The device or counter of which more is held than there is."""
    settled_at: float
    """Time (as of ``State.at``) from which the claim has to act."""

    def message(self, reader: str) -> str:
        """Return the text for the author of the claim ``reader``. Claims of other namespaces are not named."""
        namespace = reader.split("/")[0]
        others = [key for key in (self.claim, *self.rivals) if key != reader]
        named = ", ".join(named_within(others, {namespace}, "claim"))
        return f"{self.what} is also held by ResourceClaims: {named}; another program has allocated it"


def double_use(state: State, key: str) -> DoubleUse | None:
    """Return the double use in which the claim ``key`` is the youngest claim; None if there is none."""
    record = state.claims.get(key)
    if record is None or not state.holds_ours(record.claim):
        return None
    rivals = _rivals(state, record.claim)
    if rivals and state.kept_places:
        # What is kept for a pod counts beside what its victims hold.
        with state.kept_places.ignored():
            rivals = _rivals(state, record.claim)
    if not rivals or any(_age(state.claims[name].claim) > _age(record.claim) for name in rivals):
        return None
    allocation = record.claim.allocation
    settled_at = state.at(allocation.timestamp if allocation else "") + SETTLING_SECONDS
    return DoubleUse(key, tuple(sorted(rivals)), min(rivals.values()), settled_at)


def _rivals(state: State, claim: Claim) -> Mapping[str, str]:
    """Return the claims (by key) that together with this one hold more than there is, and what it is."""
    return {name: what for name, what in state.devices.ledger.conflicting_claims(claim).items() if name in state.claims}


def _age(claim: Claim) -> tuple[bool, float, str]:
    """Return a key that is larger for a younger allocation.

    One without a time stamp, which only another program writes, is the youngest.
    """
    stamp = claim.allocation.timestamp if claim.allocation else ""
    return not stamp, epoch_seconds(stamp), claim.uid
