"""Facts about API objects that every component of Kubernetes reads in the same way. Pure."""

from driver.kube.api import Object

GENERATED_CLAIM_PREFIX_LENGTH = 57
"""Room for ``<pod>-<entry>-`` before the API's five random characters."""


def name_key(obj: Object) -> tuple[str, str]:
    """Namespace and name of an object; the namespace is "" for cluster-scoped kinds."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def object_key(obj: Object) -> str:
    """``namespace/name``, or ``name`` of an object without a namespace."""
    namespace, name = name_key(obj)
    return f"{namespace}/{name}" if namespace else str(name)


def is_deleting(obj: Object) -> bool:
    """True if the object is marked for deletion."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller_of(obj: Object, kind: str) -> Object | None:
    """The owner reference of the object's controller, if that is of ``kind``."""
    owners: list[Object] = obj["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller") and owner["kind"] == kind), None)


def pod_phase(pod: Object) -> str:
    """``status.phase``, "Pending" where it is not set yet."""
    return (pod.get("status") or {}).get("phase") or "Pending"


def is_terminal(pod: Object) -> bool:
    """True if the pod's containers have ended for good."""
    return pod_phase(pod) in ("Succeeded", "Failed")


def claim_name(pod: Object, entry: Object) -> str:
    """Name of the claim behind an entry of ``pod.spec.resourceClaims``; "" while it is not created."""
    if entry.get("resourceClaimName"):
        return str(entry["resourceClaimName"])
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    return next((s.get("resourceClaimName") or "" for s in statuses if s["name"] == entry["name"]), "")


def generated_claim_prefix(pod: str, entry: str) -> str:
    """``generateName`` of a claim made for an entry of ``pod.spec.resourceClaims``; both parts are cut alike."""
    room = GENERATED_CLAIM_PREFIX_LENGTH - 2
    if len(pod) + len(entry) > room:
        pod_room = max(1, room * len(pod) // (len(pod) + len(entry)))
        pod, entry = pod[:pod_room], entry[: room - pod_room]
    return f"{pod}-{entry}-"
