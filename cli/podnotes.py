"""Notes on a live pod that no decision depends on: the health of its devices, and whether a controller leads."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from cli.live import NoRights, get_one
from driver.kube.api import LEASES, Api, Object
from driver.names import CONTROLLER_NAMESPACE

_LEASE: Final = "lode-controller"
"""The Lease of an installation as in the manifests."""


def health_notes(pod: Object) -> Iterator[str]:
    """A note for each device of a claim that the kubelet calls unhealthy (``allocatedResourcesStatus``, KEP-4680)."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        for claim in container.get("allocatedResourcesStatus") or ():
            for device in claim.get("resources") or ():
                if device.get("health") == "Unhealthy":
                    why = f": {device['message']}" if device.get("message") else ""
                    yield f"container {container['name']}: the device {device['resourceID']} is unhealthy{why}"


def leader_note(api: Api, now: float) -> Iterator[str]:
    """A note if the Lease of the controller says that no replica leads.

    Without the right to read it, and in another namespace, nothing is known.

    Args:
        now: seconds since the epoch.

    Raises:
        OperatorFault: the API server does not answer.
    """
    try:
        found = get_one(api, LEASES, _LEASE, CONTROLLER_NAMESPACE)
    except NoRights:
        return
    spec = (found or {}).get("spec") or {}
    if not spec.get("renewTime"):
        return
    ends = datetime.fromisoformat(spec["renewTime"]).timestamp() + int(spec.get("leaseDurationSeconds") or 0)
    if not spec.get("holderIdentity") or ends < now:
        yield (
            f"no controller leads, so nothing is allocated: the Lease {CONTROLLER_NAMESPACE}/{_LEASE} has no holder, "
            f"or was last renewed at {spec['renewTime']}; kubectl lode doctor says what is wrong"
        )
