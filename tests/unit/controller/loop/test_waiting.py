"""A pod that cannot be served is told why, once, and served as soon as it can be."""

import pytest
from structlog.testing import capture_logs

from controller.reporting import REMIND_SECONDS
from driver.kube.api import DEVICE_CLASSES, EVENTS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.unit.controller.loop.world import GATE, ControllerWorld


def full() -> ControllerWorld:
    world = ControllerWorld(nodes=1, cards=1)
    for name in "ab":
        world.add_claim(name)
        world.add_pod(f"pod-{name}", name)
    world.settle(1)
    assert (world.devices("a"), world.devices("b")) == (["n1/gpu-0"], [])
    return world


def test_a_pod_too_many_waits_behind_its_gate_with_condition_and_event() -> None:
    world = full()
    assert world.gates("pod-b") == [GATE]
    status, reason, message = world.condition("pod-b")
    assert (status, reason) == ("False", "Unallocatable")
    assert message.startswith("0 of 1 node can take the pod.")
    assert world.events("pod-b", "Unallocatable")[0] == message


def test_the_log_has_one_line_for_what_a_pod_is_told() -> None:
    with capture_logs() as lines:
        world = full()
        world.settle(3600)
    waits = [line for line in lines if line["event"] == "pod waits"]
    assert [(line["pod"], line["reason"]) for line in waits] == [("default/pod-b", "Unallocatable")]
    assert waits[0]["message"] == world.condition("pod-b")[2]


def test_it_is_served_when_another_pod_ends_without_waiting_for_the_back_off() -> None:
    world = full()
    world.settle(300)
    world.remove_pod("pod-a")
    world.settle()
    assert world.devices("b") == ["n1/gpu-0"]
    assert world.condition("pod-b")[0] == "True"


@pytest.mark.parametrize("what", ["slice", "node"])
def test_it_is_served_when_capacity_is_added(what: str) -> None:
    world = full()
    if what == "slice":
        slices = world.api.get(RESOURCE_SLICES, "n1-lode.dev")
        slices["spec"]["devices"].append({"name": "gpu-9", "attributes": {"kind": {"string": "gpu"}}})
        slices["spec"]["pool"]["generation"] = 2
        world.api.update(RESOURCE_SLICES, slices)
    else:
        world.add_node("n2", 1)
    world.settle()
    assert world.devices("b") in (["n1/gpu-9"], ["n2/gpu-0"])


def test_the_same_reason_is_not_said_again_and_again() -> None:
    world = full()
    world.settle(REMIND_SECONDS - 60)
    assert world.event_count("pod-b") == 1
    calls = len(world.meddler.calls)
    for _ in range(50):
        node = world.api.get(NODES, "n1")
        node["metadata"].setdefault("labels", {})["beat"] = str(world.clock.now())
        world.api.update(NODES, node)
        world.settle(1)
    assert len(world.meddler.calls) == calls


def test_a_pod_that_had_devices_in_between_is_told_again_why_it_waits() -> None:
    world = full()
    world.remove_pod("pod-a")
    world.settle(1)
    assert world.devices("b") == ["n1/gpu-0"]
    world.add_pod("pod-a", "a", priority=10)
    world.settle(1)
    world.refuse("pod-b")
    world.settle(30)
    assert world.devices("a") == ["n1/gpu-0"]
    assert world.event_count("pod-b", "Unallocatable") == 2


def test_a_busy_cluster_does_not_make_a_waiting_pod_talk() -> None:
    world = full()
    world.settle(120)
    calls = len(world.meddler.calls)
    for number in range(20):
        world.add_node(f"small{number}", 0)
        world.settle(0.1)
    assert len(world.meddler.calls) == calls


def test_node_predicates_are_told_by_group() -> None:
    world = ControllerWorld(nodes=2)
    world.set_ready("n2", False)
    world.add_claim("a")
    world.add_pod("p", "a", cpu="9")
    world.settle(1)
    message = world.condition("p")[2]
    assert "1 node: insufficient cpu (9 requested)" in message
    assert "1 node: the node is not ready; insufficient cpu (9 requested)" in message


def test_two_pods_are_not_promised_the_same_cpu() -> None:
    world = ControllerWorld(nodes=2)
    for name in "ab":
        world.add_claim(name)
        world.add_pod(f"pod-{name}", name, cpu="5")
    world.settle()
    assert (world.devices("a"), world.devices("b")) == (["n1/gpu-0"], ["n2/gpu-0"])


@pytest.mark.parametrize(
    ("claim", "reason", "said", "at_claim"),
    [
        ({"device_class": "gpu-typo"}, "UnknownClass", "no DeviceClass is named gpu-typo", True),
        (
            {"config": [{"opaque": {"driver": "lode.dev", "parameters": {"kind": "GpuConfig", "x": 1}}}]},
            "InvalidParameters",
            "parameters.x: unknown field",
            True,
        ),
    ],
)
def test_bad_input_is_told_at_the_claim_and_others_go_on(
    claim: dict[str, object], reason: str, said: str, at_claim: bool
) -> None:
    world = ControllerWorld()
    world.add_claim("bad", **claim)  # type: ignore[arg-type]
    world.add_claim("good")
    world.add_pod("p", "bad")
    world.add_pod("q", "good")
    world.settle(1)
    assert world.condition("p")[:2] == ("False", reason)
    assert said in world.condition("p")[2]
    assert bool(world.events("bad", reason)) == at_claim
    assert world.gates("p") == [GATE]
    assert world.devices("good") == ["n1/gpu-0"]


def test_a_missing_class_is_mended_by_making_it() -> None:
    world = ControllerWorld()
    world.add_claim("a", device_class="late.lode.dev")
    world.add_pod("p", "a")
    world.settle(1)
    world.add_class("late.lode.dev", 'device.driver == "lode.dev"')
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]


def test_a_claim_for_devices_of_two_drivers_is_refused_with_the_remedy() -> None:
    world = ControllerWorld()
    world.add_class("other.example.com", 'device.driver == "other.example.com"')
    other = {"name": "other", "exactly": {"deviceClassName": "other.example.com"}}
    ours = {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev"}}
    world.add_claim("mixed", requests=[ours, other])
    world.add_pod("p", "mixed")
    world.settle(1)
    assert world.condition("p")[1] == "MixedClaim"
    assert "put them into separate claims" in world.condition("p")[2]


def test_a_class_over_two_drivers_is_refused_with_the_remedy_until_it_tests_the_driver() -> None:
    world = ControllerWorld()
    world.publish("n1", 1, driver="other.example.com")
    world.add_class("any", 'device.driver == "lode.dev" || device.driver == "other.example.com"')
    world.add_claim("a", device_class="any")
    world.add_pod("p", "a")
    world.settle(1)
    assert world.condition("p")[1] == "AmbiguousClass"
    assert 'add the selector device.driver == "lode.dev"' in world.condition("p")[2]
    assert not world.devices("a")
    changed = world.api.get(DEVICE_CLASSES, "any")
    changed["spec"]["selectors"][0]["cel"]["expression"] = 'device.driver == "lode.dev"'
    world.api.update(DEVICE_CLASSES, changed)
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]


def test_a_missing_claim_is_waited_for() -> None:
    world = ControllerWorld()
    world.add_pod("p", "a")
    world.settle(1)
    assert world.condition("p") == ("False", "ClaimMissing", "ResourceClaim default/a does not exist")
    world.add_claim("a")
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]


def test_a_template_that_never_makes_its_claim_is_reported_but_not_before_it_had_time_to() -> None:
    world = ControllerWorld()
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "pause"}],
            "schedulingGates": [{"name": GATE}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gone"}],
        },
    }
    world.api.create(PODS, pod, "default")
    world.settle(2)
    assert world.events("p") == []
    world.settle(10)
    assert "ResourceClaimTemplate gone" in world.condition("p")[2]


def test_two_claims_that_cannot_meet_on_one_node_are_never_held_in_part() -> None:
    world = ControllerWorld(nodes=2, cards=1)
    world.add_claim("a")
    world.add_claim("b")
    world.add_pod("p", "a", "b")
    world.settle(60)
    assert world.devices("a") + world.devices("b") == []
    assert world.condition("p")[1] == "Impossible", "each node has one card, and the pod wants two"


def test_devices_without_a_consumer_are_freed() -> None:
    world = ControllerWorld(cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    claim = world.claim("a")
    claim["status"].pop("reservedFor")
    world.api.update(RESOURCE_CLAIMS, claim, "status")
    world.settle(30)
    assert world.devices("a") == ["n1/gpu-0"], "the pod may still need them"
    world.remove_pod("p")
    world.settle(3)
    assert world.devices("a") == ["n1/gpu-0"], "the resource-claim-controller goes first"
    world.settle(3)
    assert world.devices("a") == []


def test_bad_input_is_told_once_at_the_pod_and_at_the_claim() -> None:
    world = ControllerWorld()
    world.add_claim("bad", device_class="gpu-typo.lode.dev")
    world.add_pod("p", "bad")
    world.settle(REMIND_SECONDS - 60)
    counts = [event["count"] for event in world.api.list(EVENTS).items]
    assert counts == [1, 1]
    assert [call for call in world.meddler.calls if call.startswith("patch pods")] == ["patch pods/status"]


def test_words_that_a_write_for_the_pod_drops_are_told_later() -> None:
    world = full()
    world.settle(60)
    patch = {"status": {"conditions": [{"type": "lode.dev/Allocated", "$patch": "delete"}]}}
    world.api.patch(PODS, "pod-b", patch, namespace="default", subresource="status", patch_type="strategic")
    assert world.condition("pod-b") == ("", "", "")
    world.settle(1)
    assert world.condition("pod-b")[:2] == ("False", "Unallocatable")
    assert len(world.events("pod-b")) == 1
