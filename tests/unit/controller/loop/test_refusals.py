"""A pod that kube-scheduler refuses where its devices are loses them there and gets others elsewhere."""

import pytest

from controller.reconcile import LAST_RESORT_SECONDS, PATIENCE_SECONDS
from driver.kube.api import RESOURCE_CLAIMS
from tests.unit.controller.loop.world import World


def refused(nodes: int = 2) -> World:
    world = World(nodes=nodes)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    world.refuse("p")
    return world


def test_the_pod_is_moved_to_another_node_and_told_so() -> None:
    world = refused()
    world.settle(10)
    assert world.devices("a") == ["n2/gpu-0"]
    assert world.pod("p")["status"]["nominatedNodeName"] == "n2"
    assert world.condition("p") == ("True", "Allocated", "on node n2")
    (event,) = world.events("p", "AllocationTakenBack")
    assert event == "took back the devices on node n1: kube-scheduler refuses the pod there: node had a taint"
    world.check()


def test_one_refusal_of_the_moment_is_not_believed() -> None:
    world = refused()
    world.settle(2)
    assert world.devices("a") == ["n1/gpu-0"]
    world.bind("p", "n1")
    world.settle(60)
    assert world.devices("a") == ["n1/gpu-0"]


def test_without_another_node_the_devices_are_free_for_others_until_the_last_resort() -> None:
    world = refused(nodes=1)
    world.settle(7)
    assert world.devices("a") == []
    assert world.condition("p")[:2] == ("False", "Unallocatable")
    assert world.condition("p")[2].startswith("kube-scheduler refuses the pod on 1 node: node had a taint. ")
    world.settle(LAST_RESORT_SECONDS)
    assert world.devices("a") != []


def test_kube_scheduler_reserving_again_between_the_two_steps_wins() -> None:
    world = refused()
    world.settle(PATIENCE_SECONDS + 0.5)
    claim = world.claim("a")
    assert claim["status"].get("reservedFor") is None, "the reservation is dropped first"
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": world.pod("p")["metadata"]["uid"]}]
    world.api.update(RESOURCE_CLAIMS, claim, "status")
    world.bind("p", "n1")
    world.settle(60)
    assert world.devices("a") == ["n1/gpu-0"]


@pytest.mark.parametrize("rival", [False, True])
def test_kube_scheduler_that_reserves_again_and_binds_a_moment_later_keeps_the_devices(rival: bool) -> None:
    world = refused(nodes=1)
    world.settle(PATIENCE_SECONDS + 0.5)
    if rival:
        world.add_claim("b", count=2)
        world.add_pod("q", "b")
    claim = world.claim("a")
    assert claim["status"].get("reservedFor") is None, "the reservation is dropped first"
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": world.pod("p")["metadata"]["uid"]}]
    world.api.update(RESOURCE_CLAIMS, claim, "status")
    world.settle(0.6)
    assert world.devices("a") == ["n1/gpu-0"], "kube-scheduler is about to bind the pod"
    world.bind("p", "n1")
    world.settle(120)
    assert world.devices("a") == ["n1/gpu-0"]


def test_a_pod_that_is_reserved_again_and_never_bound_is_moved_in_the_end() -> None:
    world = refused()
    world.settle(PATIENCE_SECONDS + 0.5)
    claim = world.claim("a")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": world.pod("p")["metadata"]["uid"]}]
    world.api.update(RESOURCE_CLAIMS, claim, "status")
    world.settle(10)
    assert world.devices("a") == ["n2/gpu-0"]


def test_a_pod_bound_before_the_controller_has_heard_of_it_keeps_its_devices() -> None:
    world = refused()
    world.settle(PATIENCE_SECONDS + 0.5)
    world.meddler.before = lambda what, _: world.bind("p", "n1") if what == "get pods" else None
    world.settle(0.6)
    world.meddler.before = None
    world.settle(60)
    assert world.devices("a") == ["n1/gpu-0"]


def test_a_claim_that_others_use_stays() -> None:
    world = World(nodes=2)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.add_pod("q", "a")
    world.settle()
    assert len(world.claim("a")["status"]["reservedFor"]) == 2
    world.refuse("p")
    world.settle(100)
    assert world.devices("a") == ["n1/gpu-0"]
    assert world.condition("p")[:2] == ("False", "Refused")
    assert "other consumers use the claims" in world.condition("p")[2]


def test_a_bound_pod_whose_devices_were_taken_gets_devices_on_its_node() -> None:
    world = refused()
    world.settle(1)
    claim = world.claim("a")
    claim["status"] = {}
    world.api.update(RESOURCE_CLAIMS, claim, "status")
    world.bind("p", "n2")
    world.settle(1)
    assert world.devices("a") == ["n2/gpu-0"]


def test_a_gated_pod_whose_node_dies_is_moved() -> None:
    world = World(nodes=2)
    world.add_claim("a")
    world.add_pod("p", "a")

    def die(what: str, _: object) -> None:
        if what == "patch pods/status" and world.devices("a") == ["n1/gpu-0"]:
            world.set_ready("n1", False)
            raise KeyboardInterrupt

    world.meddler.before = die
    try:
        world.settle()
    except KeyboardInterrupt:
        world.start()
    world.settle(1)
    assert world.devices("a") == ["n2/gpu-0"]
    assert world.gates("p") == []
