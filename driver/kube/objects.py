"""Facts about API objects that every component of Kubernetes reads in the same way. Pure."""

from driver.kube.api import Object

GENERATED_CLAIM_PREFIX_LENGTH = 57
"""Most characters of ``<pod>-<entry>-`` that the resource-claim-controller does not cut."""


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


def generated_claim_prefix(owner: str, entry: str) -> str:
    """``generateName`` of the claim that the resource-claim-controller makes for an entry of ``spec.resourceClaims``.

    Too long a name is cut as that controller cuts it: each part in proportion to the length of the whole, and without
    the last dash. Nothing may be left of a short part.

    Args:
        owner: name of the pod, or of the PodGroup.
        entry: name of the entry.
    """
    whole = f"{owner}-{entry}-"
    if len(whole) <= GENERATED_CLAIM_PREFIX_LENGTH:
        return whole
    owner, entry = (part[: len(part) * GENERATED_CLAIM_PREFIX_LENGTH // len(whole)] for part in (owner, entry))
    return f"{owner}-{entry}"


def unnameable_claim(owner: str, entry: str) -> str:
    """Why the API server refuses every claim that is made for the entry; "" if it does not.

    Arguments as of ``generated_claim_prefix``.
    """
    prefix = generated_claim_prefix(owner, entry)
    if not prefix.startswith("-") and ".-" not in prefix:
        return ""
    return (
        f"the resource-claim-controller cuts the claim's name to {prefix}, with which no valid name begins; "
        "shorten the name of the entry"
    )
