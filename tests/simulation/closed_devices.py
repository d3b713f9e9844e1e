"""Devices of allocated claims that nobody else is let go on: tainted ones, and those that are published no longer."""

from collections.abc import Collection, Iterable

from controller.state import State
from driver.kube.api import Object
from driver.model import Claim, Result


def waits_for_other_users(state: State, pod: Object, claims: Collection[Claim], pods: Iterable[Object]) -> bool:
    """Whether a claim of the pod holds such a device, and stays on it because others than gated pods use the claim.

    Such a pod waits at the gate until these have ended. One that is past the gate is not kept from its devices.

    Args:
        claims: those of the pod that exist.
        pods: all pods.
    """
    if not pod["spec"].get("schedulingGates"):
        return False
    gated = {other["metadata"]["uid"] for other in pods if other["spec"].get("schedulingGates")}
    used = (claim for claim in claims if any(consumer.uid not in gated for consumer in claim.reserved_for))
    return any(_is_closed(state, result) for claim in used if claim.allocation for result in claim.allocation.results)


def _is_closed(state: State, result: Result) -> bool:
    """Whether the device is one of ours, and no pod that comes now can use it."""
    device = result.device
    if device.driver != state.names.driver:
        return False
    ledger = state.devices.ledger
    return ledger.published_device(device) is None or ledger.untolerated(device, result.tolerations) is not None
