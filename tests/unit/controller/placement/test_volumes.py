"""Volumes decide on nodes as in kube-scheduler (VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits)."""

from collections.abc import Sequence

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
from tests.volume_cases import CASES, FITS, HOST, ZONE, Json, Objects, claim, everywhere, free, storage_class, volume


def pod(*volumes: Json) -> Json:
    return {
        "metadata": {"namespace": "ns", "name": "p", "uid": "pod-uid"},
        "spec": {"volumes": volumes or (named("data"),)},
    }


def named(name: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def cluster(*objects: Sequence[Json]) -> Nodes:
    """Nodes n1 in zone a, n2 in zone b, with these ``Objects``."""
    found, nodes = Objects(*objects), Nodes()
    for name, zone in (("n1", "a"), ("n2", "b")):
        labels = {HOST: name, ZONE: zone}
        nodes.upsert(NodeFacts(name, ready=True, labels=labels, allocatable={"pods": 10 * NANO}))
    for obj in found.claims:
        nodes.storage.put_claim(volume_claim_from(obj))
    for obj in found.volumes:
        nodes.storage.put_volume(volume_from(obj))
    for obj in found.classes:
        nodes.storage.put_class(storage_class_from(obj))
    for obj in found.limits:
        nodes.storage.put_limits(volume_limits_from(obj))
    return nodes


def reasons(nodes: Nodes, asked: Json | None = None) -> list[tuple[str, ...]]:
    check = PodCheck("ns/p", needs_of(asked or pod()), nodes)
    found = [check.reasons(name) for name in nodes]
    assert [check.passes(name) for name in nodes] == [not each for each in found]
    return found


@pytest.mark.parametrize(("objects", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_pod_with_a_claim(objects: Objects, expected: list[tuple[str, ...]]) -> None:
    assert reasons(cluster(objects.claims, objects.volumes, objects.classes, objects.limits)) == expected


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
