"""Notes on a live pod that no decision depends on: the health of its devices, whether a controller leads, and what
ends kube-scheduler's errors."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from cli.live import NoRights, get_one
from driver.kube.api import LEASES, Api, Object
from driver.limits import bounded
from driver.names import CONTROLLER_NAMESPACE

_LEASE: Final = "lode-controller"
"""The Lease of an installation as in the manifests."""
_MOST_WORDS: Final = 4096
"""Characters of kube-scheduler's message that are read."""
_ERRORS: Final = (
    (
        re.compile(r'capacity "[^"]*" requested both as ("[^"]*") and as ("[^"]*")'),
        "they are one name. Keep one of them in capacity.requests: make the template, or the claim, and the pod anew",
    ),
    (
        re.compile(r"unsupported attribute value for [^\s,;]+"),
        "matchAttribute or distinctAttribute compares what that device says in a form that this version cannot "
        "compare, such as a list. Compare another attribute, or leave the device out with a selector: make the "
        "template, or the claim, and the pod anew",
    ),
    (
        re.compile(r"claim [^\s,]+, device [^\s,]+: consumed capacity [^\s]+ must not be negative"),
        "as long as that claim is allocated, no pod with claims gets a place. Delete the pods of the claim, and the "
        "claim if it is not deleted with them",
    ),
    (
        re.compile(r'capacity "[^"]*": capacity value is negative'),
        "a request asks for an amount below zero. Correct capacity.requests: make the template, or the claim, and the "
        "pod anew",
    ),
)
"""Errors of kube-scheduler about claims with which it gives a pod up on every node, and what ends them."""


def health_notes(pod: Object) -> Iterator[str]:
    """A note for each device of a claim that the kubelet calls unhealthy (``allocatedResourcesStatus``, KEP-4680)."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        for claim in container.get("allocatedResourcesStatus") or ():
            for device in claim.get("resources") or ():
                if device.get("health") == "Unhealthy":
                    why = f": {device['message']}" if device.get("message") else ""
                    yield f"container {container['name']}: the device {device['resourceID']} is unhealthy{why}"


def scheduler_notes(pod: Object) -> Iterator[str]:
    """A note for each error that kube-scheduler has with the pod's claims, or with those of others: what ends it."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") != "PodScheduled" or condition.get("status") != "False":
            continue
        words = str(condition.get("message") or "")[:_MOST_WORDS]
        for error, remedy in _ERRORS:
            if found := error.search(words):
                yield f"kube-scheduler says: {bounded(found[0], 300)}: {remedy}"


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
