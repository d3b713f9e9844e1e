"""Volumes decide on nodes as in kube-scheduler (VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from controller.placement import (
    NodeFacts,
    Nodes,
    PodCheck,
    needs_of,
    storage_class_from,
    volume_claim_from,
    volume_from,
    volume_limits_from,
)
from driver.quantity import NANO

Json = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ELSEWHERE = "a volume of the pod cannot be used on the node"
NO_VOLUME = "no volume for PersistentVolumeClaim ns/data can be used or provisioned on the node"


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


def pod(*volumes: Json) -> Json:
    return {
        "metadata": {"namespace": "ns", "name": "p", "uid": "pod-uid"},
        "spec": {"volumes": volumes or (named("data"),)},
    }


def named(name: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def cluster(
    claims: Sequence[Json] = (), volumes: Sequence[Json] = (), classes: Sequence[Json] = (), limits: Sequence[Json] = ()
) -> Nodes:
    """Nodes n1 in zone a, n2 in zone b."""
    nodes = Nodes()
    for name, zone in (("n1", "a"), ("n2", "b")):
        labels = {HOST: name, ZONE: zone}
        nodes.upsert(NodeFacts(name, ready=True, labels=labels, allocatable={"pods": 10 * NANO}))
    for obj in claims:
        nodes.storage.put_claim(volume_claim_from(obj))
    for obj in volumes:
        nodes.storage.put_volume(volume_from(obj))
    for obj in classes:
        nodes.storage.put_class(storage_class_from(obj))
    for obj in limits:
        nodes.storage.put_limits(volume_limits_from(obj))
    return nodes


def reasons(nodes: Nodes, asked: Json | None = None) -> list[tuple[str, ...]]:
    check = PodCheck("ns/p", needs_of(asked or pod()), nodes)
    found = [check.reasons(name) for name in nodes]
    assert [check.passes(name) for name in nodes] == [not each for each in found]
    return found


def everywhere(reason: str) -> list[tuple[str, ...]]:
    return [(reason,), (reason,)]


FITS: list[tuple[str, ...]] = [(), ()]
TOPOLOGIES = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]
TABLE: list[tuple[str, Nodes, list[tuple[str, ...]]]] = [
    ("a bound volume on n2", cluster([claim("pv")], [volume(**on(HOST, "n2"))]), [(ELSEWHERE,), ()]),
    ("a bound volume without affinity", cluster([claim("pv")], [volume()]), FITS),
    ("an affinity without a term", cluster([claim("pv")], [volume(nodeAffinity={"required": {}})]), [(ELSEWHERE,)] * 2),
    ("no claim", cluster(), everywhere("PersistentVolumeClaim ns/data does not exist")),
    (
        "no volume",
        cluster([claim("pv")]),
        everywhere("PersistentVolume pv of PersistentVolumeClaim ns/data does not exist"),
    ),
    (
        "a lost volume",
        cluster([claim("pv", phase="Lost")], [volume()]),
        everywhere("PersistentVolume pv of PersistentVolumeClaim ns/data does not exist"),
    ),
    (
        "a claim that is being deleted",
        cluster([claim("pv", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], [volume()]),
        everywhere("PersistentVolumeClaim ns/data is being deleted"),
    ),
    (
        "a claim that is to be bound at once",
        cluster([claim(storage_class="local")], [], [storage_class(volumeBindingMode="Immediate")]),
        everywhere("PersistentVolumeClaim ns/data is not bound to a volume"),
    ),
    ("a claim without class", cluster([claim()]), everywhere("PersistentVolumeClaim ns/data is not bound to a volume")),
    (
        "a claim of a class that does not exist",
        cluster([claim(storage_class="local")]),
        everywhere("PersistentVolumeClaim ns/data is not bound to a volume"),
    ),
    (
        "a claim whose binding is not completed",
        cluster([claim("pv", "local", annotations={})], [volume()], [storage_class()]),
        everywhere("PersistentVolumeClaim ns/data is not bound to a volume"),
    ),
    (
        "a volume in zone a",
        cluster([claim("pv")], [volume(labels={ZONE: "a"})]),
        [(), ("a volume of the pod is in another zone",)],
    ),
    ("a volume in both zones", cluster([claim("pv")], [volume(labels={ZONE: "a__b"})]), FITS),
    (
        "a volume in a zone by the former label",
        cluster([claim("pv")], [volume(labels={"failure-domain.beta.kubernetes.io/zone": "b"})]),
        [("a volume of the pod is in another zone",), ()],
    ),
    ("no free volume", cluster([claim(storage_class="local")], [], [storage_class()]), everywhere(NO_VOLUME)),
    (
        "a free volume on n1",
        cluster([claim(storage_class="local")], [free("pv", "n1")], [storage_class()]),
        [(), (NO_VOLUME,)],
    ),
    (
        "a free volume that is too small",
        cluster([claim(storage_class="local")], [free("pv", "n1", capacity={"storage": "4Gi"})], [storage_class()]),
        everywhere(NO_VOLUME),
    ),
    (
        "a free volume of another access mode",
        cluster([claim(storage_class="local")], [free("pv", "n1", accessModes=["ReadOnlyMany"])], [storage_class()]),
        everywhere(NO_VOLUME),
    ),
    (
        "a free volume of another mode",
        cluster([claim(storage_class="local")], [free("pv", "n1", volumeMode="Block")], [storage_class()]),
        everywhere(NO_VOLUME),
    ),
    (
        "a free volume that the claim does not select",
        cluster(
            [claim(storage_class="local", selector={"matchLabels": {"a": "b"}})], [free("pv", "n1")], [storage_class()]
        ),
        everywhere(NO_VOLUME),
    ),
    (
        "a volume that another claim holds",
        cluster(
            [claim(storage_class="local")],
            [free("pv", "n1", claimRef={"namespace": "ns", "name": "other"})],
            [storage_class()],
        ),
        everywhere(NO_VOLUME),
    ),
    (
        "a volume that is reserved for the claim rules out others",
        cluster(
            [claim(storage_class="local")],
            [free("a", "n1"), free("b", "n2", claimRef={"namespace": "ns", "name": "data", "uid": "u"})],
            [storage_class()],
        ),
        [(NO_VOLUME,), ()],
    ),
    (
        "a volume that was reserved for a namesake of the claim",
        cluster(
            [claim(storage_class="local")],
            [free("a", "n1"), free("b", "n2", claimRef={"namespace": "ns", "name": "data", "uid": "old"})],
            [storage_class()],
        ),
        [(), (NO_VOLUME,)],
    ),
    (
        "a class that provisions anywhere",
        cluster([claim(storage_class="local")], [], [storage_class(provisioner="csi.example.com")]),
        FITS,
    ),
    (
        "a class that provisions in zone b",
        cluster(
            [claim(storage_class="local")],
            [],
            [storage_class(provisioner="csi.example.com", allowedTopologies=TOPOLOGIES)],
        ),
        [(NO_VOLUME,), ()],
    ),
    (
        "a class that provisions nowhere",
        cluster(
            [claim(storage_class="local")], [], [storage_class(provisioner="csi.example.com", allowedTopologies=[{}])]
        ),
        everywhere(NO_VOLUME),
    ),
    (
        "a claim that is provisioned for n2",
        cluster(
            [claim(storage_class="local", annotations={"volume.kubernetes.io/selected-node": "n2"})],
            [free("pv", "n1")],
            [storage_class(provisioner="csi.example.com")],
        ),
        [("a volume of the pod is being provisioned for another node",), ()],
    ),
]


@pytest.mark.parametrize(("nodes", "expected"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE])
def test_a_pod_with_a_claim(nodes: Nodes, expected: list[tuple[str, ...]]) -> None:
    assert reasons(nodes) == expected


def test_two_claims_do_not_get_one_volume() -> None:
    claims = [claim(storage_class="local"), claim(storage_class="local", name="more")]
    asked = pod(named("data"), named("more"))
    nodes = cluster(claims, [free("a", "n1"), free("b", "n2"), free("c", "n2")], [storage_class()])
    (no_volume,), fits = reasons(nodes, asked)
    assert no_volume.startswith("no volume for PersistentVolumeClaim ns/more")
    assert fits == ()


def test_the_smaller_claim_leaves_the_larger_volume() -> None:
    large = claim(storage_class="local", name="large", resources={"requests": {"storage": "9Gi"}})
    volumes = [free("a", "n1", capacity={"storage": "10Gi"}), free("b", "n1", capacity={"storage": "5Gi"})]
    nodes = cluster([large, claim(storage_class="local")], volumes, [storage_class()])
    assert reasons(nodes, pod(named("large"), named("data")))[0] == ()


def test_only_one_pod_uses_a_claim_that_allows_one() -> None:
    nodes = cluster([claim("pv", accessModes=["ReadWriteOncePod"])], [volume()])
    assert reasons(nodes) == FITS
    before = PodCheck("ns/p", needs_of(pod()), nodes).version
    nodes.count("ns/q", needs_of(pod()), "n1")
    assert PodCheck("ns/p", needs_of(pod()), nodes).version != before
    assert reasons(nodes) == everywhere(
        "another pod uses PersistentVolumeClaim ns/data, which allows only one (ReadWriteOncePod)"
    )
    nodes.discount("ns/q")
    assert reasons(nodes) == FITS
    nodes.count("ns/p", needs_of(pod()), "n1")
    assert reasons(nodes) == FITS, "the pod itself uses it"


CSI = {"csi": {"driver": "csi.example.com", "volumeHandle": "h"}}


def limit(node: str, most: int) -> Json:
    drivers = [{"name": "csi.example.com", "allocatable": {"count": most}}, {"name": "other.example.com"}]
    return {"metadata": {"name": node}, "spec": {"drivers": drivers}}


def test_a_node_uses_so_many_volumes_of_a_driver() -> None:
    def csi(name: str) -> Json:
        return volume(name, csi={"driver": "csi.example.com", "volumeHandle": name})

    claims = [claim("pv"), claim("other", name="other"), claim("third", name="third")]
    nodes = cluster(claims, [csi("pv"), csi("other"), csi("third")], [], [limit("n1", 1), limit("n2", 2)])
    assert reasons(nodes) == FITS
    for node in nodes:
        nodes.count(f"ns/{node}", needs_of(pod(named("other"))), node)
    full = "the node cannot use more volumes of csi.example.com (limit 1)"
    assert reasons(nodes) == [(full,), ()]
    assert reasons(nodes, pod(named("other"))) == FITS, "it is attached already"
    nodes.storage.put_limits(volume_limits_from(limit("n1", 2)))
    assert reasons(nodes) == FITS


def test_a_volume_to_be_provisioned_counts_against_the_limit() -> None:
    waits = storage_class(provisioner="csi.example.com")
    nodes = cluster([claim(storage_class="local")], [], [waits], [limit("n1", 0)])
    assert reasons(nodes) == [("the node cannot use more volumes of csi.example.com (limit 0)",), ()]


def test_the_claim_of_an_ephemeral_volume_belongs_to_the_pod() -> None:
    asked = pod({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}})
    assert reasons(cluster(), asked) == everywhere("PersistentVolumeClaim ns/p-scratch does not exist")
    owner = {"ownerReferences": [{"uid": "pod-uid", "controller": True}]}
    assert reasons(cluster([claim("pv", name="p-scratch", metadata=owner)], [volume()]), asked) == FITS
    nodes = cluster([claim("pv", name="p-scratch")], [volume()])
    assert reasons(nodes, asked) == everywhere("PersistentVolumeClaim ns/p-scratch was not created for the pod")


def test_volumes_exclude_no_node_while_a_kind_of_theirs_may_not_be_read() -> None:
    nodes = cluster()
    nodes.storage.unreadable.add("PersistentVolume")
    assert reasons(nodes) == FITS
