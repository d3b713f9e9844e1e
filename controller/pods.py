"""A pod as the controller sees it: gates, claims, node and what it was told so far. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.placement import Needs, needs_of

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """An entry of ``spec.resourceClaims``."""

    entry: str
    claim: str
    """Name of the ResourceClaim; "" while the one made from a template is not recorded in the pod's status."""
    template: str = ""
    """Name of the ResourceClaimTemplate it is made from, "" for a claim named in the pod."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the pod's conditions."""

    status: str
    reason: str
    message: str
    since: str
    """lastTransitionTime."""


@dataclass(frozen=True, slots=True)
class PodView:
    """What deciding needs of a Pod object."""

    namespace: str
    name: str
    uid: str
    node_name: str
    gates: tuple[str, ...]
    terminal: bool
    deleting: bool
    references: tuple[ClaimReference, ...]
    needs: Needs
    allocated: Condition | None
    """Our own condition on it."""
    refusal: str
    """What kube-scheduler says against it, "" if nothing."""
    nominated: str
    created: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """``namespace/name`` of the claims known so far."""
        return tuple(f"{self.namespace}/{reference.claim}" for reference in self.references if reference.claim)


def pod_from(raw: Json, condition_type: str) -> PodView:
    """The view of a Pod object; ``condition_type`` is the type of our own condition.

    Raises:
        InvalidInput: a quantity that the API server would not have accepted.
    """
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    refused = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    own = conditions.get(condition_type)
    return PodView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node_name=spec.get("nodeName") or "",
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
        terminal=status.get("phase") in ("Succeeded", "Failed"),
        deleting=bool(metadata.get("deletionTimestamp")),
        references=_references(spec, status),
        needs=needs_of(raw),
        allocated=_condition(own) if own else None,
        refusal=(scheduled.get("message") or "no reason given") if refused else "",
        nominated=status.get("nominatedNodeName") or "",
        created=metadata.get("creationTimestamp") or "",
    )


def _condition(raw: Json) -> Condition:
    return Condition(
        raw["status"], raw.get("reason") or "", raw.get("message") or "", raw.get("lastTransitionTime") or ""
    )


def _references(spec: Json, status: Json) -> tuple[ClaimReference, ...]:
    made = {entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    found = []
    for entry in spec.get("resourceClaims") or ():
        name = entry["name"]
        if direct := entry.get("resourceClaimName"):
            found.append(ClaimReference(name, direct))
        elif (template := entry.get("resourceClaimTemplateName")) and not (name in made and not made[name]):
            # Recorded without a name means that no claim is needed (core/v1 PodResourceClaimStatus).
            found.append(ClaimReference(name, made.get(name) or "", template))
    return tuple(found)
