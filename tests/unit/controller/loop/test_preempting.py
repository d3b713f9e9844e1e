"""Pods of lower priority are evicted for one that does not fit, and what they leave belongs to it."""

from typing import Any

import pytest

from driver.kube.api import PODS, Forbidden
from tests.unit.controller.loop.preemptingworld import HIGH, NO_RIGHT, PreemptingWorld


def test_one_pod_is_evicted_and_its_devices_go_to_the_pod_that_it_was_evicted_for() -> None:
    world = PreemptingWorld()
    world.running("a")
    world.running("b", priority=1)
    world.wanting("important", HIGH)
    world.settle()
    assert world.evicted() == ["a"]
    assert world.condition("important")[:2] == ("False", "Preempting")
    assert "default/a" in world.condition("important")[2]
    assert world.pod("important")["status"]["nominatedNodeName"] == "n1"
    assert world.controller.state.kept_places.for_pod("default/important")
    left = world.devices("a")
    world.end("a")
    assert world.devices("important") == left
    assert world.gates("important") == []
    assert not world.controller.state.kept_places.for_pod("default/important")
    world.check()


def test_both_are_told_in_the_words_of_kube_scheduler() -> None:
    world = PreemptingWorld(cards=1)
    world.running("a")
    world.wanting("important", HIGH)
    world.settle()
    uid = world.pod("important")["metadata"]["uid"]
    assert world.events("a", "Preempted") == [f"Preempted by pod {uid} on node n1"]
    assert world.events("important", "Preempting") == ["evicted pod default/a from node n1"]
    [mark] = [one for one in world.pod("a")["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert mark["reason"] == "EvictionByEvictionAPI"
    assert world.metrics.registry.get_sample_value("lode_preemptions_total") == 1


@pytest.mark.parametrize(
    ("settings", "pod"),
    [
        ({"preemption": {"enabled": False}}, {}),
        ({"preemption": {"enabled": True, "priorityClasses": ["urgent"]}}, {"priorityClassName": "other"}),
        ({}, {"preemptionPolicy": "Never"}),
        ({}, {"priority": 0}),
    ],
)
def test_nobody_is_evicted_for_a_pod_that_may_not_have_others_evicted(
    settings: dict[str, Any], pod: dict[str, Any]
) -> None:
    world = PreemptingWorld(cards=1, **settings)
    world.running("a")
    world.wanting("important", **{"priority": HIGH, **pod})
    world.settle(600)
    assert world.evicted() == []
    assert world.condition("important")[1] == "Unallocatable"


def test_a_class_that_is_chosen_may_have_others_evicted() -> None:
    world = PreemptingWorld(cards=1, preemption={"enabled": True, "priorityClasses": ["urgent"]})
    world.running("a")
    world.wanting("important", HIGH, priorityClassName="urgent")
    world.settle()
    assert world.evicted() == ["a"]


def test_victims_are_evicted_one_write_after_another() -> None:
    world = PreemptingWorld(cards=3)
    for name in "abc":
        world.running(name)
    world.wanting("important", HIGH, count=3)
    world.settle()
    assert sorted(world.evicted()) == ["a", "b", "c"]
    trial, done = "evict pods (dry run)", "evict pods"
    calls = [call for call in world.meddler.calls if call in (trial, done, "patch pods/status")]
    assert calls[-7:] == ["patch pods/status", *[trial] * 3, *[done] * 3]
    for name in "abc":
        assert world.held_by("important") == []
        world.end(name)
    assert len(world.devices("important")) == 3
    world.check()


def test_freed_devices_go_to_nobody_else_of_the_same_priority_however_old() -> None:
    world = PreemptingWorld(cards=2)
    world.running("a")
    world.running("b")
    world.wanting("older", HIGH, count=4)
    world.settle(5)
    world.wanting("important", HIGH, count=2)
    world.settle(5)
    world.wanting("younger", HIGH, count=1, preemptionPolicy="Never")
    world.settle(5)
    assert sorted(world.evicted()) == ["a", "b"]
    world.end("a")
    assert world.gates("younger")
    world.end("b")
    assert len(world.devices("important")) == 2
    assert world.gates("younger")


def test_a_pod_of_higher_priority_may_take_what_is_kept() -> None:
    world = PreemptingWorld(nodes=2, cards=1)
    world.running("a")
    world.running("b", priority=1)
    world.wanting("important", HIGH)
    world.settle()
    assert world.evicted() == ["a"]
    world.wanting("urgent", 2 * HIGH, nodeSelector={})
    world.settle()
    world.end("a")
    world.settle()
    assert world.devices("urgent")
    assert world.evicted() == ["b"]
    world.end("b")
    assert world.devices("important")


@pytest.mark.parametrize("after", range(4))
def test_what_is_freed_is_kept_over_a_restart_of_the_controller(after: int) -> None:
    world = PreemptingWorld(cards=2)
    world.running("a")
    world.running("b")
    world.wanting("important", HIGH, count=2)
    world.settle()
    world.wanting("rival", HIGH, preemptionPolicy="Never")
    ends = ["a", "b"]
    for name in ends[: min(after, 2)]:
        world.remove_pod(name)
    world.start()
    world.settle()
    assert sorted(world.evicted()) == ends[min(after, 2) :]
    for name in ends[min(after, 2) :]:
        world.end(name)
    assert len(world.devices("important")) == 2
    assert world.gates("rival")


def test_a_pod_that_is_deleted_gives_back_what_was_kept_for_it() -> None:
    world = PreemptingWorld(cards=1)
    world.running("a")
    world.wanting("important", HIGH)
    world.settle()
    world.wanting("next", 1, preemptionPolicy="Never")
    world.settle()
    world.api.delete(PODS, "important", "default", grace_period_seconds=0)
    world.end("a")
    assert world.devices("next")


def test_a_plan_whose_victim_outlasts_its_grace_by_a_minute_is_made_anew() -> None:
    world = PreemptingWorld(nodes=2, cards=1)
    world.running("a")
    world.running("b", priority=1, terminationGracePeriodSeconds=10)
    world.wanting("important", HIGH)
    world.settle(89)
    assert world.evicted() == ["a"]
    world.settle(5)
    assert world.evicted() == ["a", "b"]
    assert world.pod("important")["status"]["nominatedNodeName"] == "n2"
    world.end("b")
    assert world.devices("important")


def test_a_budget_spares_a_pod_and_another_one_goes() -> None:
    world = PreemptingWorld(cards=2)
    world.running("a", labels={"app": "a"})
    world.running("b", priority=1)
    world.budget(0, app="a")
    world.settle()
    world.wanting("important", HIGH)
    world.settle()
    assert world.evicted() == ["b"]


def test_when_the_api_server_knows_better_what_a_budget_allows_another_pod_goes() -> None:
    world = PreemptingWorld(cards=2)
    world.running("a", labels={"app": "a"})
    world.running("b", priority=1)
    world.budget(1, app="a")
    world.settle()

    def use_up(what: str, _: object) -> None:
        if what == "evict pods":
            world.meddler.before = None
            world.budget(0, app="a")

    world.meddler.before = use_up
    world.wanting("important", HIGH)
    world.settle()
    assert world.evicted() == ["b"]
    world.end("b")
    assert world.devices("important")


def test_a_pod_waits_until_a_budget_lets_somebody_go() -> None:
    world = PreemptingWorld(cards=1)
    world.running("a", labels={"app": "a"})
    world.budget(0, app="a")
    world.wanting("important", HIGH)
    world.settle(100)
    assert world.evicted() == []
    world.budget(1, app="a")
    world.settle()
    assert world.evicted() == ["a"]


def test_nobody_is_evicted_for_a_pod_that_is_gone_by_then() -> None:
    world = PreemptingWorld(cards=2)
    world.running("a")
    world.running("b")

    def vanish(what: str, _: object) -> None:
        if what == "evict pods":
            world.meddler.before = None
            world.api.delete(PODS, "important", "default", grace_period_seconds=0)

    world.meddler.before = vanish
    world.wanting("important", HIGH, count=2)
    world.settle(100)
    assert len(world.evicted()) == 1


def test_a_right_that_lacks_is_said_and_nothing_else_changes() -> None:
    world = PreemptingWorld(cards=1)
    world.running("a")

    def refuse(what: str, _: object) -> None:
        if what == "evict pods":
            raise Forbidden(NO_RIGHT, status=403)

    world.meddler.before = refuse
    world.wanting("important", HIGH)
    world.settle(1)
    assert world.evicted() == []
    assert world.events("important", "WriteRefused") == [f"the API server refused a write: {NO_RIGHT}"]
    world.meddler.before = None
    world.settle(100)
    assert world.evicted() == ["a"]


def test_a_pod_that_came_before_its_victims_were_bound_has_them_evicted_when_they_are() -> None:
    world = PreemptingWorld(cards=1)
    world.wanting("a")
    world.settle()
    world.wanting("important", HIGH)
    world.settle(5)
    assert world.evicted() == []
    world.bind("a", "n1")
    world.settle(5)
    assert world.evicted() == ["a"]


def test_a_pod_of_higher_priority_takes_what_is_kept_only_if_it_has_no_other_place() -> None:
    world = PreemptingWorld(cards=2)
    world.running("a")
    world.wanting("important", HIGH, count=2)
    world.settle()
    assert world.evicted() == ["a"]
    world.add_node("n2", 1)
    world.wanting("urgent", 2 * HIGH)
    world.settle()
    assert world.devices("urgent") == ["n2/gpu-0"]
    world.wanting("further", 2 * HIGH)
    world.settle()
    assert world.devices("further")[0].startswith("n1/")
