"""What pods are told: short, whatever their authors wrote, and true."""

import json

import pytest

from driver.kube.api import NAMESPACES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.limits import MAX_EVENT_MESSAGE
from tests.unit.controller.loop.world import ControllerWorld


def test_a_claim_of_300_kb_that_is_not_valid_makes_short_conditions_and_events() -> None:
    world = ControllerWorld()
    asked = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig"}
    opaque = [
        {"opaque": {"driver": "lode.dev", "parameters": asked | {"policy": f"{i}" + "y" * 9_900}}} for i in range(32)
    ]
    world.add_claim("big", config=opaque)
    for number in range(3):
        world.add_pod(f"p{number}", "big")
    world.settle(5)
    for number in range(3):
        status, reason, message = world.condition(f"p{number}")
        assert (status, reason) == ("False", "InvalidParameters")
        assert len(message) <= MAX_EVENT_MESSAGE
        assert "more" in message
    assert all(len(text) <= MAX_EVENT_MESSAGE for text in world.events("big"))


@pytest.mark.parametrize("nodes", [0, 1])
def test_a_pod_in_a_cluster_without_nodes_is_told_so(nodes: int) -> None:
    world = ControllerWorld(nodes=nodes, cards=1)
    if nodes:
        world.api.delete(NODES, "n1")
        world.api.delete(RESOURCE_SLICES, "n1-lode.dev")
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(5)
    said = "the cluster has no nodes; the pod is placed as soon as there is one with such devices"
    assert world.condition("p")[1:] == ("Unallocatable", said)
    world.add_node("new", 1)
    world.settle(5)
    assert world.condition("p")[0] == "True"


class Sharing(ControllerWorld):
    """Its cards can be shared."""

    def publish(self, node: str, cards: int, driver: str = "lode.dev") -> None:
        policy = {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}}
        card = {
            "name": "gpu-0",
            "attributes": {"kind": {"string": "gpu"}},
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
        }
        pool = {"name": f"{node}/{driver}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [card]}
        self.api.create(RESOURCE_SLICES, {"metadata": {"name": f"{node}-{driver}"}, "spec": spec})


def test_a_share_whose_memory_lacks_a_unit_is_noted_in_the_condition() -> None:
    world = Sharing()
    request = {"deviceClassName": "gpu.lode.dev", "capacity": {"requests": {"memory": "4096"}}}
    spec = {"devices": {"requests": [{"name": "share", "exactly": request}]}}
    world.api.create(RESOURCE_CLAIMS, {"metadata": {"name": "small", "namespace": "default"}, "spec": spec})
    world.add_pod("p", "small")
    world.settle(5)
    assert world.condition("p") == (
        "True",
        "Allocated",
        "on node n1; ResourceClaim default/small: request share: memory 4096 is 4096 bytes; a unit may be missing, "
        "such as 4096Mi",
    )


def test_a_gang_is_told_what_holds_the_devices_and_no_claim_of_another_namespace() -> None:
    world = ControllerWorld(nodes=1, cards=4)
    for name in ("one", "two"):
        world.add_claim(name)
        world.add_pod(name, name)
    world.settle(5)
    world.api.create(NAMESPACES, {"metadata": {"name": "other"}})
    foreign = {"metadata": {"name": "secret", "namespace": "other"}, "spec": world.claim("one")["spec"]}
    stored = world.api.create(RESOURCE_CLAIMS, foreign)
    allocation = json.loads(json.dumps(world.claim("one")["status"]["allocation"]).replace("gpu-0", "gpu-3"))
    user = {"resource": "pods", "name": "p", "uid": "u"}
    world.api.update(RESOURCE_CLAIMS, {**stored, "status": {"allocation": allocation, "reservedFor": [user]}}, "status")
    asked = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": {"name": "train", "minAvailable": 4}}
    for number in range(4):
        world.add_claim(f"m{number}", config=[{"opaque": {"driver": "lode.dev", "parameters": asked}}])
        world.add_pod(f"m{number}", f"m{number}")
    world.settle(15)
    status, reason, message = world.condition("m0")
    assert (status, reason) == ("False", "Unallocatable")
    assert message.endswith(
        "; 3 of 4 such devices are in use, by default/one, default/two, a claim in another namespace"
    )
    assert "secret" not in message
