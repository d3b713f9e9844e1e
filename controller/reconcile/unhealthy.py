"""Finds pods whose devices do not work any more. Pure."""

from dataclasses import dataclass

from controller.state import PodView, State
from driver.model import Claim


@dataclass(frozen=True, slots=True)
class UnhealthyUse:
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


def unhealthy_use(state: State, key: str) -> UnhealthyUse | None:
    """Return the devices of the claim ``key`` that their node taints as unhealthy; None if there are none."""
    record = state.claims.get(key)
    if record is None or record.claim.allocation is None:
        return None
    names = state.names
    devices = [result.device for result in record.claim.allocation.results if result.device.driver == names.driver]
    sick = [one for one in devices if any(taint.key == names.unhealthy for taint in state.devices.taints(one))]
    if not sick:
        return None
    pods = [pod.key for name in state.pods.using(key) if _uses(state, pod := state.pods[name], record.claim)]
    return UnhealthyUse(key, tuple(f"{one.pool}/{one.device}" for one in dict.fromkeys(sick)), tuple(pods))


def _uses(state: State, pod: PodView, claim: Claim) -> bool:
    """Return whether the claim is reserved for the pod, or for its PodGroup and the pod has a place."""
    uids = {consumer.uid for consumer in claim.reserved_for}
    in_group = state.consumer(pod, claim.key).uid in uids and state.nodes.node_of(pod.key) != ""
    return not pod.terminal and (pod.uid in uids or in_group)
