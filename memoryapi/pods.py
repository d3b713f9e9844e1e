"""Pods: defaults, the status of a gated pod, and the fields that an update may change (core/v1, ValidatePodUpdate)."""

from collections.abc import Iterable, Iterator
from typing import Any

from driver.errors import Fault
from driver.kube.api import PODS, Object
from driver.quantity import Quantity
from memoryapi import rules
from memoryapi.kind_rules import KindRules, Write, selectable

_DEFAULTS: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "enableServiceLinks": True,
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
    "securityContext": {},
}
_CONTAINER_DEFAULTS: Object = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_GATED_CONDITION: Object = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_MUTABLE_SPEC_FIELDS = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")


def _default(write: Write) -> None:
    if write.subresource:
        return
    spec = write.new.setdefault("spec", {})
    _tolerate_lost_nodes(spec)
    if write.old is None:
        _default_new(write.new, spec, write.now)


def _tolerate_lost_nodes(spec: Object) -> None:
    """Add the tolerations that the admission plugin DefaultTolerationSeconds adds, on updates as well."""
    tolerated = {item.get("key") for item in spec.get("tolerations", ()) if item.get("effect") in (None, "NoExecute")}
    for key in _LOST_NODE_TAINTS:
        if key not in tolerated and None not in tolerated:
            spec.setdefault("tolerations", []).append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )


def _default_new(pod: Object, spec: Object, now: str) -> None:
    for name, value in _DEFAULTS.items():
        spec.setdefault(name, {} if value == {} else value)
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        _default_container(container)
    pod["status"] = {"phase": "Pending", "qosClass": _qos(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [{**_GATED_CONDITION, "lastProbeTime": None, "lastTransitionTime": now}]


def _default_container(container: Object) -> None:
    for name, value in _CONTAINER_DEFAULTS.items():
        container.setdefault(name, {} if value == {} else value)
    image = container.get("image", "")
    latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    limits = container["resources"].get("limits", {})
    if limits:
        container["resources"]["requests"] = {**limits, **container["resources"].get("requests", {})}
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")


def _qos(spec: Object) -> str:
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    resources = [container["resources"] for container in containers]
    wanted = [
        {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
        for part in resources
        for amounts in (part.get("limits", {}), part.get("requests", {}))
    ]
    if not any(wanted):
        return "BestEffort"
    guaranteed = all(len(amounts) == 2 for amounts in wanted) and wanted[::2] == wanted[1::2]
    return "Guaranteed" if guaranteed else "Burstable"


def _faults(write: Write) -> Iterable[Fault]:
    if write.old is None:
        yield from _create_faults(write.new["spec"])
    elif not write.subresource:
        yield from _update_faults(write.new["spec"], write.old["spec"])


def _create_faults(spec: Object) -> Iterator[Fault]:
    if not spec.get("containers"):
        yield Fault("spec.containers", "Required value")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield Fault("spec.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared")
    names = [claim.get("name") for claim in spec.get("resourceClaims", ())]
    yield from rules.distinct("spec.resourceClaims", names)
    for i, claim in enumerate(spec.get("resourceClaims", ())):
        if bool(claim.get("resourceClaimName")) == bool(claim.get("resourceClaimTemplateName")):
            yield Fault(
                f"spec.resourceClaims[{i}]",
                "Invalid value: must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )
    for part in ("containers", "initContainers"):
        containers = spec.get(part, [])
        yield from rules.distinct(f"spec.{part}", [container.get("name") for container in containers], ".name")
        for i, container in enumerate(containers):
            yield from _container_faults(f"spec.{part}[{i}]", container, names)


def _container_faults(path: str, container: Object, claims: list[Any]) -> Iterator[Fault]:
    yield from rules.dns_label(f"{path}.name", container.get("name"))
    if not container.get("image"):
        yield Fault(f"{path}.image", "Required value")
    resources = container["resources"]
    limits = resources.get("limits", {})
    for name, amount in resources.get("requests", {}).items():
        if name in limits and Quantity.parse(amount) > Quantity.parse(limits[name]):
            yield Fault(f"{path}.resources.requests", f"Invalid value: {amount!r}: must not exceed the {name} limit")
    for i, use in enumerate(resources.get("claims", ())):
        if use.get("name") not in claims:
            yield Fault(f"{path}.resources.claims[{i}].name", f"Not found: {use.get('name')!r}")


def _update_faults(new: Object, old: Object) -> Iterator[Fault]:
    had = {gate["name"] for gate in old.get("schedulingGates", ())}
    for gate in new.get("schedulingGates", ()):
        if gate["name"] not in had:
            yield Fault(
                "spec.schedulingGates", f"Forbidden: only deletion is allowed, but found new gate {gate['name']!r}"
            )
    left = [item for item in old.get("tolerations", ()) if item not in new.get("tolerations", ())]
    if left:
        yield Fault("spec.tolerations", "Forbidden: existing toleration can not be modified except its seconds")
    allowed = set(_MUTABLE_SPEC_FIELDS)
    if had:
        allowed |= {"nodeSelector", "affinity"}
        yield from _placement_faults(new, old)
    changed = {
        name
        for name in {*new, *old} - allowed
        if _without_images(name, new.get(name)) != _without_images(name, old.get(name))
    }
    if changed:
        yield Fault(
            "spec",
            f"Forbidden: pod updates may not change fields other than images and tolerations: {sorted(changed)}",
        )


def _without_images(name: str, value: Any) -> Any:
    if name not in ("containers", "initContainers"):
        return value
    return [{key: part for key, part in container.items() if key != "image"} for container in value or ()]


def _placement_faults(new: Object, old: Object) -> Iterator[Fault]:
    """An update of a gated pod may only reduce the nodes that it can run on."""
    selector = new.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in old.get("nodeSelector", {}).items()):
        yield Fault("spec.nodeSelector", "Invalid value: only additions are allowed (no mutations or deletions)")
    new_affinity, old_affinity = new.get("affinity", {}), old.get("affinity", {})
    for name in ("podAffinity", "podAntiAffinity"):
        if new_affinity.get(name) != old_affinity.get(name):
            yield Fault(f"spec.affinity.{name}", "Forbidden: pod updates may not change this")
    before, after = _required_terms(old_affinity), _required_terms(new_affinity)
    where = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if before is None:
        return
    if after is None or len(after) != len(before):
        yield Fault(f"{where}.nodeSelectorTerms", "Invalid value: no additions/deletions of terms are allowed")
        return
    for i, (term, former) in enumerate(zip(after, before, strict=True)):
        if not _only_added(term, former):
            yield Fault(f"{where}.nodeSelectorTerms[{i}]", "Invalid value: only additions are allowed")


def _required_terms(affinity: Object) -> list[Object] | None:
    required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms", [])


def _only_added(term: Object, former: Object) -> bool:
    if not any(former.values()):
        return not any(term.values())
    return all(
        item in term.get(part, ()) for part in ("matchExpressions", "matchFields") for item in former.get(part, ())
    )


def _grace(pod: Object, asked: int | None) -> int:
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(pod["spec"].get("terminationGracePeriodSeconds", 30)) if asked is None else asked


POD_RULES = KindRules(
    PODS,
    fields=selectable(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    has_status=True,
    counts_generation=True,
    default=_default,
    faults=_faults,
    grace=_grace,
)
