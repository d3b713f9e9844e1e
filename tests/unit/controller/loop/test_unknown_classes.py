"""A pod that may be another driver's alone is told of a missing class as kube-scheduler tells it."""

import pytest

from controller.reporting import REWORD_SECONDS
from driver.kube.api import DEVICE_CLASSES
from tests.unit.controller.autoscaling.test_node_wishes import GATED, scheduled
from tests.unit.controller.loop.world import GATE, ControllerWorld

MISSING = "late.example.com"


def said(nodes: int, request: str = "gpu", name: str = MISSING) -> str:
    return (
        f"0/{nodes} nodes are available: request {request}: device class {name} does not exist. "
        f"preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    )


def waiting(*claims: str, **options: int) -> ControllerWorld:
    """A pod with claims for these classes, which all exist but those that begin with ``late``."""
    world = ControllerWorld(**options)
    world.add_class("nic", 'device.driver == "other.example.com"')
    world.add_class("any", 'device.driver == "lode.dev" || device.driver == "other.example.com"')
    for number, device_class in enumerate(claims):
        world.add_claim(f"c{number}", device_class=device_class)
    world.add_pod("p", *(f"c{number}" for number in range(len(claims))))
    world.settle(10)
    return world


@pytest.mark.parametrize("claims", [(MISSING,), ("nic", MISSING), (MISSING, "late.example.org")])
def test_it_has_kube_schedulers_condition_and_event_beside_ours(claims: tuple[str, ...]) -> None:
    world = waiting(*claims, nodes=3)
    assert scheduled(world, "p") == ("Unschedulable", said(3))
    assert world.events("p", "FailedScheduling") == [said(3)]
    assert world.condition("p")[:2] == ("False", "UnknownClass")
    assert world.gates("p") == [GATE]


def test_the_request_is_named_as_kube_scheduler_names_it() -> None:
    world = ControllerWorld()
    first = [{"name": "small", "deviceClassName": "gpu.lode.dev"}, {"name": "large", "deviceClassName": MISSING}]
    world.add_claim("c", requests=[{"name": "either", "firstAvailable": first}])
    world.add_pod("p", "c")
    world.settle(10)
    assert scheduled(world, "p") == ("Unschedulable", said(1, "either/large"))


def test_in_a_cluster_without_nodes_that_is_what_it_says() -> None:
    assert scheduled(waiting(MISSING, nodes=0), "p") == ("Unschedulable", "no nodes available to schedule pods")


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param((MISSING, "gpu.lode.dev"), id="another claim is ours"),
        pytest.param((MISSING, "any"), id="another claim may be ours"),
        pytest.param(("gpv.lode.dev",), id="the class can only be ours"),
    ],
)
def test_a_pod_of_ours_is_only_told_in_our_words(claims: tuple[str, ...]) -> None:
    world = waiting(*claims)
    assert world.condition("p")[:2] == ("False", "UnknownClass")
    assert scheduled(world, "p") == GATED
    assert world.events("p", "FailedScheduling") == []


def test_kube_scheduler_says_nothing_of_a_claim_that_is_missing_and_nor_do_we() -> None:
    world = ControllerWorld()
    world.add_claim("c", device_class=MISSING)
    world.add_pod("p", "c", "gone")
    world.settle(10)
    assert world.condition("p")[:2] == ("False", "ClaimMissing")
    assert scheduled(world, "p") == GATED


def test_it_ends_when_the_class_is_there_and_is_the_other_drivers() -> None:
    world = waiting(MISSING)
    world.add_class(MISSING, 'device.driver == "other.example.com"')
    world.settle()
    assert (world.gates("p"), scheduled(world, "p"), world.condition("p")) == ([], GATED, ("", "", ""))


def test_it_ends_before_anything_is_allocated_when_the_class_turns_out_to_be_ours() -> None:
    world = waiting(MISSING)
    world.meddler.calls.clear()
    world.add_class(MISSING, 'device.driver == "lode.dev"')
    world.settle()
    assert world.meddler.calls[0] == "patch pods/status"
    assert (world.gates("p"), scheduled(world, "p")) == ([], GATED)
    assert world.devices("c0") == ["n1/gpu-0"]


def test_it_begins_when_a_class_is_deleted() -> None:
    world = ControllerWorld()
    world.add_class("nic", 'device.driver == "other.example.com"')
    world.add_claim("c", device_class="nic")
    world.api.delete(DEVICE_CLASSES, "nic")
    world.add_pod("p", "c")
    world.settle(10)
    assert scheduled(world, "p") == ("Unschedulable", said(1, name="nic"))


def test_a_new_run_goes_on_counting_the_event_and_writes_nothing_else() -> None:
    world = waiting(MISSING)
    world.start()
    world.settle(60)
    assert not [call for call in world.meddler.calls if call.startswith("patch")]
    world.settle(3600)
    assert world.event_count("p", "FailedScheduling") == 2


def test_another_class_that_is_missing_is_named_when_the_first_is_there() -> None:
    world = waiting(MISSING, "late.example.org")
    world.add_class(MISSING, 'device.driver == "other.example.com"')
    world.settle(REWORD_SECONDS + 1)
    assert scheduled(world, "p") == ("Unschedulable", said(1, name="late.example.org"))


def test_the_words_are_others_when_the_reason_is() -> None:
    world = ControllerWorld(autoscaling={"enabled": True})
    world.add_class("late", 'device.driver == "lode.dev"')
    world.add_claim("big", 2)
    world.add_pod("q", "big")
    world.settle(10)
    world.add_claim("c", device_class="late")
    world.add_pod("p", "c")
    world.settle(10)
    assert "a new node like n1 would" in scheduled(world, "p")[1]
    world.api.delete(DEVICE_CLASSES, "late")
    world.settle(10)
    assert scheduled(world, "p") == ("Unschedulable", said(1, name="late"))
    world.add_class("late", 'device.driver == "lode.dev"')
    world.settle(10)
    assert "a new node like n1 would" in scheduled(world, "p")[1]
