"""Pods that take long to end are no victims and no place; what others leave that end anyway belongs to one pod."""

import pytest

from driver.kube.api import PODS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import COMPLETE, placed, wanting_gang

LONG = 10**9
"""A grace period that nobody outlives; the API takes it."""


def ending(world: PreemptingWorld, name: str) -> None:
    """A user deletes a pod, which goes on until its grace period is over."""
    world.api.delete(PODS, name, "default")
    world.settle()


def test_a_pod_that_never_ends_keeps_nobody_from_having_others_evicted() -> None:
    world = PreemptingWorld(nodes=2, cards=1)
    world.running("endless", terminationGracePeriodSeconds=LONG)
    world.running("low")
    ending(world, "endless")
    world.wanting("important", HIGH)
    world.settle(60)
    assert sorted(world.evicted()) == ["endless", "low"]
    world.end("low")
    assert world.devices("important")


def test_a_pod_that_takes_too_long_to_end_is_no_victim() -> None:
    world = PreemptingWorld(nodes=2, cards=1)
    world.running("low", priority=1)
    world.running("endless", terminationGracePeriodSeconds=LONG)
    world.wanting("important", HIGH)
    world.settle()
    assert world.evicted() == ["low"]


@pytest.mark.parametrize(("grace", "evicted"), [(600, ["slow"]), (601, ["other"])])
def test_the_setting_says_how_long_a_victim_may_take(grace: int, evicted: list[str]) -> None:
    world = PreemptingWorld(nodes=2, cards=1)
    world.running("other", priority=1)
    world.running("slow", terminationGracePeriodSeconds=grace)
    world.wanting("important", HIGH)
    # The victim counts as going until it has ended, whatever the API server's clock says.
    world.settle(500)
    assert world.evicted() == evicted


def test_another_setting() -> None:
    world = PreemptingWorld(nodes=2, cards=1, preemption={"enabled": True, "longestGraceSeconds": 3600})
    world.running("other", priority=1)
    world.running("slow", terminationGracePeriodSeconds=3600)
    world.wanting("important", HIGH)
    world.settle(60)
    assert world.evicted() == ["slow"]


def test_what_a_pod_leaves_that_ends_anyway_is_for_one_pod_and_the_next_one_looks_elsewhere() -> None:
    world = PreemptingWorld(nodes=3, cards=1)
    for name in ("ends", "low", "lower"):
        world.running(name, terminationGracePeriodSeconds=300)
    ending(world, "ends")
    for name in ("first", "second", "third"):
        world.wanting(name, HIGH)
        world.settle()
    assert sorted(world.evicted()) == ["ends", "low", "lower"]
    assert world.condition("first") == ("False", "Unallocatable", "gets its place on node n1 when 1 pod has ended")
    assert not world.pod("first")["status"].get("nominatedNodeName")
    world.end("ends")
    assert world.devices("first") == ["n1/gpu-0"]
    world.check()


def test_who_waits_for_a_pod_that_ends_anyway_takes_any_other_place_that_becomes_free() -> None:
    world = PreemptingWorld(nodes=1, cards=1)
    world.running("ends", terminationGracePeriodSeconds=300)
    ending(world, "ends")
    world.wanting("important", HIGH)
    world.settle()
    world.wanting("next", preemptionPolicy="Never")
    world.settle()
    world.add_node("n2", 1)
    world.settle()
    assert world.devices("important") == ["n2/gpu-0"]
    world.end("ends")
    assert world.devices("next") == ["n1/gpu-0"]
    world.check()


def test_if_a_pod_that_ends_anyway_does_not_others_are_evicted() -> None:
    world = PreemptingWorld(nodes=2, cards=1)
    world.running("stuck", terminationGracePeriodSeconds=10)
    world.running("low")
    ending(world, "stuck")
    world.wanting("important", HIGH)
    world.settle(60)
    assert world.evicted() == ["stuck"]
    world.settle(15)
    assert sorted(world.evicted()) == ["low", "stuck"]
    assert world.pod("important")["status"]["nominatedNodeName"] == "n2"


def test_after_a_restart_who_waited_for_a_pod_that_ends_anyway_does_so_again() -> None:
    world = PreemptingWorld(nodes=2, cards=1)
    world.running("ends", terminationGracePeriodSeconds=300)
    world.running("low")
    ending(world, "ends")
    world.wanting("important", HIGH)
    world.settle()
    world.start()
    world.settle(5)
    world.wanting("second", HIGH)
    world.settle(5)
    assert sorted(world.evicted()) == ["ends", "low"]
    assert world.condition("second")[1] == "Preempting"
    world.end("ends")
    assert world.devices("important") == ["n1/gpu-0"]


def test_a_gang_owns_what_pods_leave_that_end_anyway() -> None:
    world = PreemptingWorld(nodes=3, cards=1)
    for name in ("ends", "ends-too", "low"):
        world.running(name, terminationGracePeriodSeconds=300)
    for name in ("ends", "ends-too"):
        ending(world, name)
    members = wanting_gang(world, count=2)
    world.settle(COMPLETE)
    assert {world.condition(one)[1] for one in members} == {"Unallocatable"}
    world.wanting("second", HIGH)
    world.settle(5)
    assert sorted(world.evicted()) == ["ends", "ends-too", "low"]
    for name in ("ends", "ends-too"):
        world.end(name)
    assert placed(world, members)
    world.check()
