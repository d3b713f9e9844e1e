"""What Kubernetes 1.38 refuses or reads otherwise in claims and their templates. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cli.doctor.upgrade.concerns import Concern, Severity
from cli.doctor.upgrade.selector_rules import SelectorRules
from cli.doctor.upgrade.slice_rules import Published, names_twice
from driver.kube.api import Object
from driver.kube.objects import object_key
from driver.limits import MAX_CAPACITY_REQUESTS, is_qualified_name
from driver.quantity import Quantity

_NO_NEW: Final = "1.38 leaves this claim as it is, and takes no other one like it"
_NO_CLAIM: Final = "1.38 takes no claim that is made of this template, so its pods do not start"
_TOLERATED: Final = (
    "the effect is empty: 1.37 evicts the pods where a taint has the effect NoExecute, and 1.38 lets them run"
)
_EQUAL: Final = "some devices have versions with build metadata there, which 1.37 compares and 1.38 does not"


def of_claim(claim: Object, published: Published, selectors: SelectorRules) -> Iterator[Concern]:
    """All concerns about a claim."""
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    remedy = "correct the manifest that the claim is made of, before it is applied the next time"
    for path, want in _wants("spec", claim["spec"]):
        requests = (want.get("capacity") or {}).get("requests") or {}
        yield from _refused(path, requests, "warning", _NO_NEW, remedy)
        listed = want.get("selectors") or ()
        yield from selectors.concerns(f"{path}.selectors", listed, "warning", _NO_NEW, remedy)
        if allocation is None:
            again = f"correct it in the manifest, delete claim {object_key(claim)} and its pods, and make them anew"
            yield from _twice(path, requests, published, again)
        yield from _tolerations(f"{path}.tolerations", want)
    yield from _constraints("spec", claim["spec"], "warning", _NO_NEW, remedy)
    if allocation is None:
        yield from _compared("spec", claim["spec"], published)
    else:
        yield from _consumed(claim, allocation)


def of_template(template: Object, published: Published, selectors: SelectorRules) -> Iterator[Concern]:
    """All concerns about a template."""
    spec, path = template["spec"]["spec"], "spec.spec"
    remedy = (
        f"delete the template {object_key(template)} and make it anew without this; claims that were made of it stay"
    )
    for where, want in _wants(path, spec):
        requests = (want.get("capacity") or {}).get("requests") or {}
        yield from _refused(where, requests, "failed", _NO_CLAIM, remedy)
        listed = want.get("selectors") or ()
        yield from selectors.concerns(f"{where}.selectors", listed, "failed", _NO_CLAIM, remedy)
        yield from _twice(where, requests, published, remedy)
        yield from _tolerations(f"{where}.tolerations", want)
    yield from _constraints(path, spec, "failed", _NO_CLAIM, remedy)
    yield from _compared(path, spec, published)


def _wants(path: str, spec: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each request or alternative, with its path."""
    for i, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        where = f"{path}.devices.requests[{i}]"
        if request.get("exactly"):
            yield f"{where}.exactly", request["exactly"]
        for j, alternative in enumerate(request.get("firstAvailable") or ()):
            yield f"{where}.firstAvailable[{j}]", alternative


def _refused(path: str, requests: Mapping[str, str], status: Severity, outcome: str, remedy: str) -> Iterator[Concern]:
    where = f"{path}.capacity.requests"
    if len(requests) > MAX_CAPACITY_REQUESTS:
        reason = f"more than {MAX_CAPACITY_REQUESTS} capacities: {outcome}"
        yield Concern(status, where, f"{len(requests)} capacities", reason, remedy)
    for name, amount in requests.items():
        if not is_qualified_name(name):
            yield Concern(status, where, name, f"no name of a capacity: {outcome}", remedy)
        if _is_negative(amount):
            yield Concern(status, f"{where}[{name}]", str(amount), f"an amount below zero: {outcome}", remedy)


def _is_negative(amount: str) -> bool:
    return Quantity.parse(str(amount)).nanos < 0


def _twice(path: str, requests: Mapping[str, str], published: Published, remedy: str) -> Iterator[Concern]:
    for short, long in names_twice(requests, published.drivers):
        reason = "two spellings of one name: kube-scheduler 1.38 gives the pod no devices, on any node"
        yield Concern("failed", f"{path}.capacity.requests", f"{short} and {long}", reason, remedy)


def _tolerations(path: str, want: Mapping[str, Any]) -> Iterator[Concern]:
    for i, toleration in enumerate(want.get("tolerations") or ()):
        if not toleration.get("effect"):
            remedy = "write effect: NoSchedule where pods are to be evicted; otherwise there is nothing to do"
            key = toleration.get("key") or "every key"
            yield Concern("warning", f"{path}[{i}]", str(key), _TOLERATED, remedy)


def _constraints(path: str, spec: Object, status: Severity, outcome: str, remedy: str) -> Iterator[Concern]:
    for where, name in _compared_names(path, spec):
        if name.count("/") > 1:
            yield Concern(status, where, name, f"a name with two slashes: {outcome}", remedy)


def _compared(path: str, spec: Object, published: Published) -> Iterator[Concern]:
    for where, name in _compared_names(path, spec):
        if name in published.built:
            remedy = "see that devices whose versions differ in build metadata alone may stand for each other"
            yield Concern("warning", where, name, _EQUAL, remedy)


def _compared_names(path: str, spec: Object) -> Iterator[tuple[str, str]]:
    for i, constraint in enumerate((spec.get("devices") or {}).get("constraints") or ()):
        for kind in ("matchAttribute", "distinctAttribute"):
            if constraint.get(kind):
                yield f"{path}.devices.constraints[{i}].{kind}", str(constraint[kind])


def _consumed(claim: Object, allocation: Object) -> Iterator[Concern]:
    remedy = f"delete the pods of claim {object_key(claim)} before the upgrade, and the claim if it has no owner"
    for i, result in enumerate((allocation.get("devices") or {}).get("results") or ()):
        where = f"status.allocation.devices.results[{i}].consumedCapacity"
        for name, amount in (result.get("consumedCapacity") or {}).items():
            if _is_negative(amount):
                reason = "an amount below zero: kube-scheduler 1.38 does not count with it"
                yield Concern("failed", f"{where}[{name}]", str(amount), reason, remedy)
            elif not is_qualified_name(name):
                reason = "no name of a capacity: 1.38 leaves this allocation as it is, and takes no other one like it"
                yield Concern("warning", where, name, reason, remedy)
