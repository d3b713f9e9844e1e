"""Letting pods go: when, what kube-scheduler allocates for them then, and what if nobody binds them. Pure.

What keeps a pod from a device
    A taint that the claim does not tolerate, with either effect, from a slice or from a rule; the tolerations are in
    the allocation. That its pool does not have it any more. kube-scheduler looks at neither once a claim is allocated,
    and the kubelet prepares what it is told to.

What is done about it
    A claim that only gated pods use, or nobody, is taken back, and gets another device. One that others use stays with
    them, and the gated pod waits until it is free. Nothing moves while slices of the pool are missing: they are being
    replaced, or the plugin is away for a moment. The pod waits until they are there.

What it gets from other drivers
    kube-scheduler allocates that when it binds the pod. Until then, decisions about other pods count what it is about
    to allocate as in use. Otherwise several pods would go to one node for the same device, because kube-scheduler gets
    to the first of them later. Its allocator is the same, so it will take as many devices, if not exactly these.

A pod that nobody binds
    A pod behind our gate goes to the scheduler that its ``spec.schedulerName`` names. If no such scheduler runs, nobody
    binds the pod and nobody refuses it. So only pods of schedulers that the operator has named are let go, and devices
    are taken back from those that are neither bound nor refused for ``max_unbound_seconds``. It is done in the same two
    steps as after a refusal, because a bind may be on its way. The pod has no gate any more: it gets devices again
    after a pause, which doubles each time. Such a pod never has others evicted, since only gated pods do.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from controller.placement import PodCheck
from controller.reconcile.decisions import Idle, PlacePod, Reason, Release, TakeBack, Wait
from controller.reconcile.demand import HasDevices
from controller.reconcile.history import PlacementHistory
from controller.reconcile.podclaims import (
    exclusive,
    is_reserved,
    node_of,
    reserved_only_for,
    split_by_driver,
    unreserved,
)
from controller.state import ClaimRecord, PodView, State
from driver.limits import listed
from driver.model import Allocation, Claim, DeviceId, Result

MAX_CONSUMERS = 256
"""Most entries of ``status.reservedFor`` (resource.k8s.io/v1)."""


def finish(state: State, found: HasDevices) -> PlacePod | TakeBack | Wait:
    """Let a pod go whose claims are all allocated, if it can run on their node. ``unusable`` was asked before."""
    pod, ours = found.pod, found.ours
    problem = _misplacement(state, pod, ours)
    if problem:
        if own := exclusive(state, ours, pod):
            return TakeBack(_keys(own), node_of(own), problem)
        return Wait(Reason.NODE_UNUSABLE, problem)
    if unseen := [(record.claim.key, device) for record in ours for device in _unseen(state, record.claim)]:
        texts = (f"ResourceClaim {key}: device {_name(device)} is in no slice now" for key, device in unseen)
        message = f"{listed(tuple(texts))}; the pod waits until all slices of the pool are there"
        return Wait(Reason.DEVICE_UNUSABLE, message, tuple(dict.fromkeys(key for key, _ in unseen)))
    reserve = unreserved(state, ours, pod)
    return full(state, reserve) or PlacePod(node_of(ours), (), reserve)


def full(state: State, reserve: Sequence[str]) -> Wait | None:
    """Return a wait if one of these claims cannot take one more consumer; None if all can."""
    keys = tuple(key for key in reserve if len(state.claims[key].claim.reserved_for) >= MAX_CONSUMERS)
    if not keys:
        return None
    message = (
        f"ResourceClaim {', '.join(keys)}: reserved for the maximum number of consumers: {MAX_CONSUMERS}; use another "
        "claim, or wait until one of the pods that use it ends"
    )
    return Wait(Reason.CLAIM_FULL, message, keys)


def unusable(state: State, pod: PodView, held: Sequence[ClaimRecord]) -> TakeBack | Wait | None:
    """Take back what the pod must not be let go on, or wait until others have done with it; None if there is nothing.

    Args:
        pod: is not bound, and kube-scheduler cannot bind it as it is.
        held: the pod's claims with devices of ours.
    """
    faults = {record.claim.key: texts for record in held if (texts := tuple(_faults(state, record.claim)))}
    if not faults:
        return None
    bad = [record for record in held if record.claim.key in faults]
    movable = [record for record in bad if _is_unused(state, record.claim, pod)]
    if len(movable) == len(bad):
        return TakeBack(_keys(bad), node_of(bad), listed([text for texts in faults.values() for text in texts]))
    stuck = [record for record in bad if record not in movable]
    message = listed([text for key in _keys(stuck) for text in faults[key]])
    if own := exclusive(state, held, pod):
        # It would hold these for as long as it waits.
        return TakeBack(_keys(own), node_of(own), message)
    rest = "other pods still use it, so this one waits until the claim is free, and then gets another device"
    return Wait(Reason.DEVICE_UNUSABLE, f"{message}; {rest}", _keys(stuck))


def _is_unused(state: State, claim: Claim, pod: PodView) -> bool:
    """Return whether the claim is reserved for nobody but pods that are not let go."""
    users = (state.pods[key] for key in state.pods.using(claim.key))
    return reserved_only_for(state, claim, (pod, *(user for user in users if state.names.gate in user.gates)))


def _faults(state: State, claim: Claim) -> Iterator[str]:
    """Yield what keeps pods from devices of the claim for certain."""
    for result in _results(state, claim):
        device = result.device
        where = f"ResourceClaim {claim.key}: device {_name(device)}"
        if taint := state.devices.ledger.untolerated(device, result.tolerations):
            yield f"{where} has the taint {taint}, which the claim does not tolerate"
        elif state.devices.ledger.published_device(device) is None and state.devices.ledger.is_whole(device):
            yield f"{where} is published no longer"


def _unseen(state: State, claim: Claim) -> Iterator[DeviceId]:
    """Yield the devices of which nobody can say whether they are there, because slices of their pool are missing."""
    found = (result.device for result in _results(state, claim))
    return (device for device in found if state.devices.ledger.published_device(device) is None)


def _results(state: State, claim: Claim) -> Iterator[Result]:
    """Yield what the claim holds of the drivers that we allocate."""
    results = claim.allocation.results if claim.allocation else ()
    return (result for result in results if state.names.allocates(result.device.driver))


def _misplacement(state: State, pod: PodView, ours: Sequence[ClaimRecord]) -> str:
    """Return why the pod cannot run on the node of its claims; "" if it can."""
    nodes = dict.fromkeys(record.claim.allocation.node_name for record in ours if record.claim.allocation)
    names = [name for name in nodes if name]
    if len(names) > 1:
        return f"the pod's claims are allocated on different nodes: {', '.join(names)}"
    if not names:
        return ""
    check = PodCheck(pod.key, pod.needs, state.nodes)
    reasons = check.reasons(names[0])
    if reasons and check.victims(names[0]) is not None:
        # It was placed so that kube-scheduler evicts pods for it.
        return ""
    return f"the pod's claims are allocated on node {names[0]}: {'; '.join(reasons)}" if reasons else ""


def _name(device: DeviceId) -> str:
    return f"{device.pool}/{device.device}"


def _keys(records: Iterable[ClaimRecord]) -> tuple[str, ...]:
    return tuple(record.claim.key for record in records)


# What a pod that was let go gets from other drivers


@contextmanager
def hold_expected_foreign_use(state: State, pods: Collection[str]) -> Iterator[None]:
    """Count as in use the devices that kube-scheduler is about to allocate for all pods let go but ``pods``.

    A claim that several pods use counts once.
    """
    held: dict[str, None] = {}
    with state.cluster.what_if() as trial:
        for key, node in state.awaiting.items():
            if key not in pods:
                for claim, allocation in _expected(state, key, node, held):
                    held[claim.key] = None
                    trial.use(claim.uid, allocation)
        yield


def as_expected(state: State, pod: PodView, records: Sequence[ClaimRecord]) -> Sequence[ClaimRecord]:
    """Return the pod's claims as they will be when kube-scheduler has served the pods that were let go.

    A claim of another driver that the pod shares with one of these has what is allocated for that one, and where that
    is not on every node, the pod has to follow.
    """
    served = {
        record.claim.key: user
        for record in records
        if state.awaiting and record.claim.allocation is None and (user := _served_before(state, pod, record))
    }
    found = {
        claim.key: allocation
        for user in dict.fromkeys(served.values())
        for claim, allocation in _expected(state, user, state.awaiting[user])
        if served.get(claim.key) == user
    }

    def expected(record: ClaimRecord) -> ClaimRecord:
        allocation = found.get(record.claim.key)
        return record if allocation is None else replace(record, claim=replace(record.claim, allocation=allocation))

    return [*map(expected, records)] if found else records


def _served_before(state: State, pod: PodView, record: ClaimRecord) -> str:
    """Return another pod that uses the claim and was let go; "" if there is none."""
    users = state.pods.using(record.claim.key)
    return next((user for user in users if user in state.awaiting and user != pod.key), "")


def _expected(state: State, pod: str, node: str, known: Collection[str] = ()) -> Iterator[tuple[Claim, Allocation]]:
    """Yield what kube-scheduler is about to allocate for the pod on its node, but for claims that are ``known``."""
    records = [state.claims[key] for key in state.pods[pod].claim_keys if key in state.claims and key not in known]
    claims = [record.claim for record in split_by_driver(state, records).others]
    found = state.devices.allocate(node, state.nodes.labels_of(node), claims) if claims else ()
    if isinstance(found, tuple):
        yield from zip(claims, found, strict=True)


# A pod that nobody binds

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
