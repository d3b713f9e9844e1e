"""Fleets for tests of the page: their objects, and what is followed of them."""

from collections.abc import Iterable
from typing import Any

from cli.decisions.simulator import simulate_all
from cli.decisions.snapshot import snapshot_of
from cli.demo import NODES as DEMO_NODES
from cli.objects.checks import check
from cli.objects.documents import Document, Origin
from cli.shipped import device_classes, examples
from cli.ui.contents import FleetContents
from cli.ui.following import FollowedFleet
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    JOBS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
    Resource,
)
from driver.kube.objects import object_key
from driver.kube.reflector import Synced, Upserted
from driver.names import Names
from tests.unit.cli.cluster import node, slices, stored

NAMES = Names()
KINDS = {
    one.kind: one
    for one in (
        DEVICE_CLASSES,
        DEVICE_TAINT_RULES,
        JOBS,
        NODES,
        PODS,
        RESOURCE_CLAIM_TEMPLATES,
        RESOURCE_CLAIMS,
        RESOURCE_SLICES,
    )
}
SINCE = "2027-01-15T08:00:00Z"
TOO_MANY = ("whole-card-2", "whole-card-3")
"""These come last, and find no card."""


def contents_of(objects: Iterable[Object], **more: Any) -> FleetContents:
    """What is known of a cluster with these objects, once each kind was listed."""
    fleet, keys = FollowedFleet(NAMES), dict[Resource, set[str]]()
    for obj in objects:
        resource = KINDS[obj["kind"]]
        if resource != DEVICE_CLASSES:
            fleet.take(Upserted(resource, obj, "9"))
            keys.setdefault(resource, set()).add(object_key(obj))
    for resource, known in keys.items():
        fleet.take(Synced(resource, frozenset(known), "9"))
    return fleet.contents(**more)


def demo_objects() -> list[Object]:
    """The objects of ``lode demo`` when all its pods run, two more pods that wait, and cards that are out of service.

    The simulation says which device each claim gets; pods are bound, and claims reserved, as Kubernetes would do it.
    """
    parts = [part for name, (profile, labels) in DEMO_NODES.items() for part in _slices(name, profile, labels)]
    nodes = [stored(_node(name, labels)) for name, (_, labels) in DEMO_NODES.items()]
    applied = [obj for objects in examples().values() for obj in objects]
    whole = next(obj for obj in examples()["whole-card"] if obj["kind"] == "Pod")
    applied += [{**whole, "metadata": {"name": name}} for name in TOO_MANY]
    given = [*nodes, *parts, *device_classes(), *applied]
    documents = [Document(Origin("f", number), obj) for number, obj in enumerate(given)]
    snapshot = snapshot_of(check(documents, "default").objects, NAMES)
    pods, _ = simulate_all(snapshot)
    made = [_decided(snapshot.pods[one.key], snapshot.claims, one) for one in pods]
    owners = {one["name"]: one["uid"] for pod in made for one in pod["metadata"].get("ownerReferences") or ()}
    jobs = [stored(obj) for obj in applied if obj["kind"] == "Job"]
    for job in jobs:
        job["metadata"]["uid"] = owners[job["metadata"]["name"]]
    return [*nodes, *_out_of_service(parts), *jobs, *made, *snapshot.claims.values()]


def _node(name: str, labels: dict[str, str]) -> Object:
    made = node(name, cpu="64")
    made["metadata"]["labels"] = labels
    return made


def _slices(name: str, profile: str, labels: dict[str, str]) -> list[Object]:
    return slices(name, profile, ib_cluster=labels.get("lode.dev/ib-cluster", ""))


def _out_of_service(parts: list[Object]) -> list[Object]:
    """The last NPU does not work, and the one before is in the hands of another driver."""
    closed = {"npu-3": "unhealthy", "npu-2": "other-driver"}
    for part in parts:
        for device in part["spec"].get("devices") or ():
            key = next((key for card, key in closed.items() if device["name"].startswith(card)), "")
            if key:
                device["taints"] = [{"key": f"lode.dev/{key}", "effect": "NoSchedule"}]
    return parts


def _decided(pod: Object, claims: dict[str, Object], outcome: Any) -> Object:
    """The pod as it is after what was decided; its claims are reserved for it."""
    metadata, spec = pod["metadata"], dict(pod["spec"])
    if not outcome.placed:
        said = {"type": "lode.dev/Allocated", "status": "False", "lastTransitionTime": SINCE}
        said |= {"reason": outcome.verdict.reason, "message": outcome.verdict.message}
        return {**pod, "status": {**(pod.get("status") or {}), "phase": "Pending", "conditions": [said]}}
    spec.pop("schedulingGates", None)
    spec["nodeName"] = outcome.node
    for claim in outcome.claims:
        key = f"{outcome.namespace}/{claim.name}"
        status = claims[key]["status"]
        reserved = [*status.get("reservedFor", ())]
        reserved.append({"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]})
        allocation = {**status["allocation"], "allocationTimestamp": SINCE}
        claims[key] = {**claims[key], "status": {**status, "reservedFor": reserved, "allocation": allocation}}
    return {**pod, "spec": spec, "status": {**(pod.get("status") or {}), "phase": "Running"}}
