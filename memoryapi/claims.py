"""ResourceClaims and their templates (resource.k8s.io/v1)."""

from collections.abc import Iterable, Iterator

from driver.errors import Fault
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Object
from memoryapi.claim_rules import results, spec_faults, status_faults
from memoryapi.kind_rules import KindRules, Write, at, immutable


def default_spec(spec: Object) -> None:
    """Set the defaults of allocation mode, count and toleration operators in a claim's ``spec``."""
    for request in at(spec, "devices.requests") or ():
        for want in [request.get("exactly"), *request.get("firstAvailable", ())]:
            if want is None:
                continue
            if want.setdefault("allocationMode", "ExactCount") == "ExactCount":
                want.setdefault("count", 1)
            for toleration in want.get("tolerations", ()):
                toleration.setdefault("operator", "Equal")


def _default_claim(write: Write) -> None:
    if write.subresource:
        _drop_deallocated_devices(write)
        for device in at(write.new, "status.devices") or ():
            device.setdefault("conditions", None)  # the API server writes the field even if there are none
        return
    default_spec(write.new.setdefault("spec", {}))
    if write.old is None:
        write.new["status"] = {}


def _drop_deallocated_devices(write: Write) -> None:
    """Remove the entries of deallocated devices from ``status.devices``, as the API server does."""
    assert write.old is not None
    status = write.new.get("status", {})
    if not status.get("devices"):
        return
    allocated = [_device(item) for item in results(status)]
    before = [_device(item) for item in results(write.old.get("status", {}))]
    kept = [item for item in status["devices"] if _device(item) in allocated or _device(item) not in before]
    write.new["status"] = {name: part for name, part in status.items() if name != "devices"}
    if kept:
        write.new["status"]["devices"] = kept


def _device(item: Object) -> tuple[str, ...]:
    return tuple(item.get(name, "") for name in ("driver", "pool", "device", "shareID"))


def _claim_faults(write: Write) -> Iterable[Fault]:
    if write.old is None:
        yield from spec_faults("spec", write.new["spec"], write.kubernetes)
        yield from _admin_faults("spec", write.new["spec"], write)
    elif write.subresource:
        yield from status_faults(write.new, write.old, write.kubernetes)
    else:
        yield from immutable(write, "spec")


def _default_template(write: Write) -> None:
    default_spec(write.new.setdefault("spec", {}).setdefault("spec", {}))


def _template_faults(write: Write) -> Iterable[Fault]:
    if write.old is None:
        yield from spec_faults("spec.spec", write.new["spec"]["spec"], write.kubernetes)
        yield from _admin_faults("spec.spec", write.new["spec"]["spec"], write)
    yield from immutable(write, "spec")


def _admin_faults(path: str, spec: Object, write: Write) -> Iterator[Fault]:
    if write.admin_namespace:
        return
    for i, request in enumerate(at(spec, "devices.requests") or ()):
        if at(request, "exactly.adminAccess"):
            yield Fault(
                f"{path}.devices.requests[{i}].exactly.adminAccess",
                "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on "
                "the containing namespace",
            )


CLAIM_RULES = KindRules(
    RESOURCE_CLAIMS, has_status=True, status_resets_metadata=True, default=_default_claim, faults=_claim_faults
)
CLAIM_TEMPLATE_RULES = KindRules(RESOURCE_CLAIM_TEMPLATES, default=_default_template, faults=_template_faults)
