"""What pods are told: short, whatever their authors wrote, and true."""

import pytest

from driver.kube.api import NODES, RESOURCE_SLICES
from driver.limits import MAX_EVENT_MESSAGE
from tests.unit.controller.loop.world import World


def test_a_claim_of_300_kb_that_is_not_valid_makes_short_conditions_and_events() -> None:
    world = World()
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
    world = World(nodes=nodes, cards=1)
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
