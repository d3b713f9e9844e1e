"""The hard searches of `tests.hard_searches` as API objects, so that both sides can be asked."""

import json
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from benchmarks.allocation.scenario import FLOOR
from controller.allocation import Fleet
from controller.allocation.search.search import STEP_LIMIT
from driver.model import Claim, Constraint, Request, Want
from driver.wire import Json, slice_spec_to
from tests.hard_searches import NODE, HardSearch


def cluster(search: HardSearch) -> Iterator[str]:
    """The node, its classes and slices: a line of JSON each."""
    yield _line("Node", NODE, {"labels": {}})
    for device_class in search.classes:
        selectors = [_selector(expression) for expression in device_class.selectors]
        yield _line("DeviceClass", device_class.name, spec={"selectors": selectors})
    for part in search.slices:
        yield _line("ResourceSlice", part.name, spec=slice_spec_to(part))


def pods(search: HardSearch) -> Iterator[str]:
    """A pod that gets nothing, so that both sides read everything once, and the pod of the search."""
    device_class = search.classes[0].name
    warming = {"name": "r0", "exactly": _want(Want(device_class, selectors=("false",)))}
    first = _claim_object("first", {"devices": {"requests": [warming]}})
    for claims in ([first], [_claim_object(claim.name, _spec(claim)) for claim in search.claims]):
        yield json.dumps({"claims": claims, "release": -1, "floor": FLOOR}) + "\n"


def steps(search: HardSearch) -> int:
    """The smallest step limit with which our search decides; the usual limit plus one if that is not enough."""
    return bisect_left(range(STEP_LIMIT + 1), True, key=lambda limit: _decided(search, limit))


def _decided(search: HardSearch, limit: int) -> bool:
    fleet = Fleet(limit)
    for device_class in search.classes:
        fleet.upsert_class(device_class)
    for part in search.slices:
        fleet.ledger.upsert_slice(part)
    answer = fleet.allocate(NODE, {}, search.claims)
    return isinstance(answer, tuple) or not answer.undecided


def _line(kind: str, name: str, metadata: Json | None = None, **more: Any) -> str:
    return json.dumps({"kind": kind, "metadata": {"name": name, **(metadata or {})}, **more}) + "\n"


def _claim_object(name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": "bench", "uid": f"uid-{name}"}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def _spec(claim: Claim) -> Json:
    requests = [_request(request) for request in claim.spec.requests]
    constraints = [_constraint(constraint) for constraint in claim.spec.constraints]
    return {"devices": {"requests": requests, "constraints": constraints}}


def _request(request: Request) -> Json:
    if request.prioritized:
        return {"name": request.name, "firstAvailable": [{"name": w.name, **_want(w)} for w in request.wants]}
    return {"name": request.name, "exactly": _want(request.wants[0])}


def _want(want: Want) -> Json:
    raw: Json = {"deviceClassName": want.device_class, "allocationMode": want.mode, "count": want.count}
    if want.selectors:
        raw["selectors"] = [_selector(expression) for expression in want.selectors]
    if want.capacity:
        raw["capacity"] = {"requests": {name: str(amount) for name, amount in want.capacity.items()}}
    return raw


def _selector(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _constraint(constraint: Constraint) -> Json:
    raw: Json = {"requests": list(constraint.requests)} if constraint.requests else {}
    if constraint.match_attribute:
        return {**raw, "matchAttribute": constraint.match_attribute}
    return {**raw, "distinctAttribute": constraint.distinct_attribute}
