"""ResourceClaims and DeviceClasses."""

from driver.model import Claim, ClaimSpec, Constraint, Consumer, DeviceClass, Request, Want
from driver.wire.allocations import allocation_from, config_from
from driver.wire.fields import Json, many, quantities, text, texts
from driver.wire.taints import toleration_from

_KNOWN_CONSUMER_FIELDS = {"resource", "name", "uid", "apiGroup"}
_KNOWN_WANT_FIELDS = {
    "name",
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
}


def claim_from(raw: Json) -> Claim:
    """A ResourceClaim object as a value."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    owner: Json = next((owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), {})
    return Claim(
        namespace=text(metadata.get("namespace")),
        name=text(metadata["name"]),
        uid=text(metadata.get("uid")),
        resource_version=text(metadata.get("resourceVersion")),
        spec=claim_spec_from(raw["spec"]),
        allocation=allocation_from(status["allocation"]) if status.get("allocation") is not None else None,
        reserved_for=many(
            status.get("reservedFor"),
            _consumer_from,
        ),
        deleting=bool(metadata.get("deletionTimestamp")),
        finalizers=texts(metadata.get("finalizers")),
        owner_pod_uid=text(owner["uid"]) if owner.get("kind") == "Pod" else "",
        owner_pod_group_uid=text(owner["uid"]) if owner.get("kind") == "PodGroup" else "",
    )


def _consumer_from(raw: Json) -> Consumer:
    unknown = tuple((name, raw[name]) for name in raw if name not in _KNOWN_CONSUMER_FIELDS)
    return Consumer(text(raw["resource"]), text(raw["name"]), text(raw["uid"]), text(raw.get("apiGroup")), unknown)


def claim_spec_from(raw: Json) -> ClaimSpec:
    """The ``spec`` of a ResourceClaim or of a ResourceClaimTemplate's ``spec.spec``."""
    devices = raw.get("devices") or {}
    return ClaimSpec(
        requests=many(devices.get("requests"), _request_from),
        constraints=many(
            devices.get("constraints"),
            lambda c: Constraint(
                texts(c.get("requests")),
                text(c.get("matchAttribute")),
                text(c.get("distinctAttribute")),
            ),
        ),
        config=many(devices.get("config"), config_from),
    )


def _request_from(raw: Json) -> Request:
    if raw.get("exactly") is not None:
        return Request(text(raw["name"]), (_want_from(raw["exactly"]),))
    return Request(text(raw["name"]), many(raw.get("firstAvailable"), _want_from), prioritized=True)


def _want_from(raw: Json) -> Want:
    return Want(
        device_class=text(raw.get("deviceClassName")),
        name=text(raw.get("name")),
        selectors=_expressions(raw),
        mode=text(raw.get("allocationMode")) or "ExactCount",
        count=int(raw.get("count") or 1),
        admin_access=bool(raw.get("adminAccess")),
        tolerations=many(raw.get("tolerations"), toleration_from),
        capacity=quantities((raw.get("capacity") or {}).get("requests")),
        unsupported=tuple(sorted(set(raw) - _KNOWN_WANT_FIELDS)),
    )


def _expressions(raw: Json) -> tuple[str, ...]:
    return tuple(text((item.get("cel") or {}).get("expression")) for item in raw.get("selectors") or ())


def class_from(raw: Json) -> DeviceClass:
    """A DeviceClass object as a value."""
    spec = raw.get("spec") or {}
    return DeviceClass(text(raw["metadata"]["name"]), _expressions(spec), many(spec.get("config"), config_from))
