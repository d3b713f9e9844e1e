"""A pod with volumes that kube-scheduler refused is tried again when something about its volumes changes."""

from contextlib import suppress

import pytest

from driver.kube.api import (
    CSI_NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    NotFound,
    Object,
    Resource,
)
from tests.unit.controller.loop.world import ControllerWorld

DRIVER = "csi.example.com"
PROVISIONED_FOR = "volume.kubernetes.io/selected-node"


def volume_class(provisioner: str = DRIVER) -> Object:
    return {
        "metadata": {"name": "standard"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, size: str = "1Gi", claim: str = "data") -> Object:
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "standard",
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"namespace": "default", "name": claim},
    }
    return {"metadata": {"name": name}, "spec": spec}


def volume_claim(name: str = "data", to: str = "pv", **annotations: str) -> Object:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if to else {}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "volumeName": to}
    resources = {"requests": {"storage": "1Gi"}}
    metadata = {"name": name, "namespace": "default", "annotations": {**bound, **annotations}}
    return {"metadata": metadata, "spec": {**spec, "resources": resources}}


def limits(node: str, count: int) -> Object:
    drivers = [{"name": DRIVER, "nodeID": node, "topologyKeys": [], "allocatable": {"count": count}}]
    return {"metadata": {"name": node}, "spec": {"drivers": drivers}}


def refused_everywhere(to: str) -> ControllerWorld:
    """A pod with a claim for a volume, bound to ``to`` if that is set, which both nodes refused."""
    world = ControllerWorld(nodes=2)
    world.api.create(STORAGE_CLASSES, volume_class())
    world.api.create(PERSISTENT_VOLUMES, volume("pv"))
    world.api.create(PERSISTENT_VOLUME_CLAIMS, volume_claim(to=to), "default")
    for node in ("n1", "n2"):
        world.api.create(CSI_NODES, limits(node, 8))
    world.add_claim("a")
    world.add_pod("p", "a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    for node in ("n1", "n2"):
        world.settle(10)
        assert world.devices("a") == [f"{node}/gpu-0"]
        world.refuse("p", "0/2 nodes are available: 1 node(s) had a volume fault")
    world.settle(10)
    assert world.devices("a") == []
    return world


def replace(world: ControllerWorld, resource: Resource, obj: Object) -> None:
    """Put the object in the place of the one of its name."""
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
    with suppress(NotFound):
        version = world.api.get(resource, name, namespace)["metadata"]["resourceVersion"]
        world.api.update(resource, {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}})
        return
    world.api.create(resource, obj, namespace)


@pytest.mark.parametrize(
    ("to", "resource", "changed", "tried"),
    [
        ("pv", PERSISTENT_VOLUMES, volume("pv", "2Gi"), "n1"),
        ("", PERSISTENT_VOLUME_CLAIMS, volume_claim(to="pv"), "n1"),
        ("", STORAGE_CLASSES, volume_class("other.example.com"), "n1"),
        ("pv", CSI_NODES, limits("n1", 9), "n1"),
        ("pv", CSI_NODES, limits("n2", 9), "n2"),
        ("pv", PERSISTENT_VOLUMES, volume("other", claim="other"), ""),
        ("pv", PERSISTENT_VOLUME_CLAIMS, volume_claim("other", "other"), ""),
        ("", PERSISTENT_VOLUME_CLAIMS, volume_claim(to="", **{PROVISIONED_FOR: "n1"}), ""),
    ],
    ids=[
        "its volume",
        "its claim is bound",
        "its class",
        "the limit of one node",
        "the limit of the other node",
        "another volume",
        "another claim",
        "the node that kube-scheduler chose for its claim",
    ],
)
def test_a_refusal_holds_for_what_the_volumes_of_the_pod_were(
    to: str, resource: Resource, changed: Object, tried: str
) -> None:
    world = refused_everywhere(to)
    replace(world, resource, changed)
    world.settle(1)
    assert world.devices("a") == ([f"{tried}/gpu-0"] if tried else [])
