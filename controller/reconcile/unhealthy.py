"""Finds pods whose devices do not work any more. Pure."""

from dataclasses import dataclass

from controller.state import State


@dataclass(frozen=True, slots=True)
class UnhealthyUse:
    """The devices of a claim that do not work, and the pods that use them."""

    claim: str
    """Key of the claim."""
    devices: tuple[str, ...]
    """``<pool>/<device>``, in the order of the allocation."""
    pods: tuple[str, ...]
    """Keys of the pods that the claim is reserved for."""

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
    uids = {consumer.uid for consumer in record.claim.reserved_for}
    pods = [pod for name in state.pods.using(key) if (pod := state.pods[name]).uid in uids and not pod.terminal]
    return UnhealthyUse(
        key, tuple(f"{one.pool}/{one.device}" for one in dict.fromkeys(sick)), tuple(pod.key for pod in pods)
    )
