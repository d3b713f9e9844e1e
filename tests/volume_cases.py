"""Pods with a volume, and on which of two nodes they can run: for the predicates, and for a real kube-scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ELSEWHERE = "a volume of the pod cannot be used on the node"
NO_VOLUME = "no volume for PersistentVolumeClaim ns/data can be used or provisioned on the node"


@dataclass(frozen=True)
class Objects:
    """Claims in the namespace ``ns``, volumes, storage classes and CSINodes, as the API has them.

    There are two nodes, n1 in zone a and n2 in zone b, and a pod that uses the claim ``data``.
    """

    claims: Sequence[Json] = ()
    volumes: Sequence[Json] = ()
    classes: Sequence[Json] = ()
    limits: Sequence[Json] = ()


def on(key: str, *values: str) -> Json:
    """The affinity of a volume."""
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def claim(volume: str = "", storage_class: str = "", **more: Any) -> Json:
    """A claim, bound to ``volume``."""
    annotations = more.pop("annotations", {"pv.kubernetes.io/bind-completed": "yes"} if volume else {})
    metadata = {"namespace": "ns", "name": more.pop("name", "data"), "uid": "u", "annotations": annotations}
    metadata |= more.pop("metadata", {})
    status = {"phase": more.pop("phase", "Bound")}
    spec = {
        "volumeName": volume,
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        **more,
    }
    return {"metadata": metadata, "spec": spec, "status": status}


def volume(name: str = "pv", labels: Mapping[str, str] | None = None, phase: str = "Bound", **spec: Any) -> Json:
    modes = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": modes | spec, "status": {"phase": phase}}


def storage_class(name: str = "local", provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> Json:
    return {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def free(name: str, node: str, **spec: Any) -> Json:
    """A volume of the class ``local`` on the node that a claim can be bound to."""
    return volume(name, phase="Available", storageClassName="local", **on(HOST, node), **spec)


def everywhere(reason: str) -> list[tuple[str, ...]]:
    return [(reason,), (reason,)]


FITS: list[tuple[str, ...]] = [(), ()]
"""Both nodes take the pod."""
TOPOLOGIES = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]
CASES: list[tuple[str, Objects, list[tuple[str, ...]]]] = [
    ("a bound volume on n2", Objects([claim("pv")], [volume(**on(HOST, "n2"))]), [(ELSEWHERE,), ()]),
    ("a bound volume without affinity", Objects([claim("pv")], [volume()]), FITS),
    ("an affinity without a term", Objects([claim("pv")], [volume(nodeAffinity={"required": {}})]), [(ELSEWHERE,)] * 2),
    ("no claim", Objects(), everywhere("PersistentVolumeClaim ns/data does not exist")),
    (
        "no volume",
        Objects([claim("pv")]),
        everywhere("PersistentVolume pv of PersistentVolumeClaim ns/data does not exist"),
    ),
    (
        "a lost volume",
        Objects([claim("pv", phase="Lost")], [volume()]),
        everywhere("PersistentVolume pv of PersistentVolumeClaim ns/data does not exist"),
    ),
    (
        "a claim that is being deleted",
        Objects([claim("pv", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], [volume()]),
        everywhere("PersistentVolumeClaim ns/data is being deleted"),
    ),
    (
        "a claim that is to be bound at once",
        Objects([claim(storage_class="local")], [], [storage_class(volumeBindingMode="Immediate")]),
        everywhere("PersistentVolumeClaim ns/data is not bound to a volume"),
    ),
    ("a claim without class", Objects([claim()]), everywhere("PersistentVolumeClaim ns/data is not bound to a volume")),
    (
        "a claim of a class that does not exist",
        Objects([claim(storage_class="local")]),
        everywhere("PersistentVolumeClaim ns/data is not bound to a volume"),
    ),
    (
        "a claim whose binding is not completed",
        Objects([claim("pv", "local", annotations={})], [volume()], [storage_class()]),
        everywhere("PersistentVolumeClaim ns/data is not bound to a volume"),
    ),
    (
        "a volume in zone a",
        Objects([claim("pv")], [volume(labels={ZONE: "a"})]),
        [(), ("a volume of the pod is in another zone",)],
    ),
    ("a volume in both zones", Objects([claim("pv")], [volume(labels={ZONE: "a__b"})]), FITS),
    (
        "a volume in a zone by the former label",
        Objects([claim("pv")], [volume(labels={"failure-domain.beta.kubernetes.io/zone": "b"})]),
        [("a volume of the pod is in another zone",), ()],
    ),
    ("no free volume", Objects([claim(storage_class="local")], [], [storage_class()]), everywhere(NO_VOLUME)),
    (
        "a free volume on n1",
        Objects([claim(storage_class="local")], [free("pv", "n1")], [storage_class()]),
        [(), (NO_VOLUME,)],
    ),
    (
        "a free volume that is too small",
        Objects([claim(storage_class="local")], [free("pv", "n1", capacity={"storage": "4Gi"})], [storage_class()]),
        everywhere(NO_VOLUME),
    ),
    (
        "a free volume of another access mode",
        Objects([claim(storage_class="local")], [free("pv", "n1", accessModes=["ReadOnlyMany"])], [storage_class()]),
        everywhere(NO_VOLUME),
    ),
    (
        "a free volume of another mode",
        Objects([claim(storage_class="local")], [free("pv", "n1", volumeMode="Block")], [storage_class()]),
        everywhere(NO_VOLUME),
    ),
    (
        "a free volume that the claim does not select",
        Objects(
            [claim(storage_class="local", selector={"matchLabels": {"a": "b"}})], [free("pv", "n1")], [storage_class()]
        ),
        everywhere(NO_VOLUME),
    ),
    (
        "a volume that another claim holds",
        Objects(
            [claim(storage_class="local")],
            [free("pv", "n1", claimRef={"namespace": "ns", "name": "other"})],
            [storage_class()],
        ),
        everywhere(NO_VOLUME),
    ),
    (
        "a volume that is reserved for the claim rules out others",
        Objects(
            [claim(storage_class="local")],
            [free("a", "n1"), free("b", "n2", claimRef={"namespace": "ns", "name": "data", "uid": "u"})],
            [storage_class()],
        ),
        [(NO_VOLUME,), ()],
    ),
    (
        "a volume that was reserved for a namesake of the claim",
        Objects(
            [claim(storage_class="local")],
            [free("a", "n1"), free("b", "n2", claimRef={"namespace": "ns", "name": "data", "uid": "old"})],
            [storage_class()],
        ),
        [(), (NO_VOLUME,)],
    ),
    (
        "a class that provisions anywhere",
        Objects([claim(storage_class="local")], [], [storage_class(provisioner="csi.example.com")]),
        FITS,
    ),
    (
        "a class that provisions in zone b",
        Objects(
            [claim(storage_class="local")],
            [],
            [storage_class(provisioner="csi.example.com", allowedTopologies=TOPOLOGIES)],
        ),
        [(NO_VOLUME,), ()],
    ),
    (
        "a class that provisions nowhere",
        Objects(
            [claim(storage_class="local")], [], [storage_class(provisioner="csi.example.com", allowedTopologies=[{}])]
        ),
        everywhere(NO_VOLUME),
    ),
    (
        "a claim that is provisioned for n2",
        Objects(
            [claim(storage_class="local", annotations={"volume.kubernetes.io/selected-node": "n2"})],
            [free("pv", "n1")],
            [storage_class(provisioner="csi.example.com")],
        ),
        [("a volume of the pod is being provisioned for another node",), ()],
    ),
]
