"""A pod that kube-scheduler refuses where its devices are loses them there and gets others elsewhere."""

import pytest

from controller.reconcile.history import LAST_RESORT_SECONDS, PATIENCE_SECONDS, RELEASE_SECONDS
from driver.kube.api import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.unit.controller.loop.world import ControllerWorld


def refused(nodes: int = 2) -> ControllerWorld:
    world = ControllerWorld(nodes=nodes)
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


def test_the_node_is_not_nominated_any_more_before_anything_is_told() -> None:
    """kube-scheduler keeps the CPU of a nominated node from other pods, and telling may wait for ever."""
    world = refused(nodes=1)
    before = len(world.meddler.calls)
    world.settle(7)
    calls = list(zip(world.meddler.calls, world.meddler.bodies, strict=True))[before:]
    first, second = [body[1]["status"] for call, body in calls if call == "patch pods/status"]
    assert first == {"nominatedNodeName": None}
    assert "conditions" in second


def test_between_the_two_steps_the_pods_cpu_is_nobody_elses() -> None:
    """kube-scheduler may still reserve the claim for the pod again and bind it."""
    world = ControllerWorld(nodes=1)
    for name in ("p", "q"):
        world.add_claim(f"of-{name}")
        world.add_pod(name, f"of-{name}", cpu="6")
    world.settle()
    world.refuse("p")
    world.settle(PATIENCE_SECONDS + RELEASE_SECONDS / 2)
    assert not world.claim("of-p")["status"].get("reservedFor"), "the first step is made"
    assert world.gates("q"), "it waits"
    world.settle(RELEASE_SECONDS)
    assert (world.devices("of-p"), world.gates("q")) == ([], [])


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
    looked: list[str] = []

    def bind(what: str, name: str) -> None:
        if what == "get pods" and not looked:
            looked.append(name)
            world.bind("p", "n1")

    world.meddler.before = bind
    world.settle(60)
    assert looked == ["p"], "the pod is read before anything is taken from it"
    assert world.pod("p")["spec"]["nodeName"] == "n1"
    assert world.devices("a") == ["n1/gpu-0"]


def test_a_claim_that_others_use_stays() -> None:
    world = ControllerWorld(nodes=2)
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


def bound_without_devices() -> ControllerWorld:
    """kube-scheduler has bound the pod ``p`` from a claim older than the release; ``q`` has the devices meanwhile."""
    world = refused(nodes=1)
    world.add_claim("b", count=2)
    world.add_pod("q", "b")
    world.settle(PATIENCE_SECONDS + RELEASE_SECONDS + 0.5)
    assert (world.devices("a"), world.devices("b")) == ([], ["n1/gpu-0", "n1/gpu-1"])
    world.bind("p", "n1")
    world.settle(1)
    return world


def test_a_pod_that_was_bound_after_its_devices_were_taken_back_is_told_what_it_waits_for() -> None:
    world = bound_without_devices()
    status, reason, message = world.condition("p")
    assert (status, reason) == ("False", "BoundWithoutDevices")
    assert message.startswith(
        "the pod is bound to node n1, but has no devices there. It starts as soon as they can be allocated; to have it "
        "placed on another node, make it again without spec.nodeName. node n1: claim default/a, request gpu: "
        "wants 1 of gpu.lode.dev"
    )
    assert world.events("p", "BoundWithoutDevices") == [message]
    world.check()


@pytest.mark.parametrize("cordoned", [False, True])
def test_it_gets_devices_on_its_node_as_soon_as_they_are_free_and_the_node_is_open(cordoned: bool) -> None:
    world = bound_without_devices()
    world.api.patch(NODES, "n1", {"spec": {"unschedulable": cordoned}})
    world.remove_pod("q")
    world.settle(1)
    assert bool(world.devices("a")) != cordoned
    world.api.patch(NODES, "n1", {"spec": {"unschedulable": None}})
    world.settle(5)
    assert world.devices("a") == ["n1/gpu-0"]
    assert world.condition("p") == ("True", "Allocated", "on node n1")
    world.check()


def test_it_gets_devices_when_its_node_is_held_back_for_others_no_longer() -> None:
    world = bound_without_devices()
    world.add_claim("c", count=2)
    world.add_pod("first", "c", priority=10)
    world.settle(world.settings.controller.hold.after_seconds + 1)
    assert world.metrics.registry.get_sample_value("lode_controller_held_nodes") == 1
    slices = world.api.get(RESOURCE_SLICES, "n1-lode.dev")
    slices["spec"]["devices"].append({"name": "gpu-9", "attributes": {"kind": {"string": "gpu"}}})
    slices["spec"]["pool"]["generation"] = 2
    world.api.update(RESOURCE_SLICES, slices)
    world.settle(1)
    assert world.devices("a") == []
    world.settle(world.settings.controller.hold.for_seconds)
    assert world.devices("a") == ["n1/gpu-9"]


def test_a_gated_pod_whose_node_dies_is_moved() -> None:
    world = ControllerWorld(nodes=2)
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
