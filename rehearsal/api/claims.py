"""ResourceClaims: what is immutable, and the order in which an allocation comes and goes (resource.k8s.io/v1)."""

from collections.abc import Iterable, Iterator

from driver.errors import Fault
from driver.kube.api import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Object
from rehearsal.api.kinds import Kind, Write, at, immutable

MAX_CONSUMERS = 256


def default_spec(spec: Object) -> None:
    """Fill in allocation mode, count and toleration operators of a claim's ``spec``."""
    for request in at(spec, "devices.requests") or ():
        for want in [request.get("exactly"), *request.get("firstAvailable", ())]:
            if want is None:
                continue
            if want.setdefault("allocationMode", "ExactCount") == "ExactCount":
                want.setdefault("count", 1)
            for toleration in want.get("tolerations", ()):
                toleration.setdefault("operator", "Equal")


def _default(write: Write) -> None:
    default_spec(write.new.setdefault("spec", {}))
    if not write.subresource and write.old is None:
        write.new["status"] = {}
    _forget_devices(write)


def _forget_devices(write: Write) -> None:
    """``status.devices`` of devices that are no longer allocated go by themselves."""
    status = write.new.get("status", {})
    if write.old is None or not status.get("devices"):
        return
    allocated = {_device(item) for item in _results(status)}
    before = {_device(item) for item in _results(write.old.get("status", {}))}
    kept = [item for item in status["devices"] if _device(item) in allocated or _device(item) not in before]
    write.new["status"] = {**status, "devices": kept}
    if not kept:
        del write.new["status"]["devices"]


def _device(item: Object) -> tuple[str, str, str, str]:
    return item.get("driver", ""), item.get("pool", ""), item.get("device", ""), item.get("shareID", "")


def _results(status: Object) -> list[Object]:
    return list(at(status, "allocation.devices.results") or ())


def _faults(write: Write) -> Iterable[Fault]:
    yield from immutable(write, "spec")
    if write.old is not None and write.subresource == "status":
        yield from _status_faults(write.new, write.old)


def _status_faults(new: Object, old: Object) -> Iterator[Fault]:
    status, before = new.get("status", {}), old.get("status", {})
    if status.get("allocation") and before.get("allocation") and status["allocation"] != before["allocation"]:
        yield Fault("status.allocation", "Invalid value: field is immutable")
    consumers = status.get("reservedFor", [])
    if consumers and not status.get("allocation"):
        yield Fault("status.reservedFor", "Forbidden: may not be specified when `allocated` is not set")
    if len(consumers) > MAX_CONSUMERS:
        yield Fault("status.reservedFor", f"Too many: {len(consumers)}: must have at most {MAX_CONSUMERS} items")
    known = {item["uid"] for item in before.get("reservedFor", [])}
    for i, consumer in enumerate(consumers):
        for name in ("resource", "name", "uid"):
            if not consumer.get(name):
                yield Fault(f"status.reservedFor[{i}].{name}", "Required value")
        if new["metadata"].get("deletionTimestamp") and consumer.get("uid") not in known:
            yield Fault(
                "status.reservedFor", "Forbidden: new entries may not be added while `deletionTimestamp` is set"
            )
    requests = _request_names(new)
    for i, result in enumerate(_results(status)):
        if result.get("request") not in requests:
            yield Fault(
                f"status.allocation.devices.results[{i}].request",
                f"Invalid value: {result.get('request')!r}: must be the name of a request in the claim",
            )


def _request_names(claim: Object) -> set[str]:
    names = set()
    for request in claim["spec"].get("devices", {}).get("requests", []):
        if "exactly" in request:
            names.add(request["name"])
        names |= {f"{request['name']}/{sub['name']}" for sub in request.get("firstAvailable", ())}
    return names


CLAIMS_KIND = Kind(RESOURCE_CLAIMS, has_status=True, status_resets_metadata=True, default=_default, faults=_faults)
TEMPLATES_KIND = Kind(
    RESOURCE_CLAIM_TEMPLATES,
    default=lambda write: default_spec(write.new.setdefault("spec", {}).setdefault("spec", {})),
    faults=lambda write: immutable(write, "spec"),
)
