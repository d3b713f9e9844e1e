"""Namespaces and volumes: who is decided anew when they change, and what holds while they cannot be read."""

from typing import Any

import pytest

from controller.placement import PodCheck
from controller.reconcile import decide
from controller.reconcile.decisions import PlacePod
from controller.refusal import Refusal
from controller.state import GANG_RESOURCES, State
from controller.state.kinds import OPTIONAL_RESOURCES, VOLUME_RESOURCES
from driver.kube.api import (
    CSI_NODES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Object,
    Resource,
)
from driver.kube.reflector import Synced, Unreadable
from tests.unit.controller.filled_state import NOW, FilledState

MOUNTS = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def volume(node: str) -> Object:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "metadata": {"name": "pv"},
        "spec": {"nodeAffinity": {"required": required}, "capacity": {"storage": "1Gi"}},
    }


def bound() -> Object:
    metadata = {"name": "data", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    return {"metadata": metadata, "spec": {"volumeName": "pv", "accessModes": ["ReadWriteOnce"]}}


def storage_class(name: str = "local") -> Object:
    return {"metadata": {"name": name}, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}


def limits(count: int = 1) -> Object:
    drivers = [{"name": "csi.example.com", "allocatable": {"count": count}}]
    return {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}}


def waiting_with_a_volume(nodes: int = 2) -> FilledState:
    scene = FilledState(nodes, host_labels=True)
    for name in ("p", "q"):
        scene.claim(f"{name}-gpu")
    scene.pod("p", "p-gpu", volumes=MOUNTS)
    scene.pod("q", "q-gpu")
    return scene


def test_a_pod_with_a_bound_volume_is_placed_where_the_volume_is_at_the_first_try() -> None:
    scene = waiting_with_a_volume(1000)
    scene.put(PERSISTENT_VOLUMES, volume("n3"))
    scene.put(PERSISTENT_VOLUME_CLAIMS, bound())
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, PlacePod)
    assert decision.node == "n3"


CHANGES: list[tuple[Resource, Object, Object]] = [
    (PERSISTENT_VOLUMES, volume("n1"), volume("n2")),
    (PERSISTENT_VOLUME_CLAIMS, bound(), {**bound(), "spec": {}}),
    (STORAGE_CLASSES, storage_class(), {**storage_class(), "provisioner": "other.example.com"}),
    (CSI_NODES, limits(), limits(2)),
]


@pytest.mark.parametrize(("resource", "before", "after"), CHANGES, ids=[change[0].plural for change in CHANGES])
def test_a_change_wakes_the_pods_with_volumes_and_no_others(resource: Resource, before: Any, after: Any) -> None:
    scene = waiting_with_a_volume()
    state = scene.state
    generations = [state.nodes.generation]
    for obj in (before, after):
        changes = scene.put(resource, obj)
        assert (list(changes.pods), list(changes.favoured)) == (["default/p"], [])
        generations.append(state.nodes.generation)
        assert not scene.put(resource, obj).pods, "nothing has changed"
    key = "default/data" if resource.namespaced else after["metadata"]["name"]
    assert list(state.drop(resource, key).pods) == ["default/p"]
    assert len({*generations, state.nodes.generation}) == 4


def test_a_claim_wakes_its_own_pods_only() -> None:
    scene = waiting_with_a_volume()
    other = {**bound(), "metadata": {"name": "other", "namespace": "default"}}
    assert not scene.put(PERSISTENT_VOLUME_CLAIMS, other).pods
    scene.pod("p", "p-gpu", volumes=MOUNTS, nodeName="n1")
    assert not scene.put(PERSISTENT_VOLUME_CLAIMS, bound()).pods, "the pod is bound already"


def test_labels_of_a_namespace_wake_pods_only_if_a_term_asks_for_them() -> None:
    scene = FilledState()
    assert not scene.put(NAMESPACES, {"metadata": {"name": "other", "labels": {"a": "b"}}}).favoured
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    scene.pod("p", nodeName="n1", gates=(), affinity=required)
    assert scene.put(NAMESPACES, {"metadata": {"name": "other", "labels": {"a": "c"}}}).favoured
    assert scene.state.drop(NAMESPACES, "other").favoured


@pytest.mark.parametrize("resource", VOLUME_RESOURCES, ids=lambda resource: resource.plural)
def test_volumes_exclude_no_node_until_all_that_belongs_to_them_can_be_read(resource: Resource) -> None:
    scene = waiting_with_a_volume()
    assert isinstance(decide(scene.state, "default/p", NOW), Refusal), "its claim does not exist"
    scene.state.apply(Unreadable(resource))
    assert isinstance(decide(scene.state, "default/p", NOW), PlacePod)
    scene.state.apply(Synced(resource, frozenset(), "0"))
    assert isinstance(decide(scene.state, "default/p", NOW), Refusal)


def test_only_these_kinds_are_read_to_choose_nodes() -> None:
    others = {resource.plural for resource in GANG_RESOURCES} | {"devicetaintrules", "resourcequotas"}
    read = {resource.plural for resource in OPTIONAL_RESOURCES} - others
    assert read == {"namespaces", "persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes"}


def test_a_kind_that_cannot_be_read_does_not_keep_decisions_waiting() -> None:
    state: State = FilledState().state
    for resource in state.resources:
        delta = Unreadable(resource) if resource in OPTIONAL_RESOURCES else Synced(resource, frozenset(), "0")
        assert not state.complete
        state.apply(delta)
    assert state.complete


def test_a_pod_without_terms_and_volumes_has_nothing_to_keep_a_version_of() -> None:
    scene = waiting_with_a_volume()
    pod = scene.state.pods["default/q"]
    assert PodCheck(pod.key, pod.needs, scene.state.nodes).version == ((), (), ())
