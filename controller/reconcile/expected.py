"""What kube-scheduler is about to allocate for claims of other drivers, for pods that were let go. Pure."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from controller.reconcile.podclaims import split_by_driver
from controller.state import ClaimRecord, PodView, State
from driver.model import Allocation, Claim


@contextmanager
def hold_expected_foreign_use(state: State, pods: Collection[str]) -> Iterator[None]:
    """Count as in use the devices that kube-scheduler is about to allocate for all pods let go but ``pods``.

    Otherwise several pods would go to one node for the same device, because kube-scheduler gets to the first of them
    later. Its allocator is the same, so it will take as many devices, if not exactly these. A claim that several pods
    use counts once.
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
