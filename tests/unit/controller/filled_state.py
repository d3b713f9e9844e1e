"""Objects as the API writes them, and a state made of them."""

from collections.abc import Collection
from typing import Any

from controller.allocation import Fleet
from controller.state import DecisionSettings, State
from driver.clock import rfc3339
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from driver.names import FINALIZER, Names

NAMES = Names()
GATE = NAMES.gate
NOW = 1_800_000_000.0
STAMP = "2027-01-15T08:00:00Z"
"""NOW, as an allocation's timestamp."""


class FilledState:
    """A state filled by hand. Nodes have two cards and 8 CPUs."""

    def __init__(self, nodes: int = 2, *, host_labels: bool = False, closing: Collection[str] = ()):
        self.state = State(Fleet(), NAMES, DecisionSettings(closing_node_conditions=tuple(closing)))
        self._version = 0
        self.put(DEVICE_CLASSES, device_class("gpu.lode.dev", 'device.driver == "lode.dev"'))
        self.put(DEVICE_CLASSES, device_class("nic.example.com", "device.driver == 'nic.example.com'"))
        for number in range(1, nodes + 1):
            labels = {"kubernetes.io/hostname": f"n{number}"} if host_labels else {}
            self.put(NODES, node(f"n{number}", labels=labels))
            self.put(RESOURCE_SLICES, slice_on(f"n{number}"))

    def put(self, resource: Any, obj: Object) -> Any:
        self._version += 1
        metadata = {"uid": f"uid-{obj['metadata']['name']}", **obj["metadata"], "resourceVersion": str(self._version)}
        return self.state.put(resource, {**obj, "metadata": metadata})

    def claim(self, name: str, *classes: Any, **options: Any) -> Any:
        return self.put(RESOURCE_CLAIMS, claim(name, *classes, **options))

    def pod(self, name: str, *claims: str, **options: Any) -> Any:
        return self.put(PODS, pod(name, *claims, **options))


def device_class(name: str, expression: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}], **spec}}


def node(name: str, ready: bool = True, cpu: str = "8", labels: dict[str, str] | None = None) -> Object:
    conditions = [{"type": "Ready", "status": str(ready)}]
    metadata = {"name": name, "labels": labels or {}}
    return {"metadata": metadata, "status": {"conditions": conditions, "allocatable": {"cpu": cpu, "pods": "10"}}}


def slice_on(name: str, cards: int = 2, driver: str = NAMES.driver, kind: str = "gpu") -> Object:
    pool = {"name": f"{name}/{driver}", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"{kind}-{number}", "attributes": {"kind": {"string": kind}}} for number in range(cards)]
    spec = {"driver": driver, "pool": pool, "nodeName": name, "devices": devices}
    return {"metadata": {"name": f"{name}-{driver}"}, "spec": spec}


def slice_for_all(cards: int) -> Object:
    """A pool of devices that every node reaches."""
    spec = {key: value for key, value in slice_on("all", cards)["spec"].items() if key != "nodeName"}
    return {"metadata": {"name": "all"}, "spec": {**spec, "allNodes": True}}


def taint_rule(name: str, node: str, whole_pool: bool) -> Object:
    selector = {"driver": NAMES.driver, "pool": NAMES.pool(node), **({} if whole_pool else {"device": "gpu-0"})}
    return {
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": "t", "effect": "NoSchedule"}},
    }


def allocation(place: str, driver: str = NAMES.driver, stamp: str = STAMP) -> Object:
    """``place`` is node/device."""
    on, device = place.split("/")
    fields = [{"key": "metadata.name", "operator": "In", "values": [on]}]
    result = {"request": "r", "driver": driver, "pool": f"{on}/{driver}", "device": device}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        "allocationTimestamp": stamp,
    }


def claim(
    name: str,
    classes: tuple[str, ...] = ("gpu.lode.dev",),
    *,
    at: str = "",
    by: tuple[str, ...] = (),
    owner: str = "",
    deleting: bool = False,
    driver: str = NAMES.driver,
    stamp: str = STAMP,
    selector: str = "",
    **devices: Any,
) -> Object:
    """``at``: node/device it holds; ``by``: pods it is reserved for; ``owner``: the pod it was made for."""
    selectors = [{"cel": {"expression": selector}}] if selector else []
    requests = [
        {"name": f"r{number}" if number else "r", "exactly": {"deviceClassName": of, "selectors": selectors}}
        for number, of in enumerate(classes)
    ]
    raw: Object = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": requests, **devices}},
    }
    if owner:
        reference = {"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
        raw["metadata"]["ownerReferences"] = [reference]
    if deleting:
        raw["metadata"] |= {"deletionTimestamp": STAMP, "finalizers": [FINALIZER]}
    if at:
        reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in by]
        raw["status"] = {"allocation": allocation(at, driver, stamp), "reservedFor": reserved}
    return raw


def pod(
    name: str,
    *claims: str,
    gates: tuple[str, ...] = (GATE,),
    generated: dict[str, str | None] | None = None,
    unschedulable: str = "",
    condition: str = "",
    cpu: str = "1",
    age: float = 60,
    preempted: bool = False,
    **spec: Any,
) -> Object:
    """``generated``: entries from a template, and the claims recorded for them; ``condition``: status of our own."""
    entries: list[Object] = [{"name": entry, "resourceClaimName": entry} for entry in claims]
    entries += [{"name": entry, "resourceClaimTemplateName": f"template-{entry}"} for entry in generated or {}]
    recorded = [
        {"name": entry, **({"resourceClaimName": claim} if claim else {})}
        for entry, claim in (generated or {}).items()
        if claim != ""
    ]
    conditions = []
    if unschedulable:
        scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": unschedulable}
        conditions.append(scheduled)
    if preempted:
        disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        conditions.append(disrupted)
    if condition:
        conditions.append({"type": "lode.dev/Allocated", "status": condition})
    return {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": rfc3339(NOW - age)},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            "schedulingGates": [{"name": gate} for gate in gates],
            "resourceClaims": entries,
            **spec,
        },
        "status": {"resourceClaimStatuses": recorded, "conditions": conditions, "phase": spec.pop("phase", "Pending")},
    }


def placement_config(**parameters: Any) -> Object:
    """The part of a claim's ``spec.devices`` that asks for a placement."""
    content = {"apiVersion": NAMES.parameters_api_version, "kind": "PlacementConfig", **parameters}
    return {"config": [{"opaque": {"driver": NAMES.driver, "parameters": content}}]}


def in_gang(**gang: Any) -> Object:
    """The part of a claim's ``spec.devices`` that joins its pod to a gang."""
    return placement_config(gang=gang)


def owned_by_job(obj: Object, number: int = 0, name: str = "train") -> Object:
    """The pod, made by a Job of that name; ``number`` tells the first from those that followed it."""
    owner = {"kind": "Job", "name": name, "uid": f"uid-{name}-{number}", "controller": True}
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}
