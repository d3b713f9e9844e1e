"""Pods that nobody binds hold nothing for longer than the operator allows, and shield nothing."""

from typing import Any

import pytest

from driver.kube.api import NODES, RESOURCE_CLAIMS
from tests.unit.controller.loop.gangworld import GangWorld
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.world import ControllerWorld

UNBOUND: dict[str, Any] = {"maxUnboundSeconds": 300}
MARK = "karpenter.sh/do-not-disrupt"


def world_with(name: str = "p", scheduler: str = "default-scheduler", **settings: Any) -> ControllerWorld:
    """One card, and a pod that asks for it."""
    world = ControllerWorld(nodes=1, cards=1, **UNBOUND | settings)
    world.add_claim(name)
    world.add_pod(name, name, schedulerName=scheduler)
    world.settle(1)
    return world


def test_only_pods_of_schedulers_that_are_known_get_devices() -> None:
    world = world_with(scheduler="volcano")
    world.settle(3600)
    assert world.gates("p")
    assert world.devices("p") == []
    status, reason, message = world.condition("p")
    assert (status, reason) == ("False", "UnknownScheduler")
    assert "spec.schedulerName: volcano" in message
    assert "default-scheduler" in message
    assert "controller.schedulerNames" in message


@pytest.mark.parametrize("names", [["default-scheduler", "packing"], []])
def test_the_operator_says_which_these_are(names: list[str]) -> None:
    assert world_with(scheduler="packing", schedulerNames=names).gates("p") == []


def test_a_pod_without_claims_of_ours_goes_to_whatever_scheduler_it_names() -> None:
    world = ControllerWorld()
    world.add_pod("p", schedulerName="volcano")
    world.settle(1)
    assert world.gates("p") == []


def test_nobody_is_evicted_for_a_pod_of_an_unknown_scheduler() -> None:
    world = PreemptingWorld(nodes=1, cards=1, **UNBOUND)
    world.running("low")
    world.wanting("high", priority=HIGH, schedulerName="volcano")
    world.settle(3600)
    assert world.evicted() == []


def test_a_pod_that_waits_for_its_scheduler_to_be_named_holds_nothing() -> None:
    world = world_with()
    other = ControllerWorld(nodes=1, cards=1, schedulerNames=["other"])
    other.add_claim("p")
    other.add_pod("p", "p")
    claim = other.claim("p")
    claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    claim = other.api.update(RESOURCE_CLAIMS, claim)
    held = world.claim("p")["status"]
    held["reservedFor"] = [{"resource": "pods", "name": "p", "uid": other.pod("p")["metadata"]["uid"]}]
    other.api.update(RESOURCE_CLAIMS, {**claim, "status": held}, "status")
    other.settle(1)
    assert other.devices("p") == []
    assert other.condition("p")[1] == "UnknownScheduler"


def test_devices_are_taken_back_from_a_pod_that_is_neither_bound_nor_refused() -> None:
    world = world_with()
    world.settle(290)
    assert world.devices("p") == ["n1/gpu-0"]
    world.settle(20)
    assert world.devices("p") == []
    assert world.condition("p")[:2] == ("False", "NotBound")
    (told,) = world.events("p", "NotBound")
    assert "spec.schedulerName: default-scheduler: nobody bound the pod within 300 s" in told


def test_it_gets_devices_again_after_a_pause_that_doubles() -> None:
    world = world_with()
    held = []
    for _ in range(36 * 60):
        world.settle(10)
        held.append(bool(world.devices("p")))
    turns = [at for at in range(1, len(held)) if held[at] and not held[at - 1]]
    pauses = [held[:at][::-1].index(True) * 10 for at in turns]
    assert [round(pause, -2) for pause in pauses[:6]] == [300, 600, 1200, 2400, 3600, 3600]
    assert sum(held) * 10 < 0.4 * 36 * 600


def test_another_pod_gets_what_was_taken_back() -> None:
    world = world_with()
    world.add_claim("q")
    world.add_pod("q", "q")
    world.settle(310)
    assert world.devices("q") == ["n1/gpu-0"]
    world.check()


def test_a_bind_that_comes_late_wins() -> None:
    world = world_with()
    world.settle(310)
    assert world.devices("p") == []
    world.bind("p", "n1")
    world.settle(1)
    assert world.devices("p") == ["n1/gpu-0"]
    world.settle(3600)
    assert world.devices("p") == ["n1/gpu-0"]


def test_a_scheduler_that_reserves_the_claim_again_is_binding_the_pod() -> None:
    world = world_with()
    world.settle(298)
    reserved = world.claim("p")["status"]["reservedFor"]
    while world.claim("p")["status"].get("reservedFor"):
        world.settle(0.1)
    claim = world.claim("p")
    claim["status"]["reservedFor"] = reserved
    world.api.update(RESOURCE_CLAIMS, claim, "status")
    world.settle(60)
    assert world.devices("p") == ["n1/gpu-0"]
    world.bind("p", "n1")
    world.settle(3600)
    assert world.devices("p") == ["n1/gpu-0"]


def test_the_time_counts_on_after_a_restart() -> None:
    world = world_with()
    world.settle(200)
    world.start()
    world.settle(110)
    assert world.devices("p") == []


def test_a_pod_that_is_bound_in_time_keeps_its_devices() -> None:
    world = world_with()
    world.settle(290)
    world.bind("p", "n1")
    world.settle(3600)
    assert world.devices("p") == ["n1/gpu-0"]


def test_a_pod_that_uses_a_claim_with_others_loses_none_of_theirs() -> None:
    world = ControllerWorld(nodes=1, cards=1, **UNBOUND)
    world.add_claim("shared")
    world.add_pod("runs", "shared")
    world.settle(1)
    world.bind("runs", "n1")
    world.add_pod("p", "shared")
    world.settle(3600)
    assert world.devices("shared") == ["n1/gpu-0"]


def test_its_node_is_kept_from_autoscalers_only_as_long() -> None:
    world = ControllerWorld(nodes=1, cards=1, autoscaling={"enabled": True}, **UNBOUND)
    world.add_claim("shared")
    world.add_pod("p", "shared")
    world.settle(30)
    assert world.api.get(NODES, "n1")["metadata"]["annotations"][MARK] == "true"
    world.settle(300)
    assert MARK not in world.api.get(NODES, "n1")["metadata"].get("annotations", {})


def test_pods_that_share_a_claim_and_are_bound_by_nobody_do_not_hold_it_for_each_other() -> None:
    world = PreemptingWorld(nodes=1, cards=1, **UNBOUND)
    world.add_claim("shared")
    for name in ("p", "q"):
        world.add_pod(name, "shared", priority=-1000)
    world.settle(1)
    world.wanting("high", priority=HIGH)
    world.settle(200)
    assert world.gates("high")
    world.settle(110)
    assert world.devices("high") == ["n1/gpu-0"]
    assert world.evicted() == []


def test_a_preemptor_that_nobody_binds_has_nobody_evicted_again() -> None:
    world = PreemptingWorld(nodes=1, cards=1, **UNBOUND)
    world.running("first")
    world.wanting("high", priority=HIGH)
    world.settle(1)
    assert world.evicted() == ["first"]
    world.end("first")
    assert world.gates("high") == []
    world.settle(310)
    assert world.devices("high") == []
    world.running("second")
    world.settle(24 * 3600)
    assert world.evicted() == []


def test_a_gang_that_nobody_binds_gives_everything_back() -> None:
    world = GangWorld(a=2, settings=UNBOUND)
    members = world.add_gang("train", 4)
    world.settle(5)
    assert world.let_go(*members) == list(members)
    world.settle(320)
    assert world.nodes_of(*members) == ["", "", "", ""]
    world.bind(members[0], "a1")
    world.settle(3600)
    world.check()
