"""The rules for claim specs, allocations and reservations (resource.k8s.io/v1)."""

from collections.abc import Iterator
from typing import Any

from driver import limits
from driver.errors import Fault
from driver.kube.api import Object
from driver.kube.codec import encode_object
from memoryapi import rules
from memoryapi.kind_rules import at
from memoryapi.rules import invalid, required
from memoryapi.versions import V1_38, Version

MAX_CONSUMERS = 256
MAX_REQUESTS = MAX_CONSTRAINTS = MAX_RESULTS = 32
MAX_SUBREQUESTS = 8
MAX_ALLOCATION_CONFIGS = 64
MAX_CONDITIONS = 8
MAX_DATA_BYTES = 10 * 1024
"""Bytes of ``data`` of a device's status, as JSON."""


def request_names(spec: Object) -> set[str]:
    """The names by which requests can be referenced: ``main``, and ``main/sub`` for each of its alternatives."""
    names = set()
    for request in at(spec, "devices.requests") or ():
        names.add(request.get("name", ""))
        names |= {f"{request.get('name')}/{sub.get('name')}" for sub in request.get("firstAvailable", ())}
    return names


def spec_faults(path: str, spec: Object, kubernetes: Version) -> Iterator[Fault]:
    """The faults of the spec of a claim or a template."""
    devices = spec.get("devices", {})
    where = f"{path}.devices"
    requests = devices.get("requests", [])
    yield from rules.at_most(f"{where}.requests", requests, MAX_REQUESTS)
    yield from rules.distinct(f"{where}.requests", [request.get("name") for request in requests], ".name")
    for i, request in enumerate(requests):
        yield from _request_faults(f"{where}.requests[{i}]", request, kubernetes)
    known = request_names(spec)
    constraints = devices.get("constraints", [])
    yield from rules.at_most(f"{where}.constraints", constraints, MAX_CONSTRAINTS)
    for i, constraint in enumerate(constraints):
        yield from _constraint_faults(f"{where}.constraints[{i}]", constraint, known, kubernetes)
    yield from rules.configs(f"{where}.config", devices.get("config", []), known)


def _request_faults(path: str, request: Object, kubernetes: Version) -> Iterator[Fault]:
    yield from rules.dns_label(f"{path}.name", request.get("name"))
    alternatives = request.get("firstAvailable", [])
    if ("exactly" in request) == bool(alternatives):
        yield invalid(path, request, "exactly one of `exactly` or `firstAvailable` is required")
    if "exactly" in request:
        yield from _want_faults(f"{path}.exactly", request["exactly"], kubernetes)
    yield from rules.at_most(f"{path}.firstAvailable", alternatives, MAX_SUBREQUESTS)
    yield from rules.distinct(f"{path}.firstAvailable", [sub.get("name") for sub in alternatives], ".name")
    for i, sub in enumerate(alternatives):
        yield from rules.dns_label(f"{path}.firstAvailable[{i}].name", sub.get("name"))
        yield from _want_faults(f"{path}.firstAvailable[{i}]", sub, kubernetes)


def _want_faults(path: str, want: Object, kubernetes: Version) -> Iterator[Fault]:
    yield from rules.dns_subdomain(f"{path}.deviceClassName", want.get("deviceClassName"))
    yield from rules.selectors(f"{path}.selectors", want.get("selectors", []))
    yield from rules.tolerations(f"{path}.tolerations", want.get("tolerations", []))
    mode, count = want.get("allocationMode"), want.get("count", 0)
    yield from rules.one_of(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    if mode == "ExactCount" and count <= 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")
    if mode == "All" and count:
        yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    amounts = at(want, "capacity.requests") or {}
    if kubernetes >= V1_38:
        yield from rules.at_most(f"{path}.capacity.requests", amounts, limits.MAX_CAPACITY_REQUESTS)
    yield from rules.amounts(f"{path}.capacity.requests", amounts, kubernetes)


def _constraint_faults(path: str, constraint: Object, known: set[str], kubernetes: Version) -> Iterator[Fault]:
    yield from rules.references(f"{path}.requests", constraint.get("requests", []), known)
    given = [name for name in ("matchAttribute", "distinctAttribute") if name in constraint]
    if len(given) != 1:
        yield required(path)
    for name in given:
        yield from rules.qualified_name(f"{path}.{name}", constraint[name], kubernetes, domain_required=True)


def status_faults(new: Object, old: Object, kubernetes: Version) -> Iterator[Fault]:
    """The faults of the status of claim ``new``, which was ``old`` before."""
    status, before = new.get("status", {}), old.get("status", {})
    allocation, former = status.get("allocation"), before.get("allocation")
    if allocation is not None and former is None:
        yield from _allocation_faults("status.allocation", allocation, request_names(new["spec"]), kubernetes)
    elif allocation is not None and allocation != former:
        yield invalid("status.allocation", "...", "field is immutable")
    yield from _reservation_faults(new, before)
    yield from _device_faults(status)


def _device_faults(status: Object) -> Iterator[Fault]:
    allocated, devices = [_device(item) for item in results(status)], status.get("devices", [])
    yield from rules.distinct("status.devices", [_device(device) for device in devices])
    for i, device in enumerate(devices):
        path, data = f"status.devices[{i}]", device.get("data")
        if _device(device) not in allocated:
            yield invalid(path, _device(device), "must be an allocated device in the claim")
        if data is not None and not isinstance(data, dict):
            yield invalid(f"{path}.data", "<value omitted>", "must be a valid JSON object")
        if len(encode_object(data)) > MAX_DATA_BYTES:
            yield Fault(f"{path}.data", f"Too long: may not be more than {MAX_DATA_BYTES} bytes")
        yield from rules.conditions(f"{path}.conditions", device.get("conditions") or [], MAX_CONDITIONS)


def results(status: Object) -> list[Object]:
    """The allocated devices in a claim's status."""
    return list(at(status, "allocation.devices.results") or ())


def _device(item: Object) -> tuple[Any, ...]:
    return tuple(item.get(name, "") for name in ("driver", "pool", "device", "shareID"))


def _reservation_faults(new: Object, before: Object) -> Iterator[Fault]:
    consumers = new.get("status", {}).get("reservedFor", [])
    path = "status.reservedFor"
    if consumers and not new["status"].get("allocation"):
        yield Fault(path, "Forbidden: may not be specified when `allocated` is not set")
    yield from rules.at_most(path, consumers, MAX_CONSUMERS)
    yield from rules.distinct(path, [consumer.get("uid") for consumer in consumers])
    known = {consumer["uid"] for consumer in before.get("reservedFor", [])}
    for i, consumer in enumerate(consumers):
        for name in ("resource", "name", "uid"):
            if not consumer.get(name):
                yield required(f"{path}[{i}].{name}")
        if new["metadata"].get("deletionTimestamp") and consumer.get("uid") not in known:
            yield Fault(path, "Forbidden: new entries may not be added while `deletionTimestamp` is set")


def _allocation_faults(path: str, allocation: Object, known: set[str], kubernetes: Version) -> Iterator[Fault]:
    items = at(allocation, "devices.results") or []
    yield from rules.at_most(f"{path}.devices.results", items, MAX_RESULTS)
    for i, item in enumerate(items):
        where = f"{path}.devices.results[{i}]"
        if item.get("request") not in known:
            yield invalid(f"{where}.request", item.get("request"), "must be the name of a request in the claim")
        yield from rules.driver_name(f"{where}.driver", item.get("driver"))
        yield from rules.pool_name(f"{where}.pool", item.get("pool"))
        yield from rules.dns_label(f"{where}.device", item.get("device"))
        yield from rules.tolerations(f"{where}.tolerations", item.get("tolerations", []))
        if "shareID" in item:
            yield from rules.share_id(f"{where}.shareID", item["shareID"])
        yield from rules.amounts(f"{where}.consumedCapacity", item.get("consumedCapacity", {}), kubernetes)
    configs = at(allocation, "devices.config") or []
    yield from rules.configs(f"{path}.devices.config", configs, known, MAX_ALLOCATION_CONFIGS)
    for i, config in enumerate(configs):
        yield from rules.one_of(f"{path}.devices.config[{i}].source", config.get("source"), ("FromClass", "FromClaim"))
    if "nodeSelector" in allocation:
        yield from rules.node_selector(f"{path}.nodeSelector", allocation["nodeSelector"])
