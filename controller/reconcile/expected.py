"""Counts the devices that kube-scheduler is about to allocate for claims of other drivers. Pure."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from controller.reconcile.podclaims import split_by_driver
from controller.state import State


@contextmanager
def hold_expected_foreign_use(state: State, pods: Collection[str]) -> Iterator[None]:
    """Count as in use the devices that kube-scheduler is about to allocate for all pods let go but ``pods``.

    Otherwise several pods would go to one node for the same device, because kube-scheduler gets to the first of them
    later. Its allocator is the same, so it will take as many devices, if not exactly these.
    """
    held: list[str] = []
    try:
        for key, node in state.awaiting.items():
            if key not in pods:
                held += _hold(state, key, node)
        yield
    finally:
        for uid in reversed(held):
            state.devices.release(uid)


def _hold(state: State, pod: str, node: str) -> Iterator[str]:
    records = [state.claims[key] for key in state.pods[pod].claim_keys if key in state.claims]
    claims = [record.claim for record in split_by_driver(state, records).others]
    found = state.devices.allocate(node, state.nodes.labels_of(node), claims)
    if isinstance(found, tuple):
        for claim, allocation in zip(claims, found, strict=True):
            yield state.devices.hold(claim, allocation)
