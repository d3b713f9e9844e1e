"""The objects of a large cluster as JSON text, each made when it is asked for."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.memory.sizes import Size
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from driver.names import DEFAULT_DRIVER, FINALIZER, Names
from driver.wire import Json, slice_spec_to
from kubeletplugin.hardware.simulated import load_profile
from kubeletplugin.inventory import Fabric, build_inventory
from kubeletplugin.publish.slices import build_slices
from tests.simulation.files import MemoryFiles

NAMES = Names(DEFAULT_DRIVER)
NAMESPACE = "default"
STAMP = "2026-01-01T00:00:00Z"
DEVICE_CLASS = "gpu.lode.dev"
SHARES = 100
"""Tenants that can share a card: the default of the plugin's setting ``slots``."""
WAITING = "waiting"
"""The pod that waits behind the gate, and its claim."""
_NODE, _NUMBER, _VERSION, _PLACE = "@node@", "@number@", "@version@", "@place@"


@dataclass(frozen=True, slots=True)
class Stored:
    """All objects of one kind: ``text(i)`` is the JSON of the one at place ``i`` in the order of lists."""

    count: int
    text: Callable[[int], bytes]


def cluster(size: Size) -> Mapping[Resource, Stored]:
    """The objects of the cluster by kind."""
    slices = _slices(size)
    claim, pod = _template(_claim()), _template(_pod(with_claim=True))
    plain, waiting = _template(_pod(with_claim=False)), _waiting_pod()
    node = _template(_node())
    last_claim, last_pod = json.dumps(_waiting_claim()).encode(), json.dumps(waiting).encode()

    def pod_text(number: int) -> bytes:
        if number == size.pods:
            return last_pod
        return _fill(pod if number < size.claims else plain, number, size.nodes)

    def claim_text(number: int) -> bytes:
        return last_claim if number == size.claims else _fill(claim, number, size.nodes)

    return {
        NODES: Stored(size.nodes, lambda number: _fill(node, number, size.nodes)),
        DEVICE_CLASSES: _fixed([_device_class()]),
        RESOURCE_SLICES: Stored(
            size.nodes * len(slices),
            lambda number: _fill(slices[number % len(slices)], number // len(slices), size.nodes),
        ),
        RESOURCE_CLAIMS: Stored(size.claims + 1, claim_text),
        PODS: Stored(size.pods + 1, pod_text),
    }


def devices(size: Size) -> int:
    """How many devices the cluster's slices have."""
    return size.nodes * len(_inventory(size).devices)


def _fixed(objects: Sequence[Json]) -> Stored:
    texts = [json.dumps(obj).encode() for obj in objects]
    return Stored(len(texts), texts.__getitem__)


def _template(obj: Json) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


def _fill(template: bytes, number: int, nodes: int) -> bytes:
    """The object with this number; the first ``nodes`` are on different nodes, and so on, and hold different cards."""
    node = number % nodes
    values = {
        _NODE: f"node-{node:05}",
        _NUMBER: f"{number:06}",
        _VERSION: str(1000 + number),
        _PLACE: str(number // nodes),
    }
    for name, value in values.items():
        template = template.replace(name.encode(), value.encode())
    return template


def _metadata(name: str, uid: str, **more: Any) -> Json:
    return {"name": name, "uid": uid, "resourceVersion": _VERSION, "creationTimestamp": STAMP, **more}


def _managed(manager: str, fields: Json, **more: Any) -> Json:
    common = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": STAMP, "fieldsType": "FieldsV1"}
    return {**common, "fieldsV1": fields, **more}


def _owned(value: Any) -> Json:
    """The tree of fields that a manager owns, as the API server records it."""
    if isinstance(value, dict):
        return {".": {}} | {f"f:{name}": _owned(item) for name, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        return {f'k:{{"name":"{item["name"]}"}}': _owned(item) for item in value}
    return {}


# Nodes, device classes, slices


def _node() -> Json:
    labels = {
        "kubernetes.io/hostname": _NODE,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "gpu-8x",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": "zone-a",
    }
    amounts = {"cpu": "192", "memory": "2113412412Ki", "pods": "250", "ephemeral-storage": "3748905484Ki"}
    types = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [
        {
            "type": name,
            "status": str(name == "Ready"),
            "reason": f"Kubelet{name}",
            "message": "kubelet reports its state",
            "lastHeartbeatTime": STAMP,
            "lastTransitionTime": STAMP,
        }
        for name in types
    ]
    images = [
        {"names": [f"registry.example.com/team/image-{number}@sha256:{'0' * 64}"], "sizeBytes": 123456789}
        for number in range(50)
    ]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images}
    managed = [_managed("kubelet", {"f:status": _owned({"conditions": conditions})}, subresource="status")]
    return {"metadata": _metadata(_NODE, f"node-{_NUMBER}", labels=labels, managedFields=managed), "status": status}


def _device_class() -> Json:
    expression = f'device.driver == "{NAMES.driver}" && device.attributes["{NAMES.driver}"].kind == "gpu"'
    return {
        "metadata": {"name": DEVICE_CLASS, "uid": DEVICE_CLASS, "resourceVersion": "1", "creationTimestamp": STAMP},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _inventory(size: Size) -> Any:
    profile = load_profile(size.profile, MemoryFiles())
    cards = [replace(card, uuid=f"GPU-{_NODE}-{card.index}") for card in profile.cards]
    return build_inventory(cards, Fabric("fabric-1"), size.offer, SHARES, NAMES)


def _slices(size: Size) -> list[bytes]:
    inventory = _inventory(size)
    parts = build_slices(inventory.devices, inventory.counter_sets, _NODE, NAMES)
    owner = {"apiVersion": "v1", "kind": "Node", "name": _NODE, "uid": f"node-{_NUMBER}", "controller": True}
    return [
        _template(
            {
                "metadata": _metadata(part.name, f"{part.name}-{_NUMBER}", generation=1, ownerReferences=[owner]),
                "spec": slice_spec_to(replace(part, generation=1)),
            }
        )
        for part in parts
    ]


# Pods and claims


def _container(name: str) -> Json:
    amounts = {"cpu": "500m", "memory": "512Mi"}
    return {
        "name": name,
        "image": "registry.example.com/team/application:v1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": f"SETTING_{number}", "value": f"value-of-{number}"} for number in range(12)],
        "resources": {"requests": amounts, "limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True},
        ],
        "livenessProbe": {"httpGet": {"path": "/live", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


def _container_status(name: str) -> Json:
    return {
        "name": name,
        "state": {"running": {"startedAt": STAMP}},
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "registry.example.com/team/application:v1.2.3",
        "imageID": f"registry.example.com/team/application@sha256:{'a' * 64}",
        "containerID": f"containerd://{'b' * 64}",
        "allocatedResources": {"cpu": "500m", "memory": "512Mi"},
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }


def _pod_spec() -> Json:
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    return {
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "token", "projected": {"sources": [token]}}],
        "containers": [_container("main"), _container("sidecar")],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": tolerations,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _pod(*, with_claim: bool) -> Json:
    """A pod of a Deployment with two containers, running; about 9 kB."""
    spec: Json = {**_pod_spec(), "nodeName": _NODE}
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    status: Json = {
        "phase": "Running",
        "startTime": STAMP,
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "conditions": [{"type": name, "status": "True", "lastTransitionTime": STAMP} for name in types],
        "containerStatuses": [_container_status("main"), _container_status("sidecar")],
        "qosClass": "Burstable",
    }
    managed = [_managed("kube-controller-manager", {"f:spec": _owned(spec)})]
    if with_claim:
        spec["resourceClaims"] = [{"name": "card", "resourceClaimTemplateName": "one"}]
        status["resourceClaimStatuses"] = [{"name": "card", "resourceClaimName": f"claim-{_NUMBER}"}]
        own = {"type": f"{NAMES.driver}/Allocated", "status": "True", "reason": "Allocated", "message": "on its node"}
        status["conditions"].append({**own, "lastTransitionTime": STAMP})
    managed.append(_managed("kubelet", {"f:status": _owned(status)}, subresource="status"))
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "application-6d4cf56db6",
        "uid": "r",
        "controller": True,
    }
    metadata = _metadata(
        f"pod-{_NUMBER}",
        f"c9c1a9d6-6a1b-4d0a-a5f8-{_NUMBER}0b2f3a",
        namespace=NAMESPACE,
        generateName="application-6d4cf56db6-",
        labels={"app": "application", "pod-template-hash": "6d4cf56db6", "team": "a"},
        annotations={"prometheus.io/scrape": "true"},
        ownerReferences=[owner],
        managedFields=managed,
    )
    return {"metadata": metadata, "spec": spec, "status": status}


def _claim_spec() -> Json:
    return {"devices": {"requests": [{"name": "card", "exactly": {"deviceClassName": DEVICE_CLASS}}]}}


def _claim() -> Json:
    """A claim that holds a whole card for its pod."""
    pod_uid = f"c9c1a9d6-6a1b-4d0a-a5f8-{_NUMBER}0b2f3a"
    result = {"request": "card", "driver": NAMES.driver, "pool": NAMES.pool(_NODE), "device": f"gpu-{_PLACE}"}
    fields = [{"key": "metadata.name", "operator": "In", "values": [_NODE]}]
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        "allocationTimestamp": STAMP,
    }
    status = {
        "allocation": allocation,
        "reservedFor": [{"resource": "pods", "name": f"pod-{_NUMBER}", "uid": pod_uid}],
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": f"pod-{_NUMBER}", "uid": pod_uid, "controller": True}
    metadata = _metadata(
        f"claim-{_NUMBER}",
        f"claim-{_NUMBER}",
        namespace=NAMESPACE,
        finalizers=[FINALIZER],
        ownerReferences=[owner],
        managedFields=[
            _managed("kube-controller-manager", {"f:spec": _owned(_claim_spec())}),
            _managed("lode", {"f:status": _owned(status)}, subresource="status"),
        ],
    )
    return {"metadata": metadata, "spec": _claim_spec(), "status": status}


def _waiting_pod() -> Json:
    spec = {**_pod_spec(), "schedulingGates": [{"name": NAMES.gate}]}
    spec["resourceClaims"] = [{"name": "card", "resourceClaimName": WAITING}]
    metadata = _metadata(WAITING, WAITING, namespace=NAMESPACE) | {"resourceVersion": "999"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _waiting_claim() -> Json:
    metadata = _metadata(WAITING, WAITING, namespace=NAMESPACE) | {"resourceVersion": "999"}
    return {"metadata": metadata, "spec": _claim_spec()}
