"""Pods of lower priority are evicted for a gang that has no place, for all of its members in one decision."""

from typing import Any

import pytest

from driver.kube.api import PODS, Object
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_crashes import at
from tests.unit.controller.loop.world import Killed, expect_kill

SMALL = ("a", "b", "c")
COMPLETE = 3
"""Seconds after which no more members are waited for."""
WRITES_UNTIL_ALL_ARE_EVICTED = range(1, 15)


def wanting_gang(
    world: PreemptingWorld, count: int = 4, priority: int = HIGH, minimum: int = 0, name: str = "gang", **pod: Any
) -> list[str]:
    """A gang without a place in the topology; each member wants a card."""
    members = [f"{name}-{number}" for number in range(count)]
    for member in members:
        world.add_claim(member, config=[gang_of(name, minimum or count)])
        world.add_pod(member, member, priority=priority, **pod)
    return members


def gang_of(name: str, minimum: int) -> Object:
    """Opaque parameters of a claim of a member."""
    gang = {"name": name, "minAvailable": minimum}
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": gang}
    return {"opaque": {"driver": "lode.dev", "parameters": parameters}}


def three_small_pods() -> PreemptingWorld:
    """Two nodes with three cards each: three pods of low priority, two of high priority, and one free card."""
    world = PreemptingWorld(nodes=2, cards=3)
    for name in ("x", "y"):
        world.running(name, priority=2 * HIGH)
    for name in SMALL:
        world.running(name)
    return world


def placed(world: PreemptingWorld, members: list[str]) -> bool:
    """Whether all of the gang have a card and may start; none has one otherwise."""
    held = [bool(world.held_by(member)) and not world.gates(member) for member in members]
    assert all(held) or not any(held)
    return all(held)


def test_a_gang_of_four_preempts_three_small_pods_and_nothing_else() -> None:
    world = three_small_pods()
    members = wanting_gang(world)
    world.settle(COMPLETE)
    assert sorted(world.evicted()) == list(SMALL)
    assert {world.condition(member)[1] for member in members} == {"Preempting"}
    nodes = {member: world.pod(member)["status"]["nominatedNodeName"] for member in members}
    assert sorted(nodes.values()) == ["n1", "n2", "n2", "n2"] or sorted(nodes.values()) == ["n1", "n1", "n2", "n2"]
    for name in SMALL:
        assert not placed(world, members)
        world.end(name)
    assert placed(world, members)
    assert {member: world.devices(member)[0].split("/")[0] for member in members} == nodes
    assert not world.controller.state.kept_places
    world.check()


def test_nobody_is_evicted_before_every_member_says_for_which_node() -> None:
    world = three_small_pods()
    seen = []

    def look(what: str, _: object) -> None:
        if what == "evict pods":
            seen.append({world.condition(member)[1] for member in members})

    members = [f"gang-{number}" for number in range(4)]
    world.meddler.before = look
    assert wanting_gang(world) == members
    world.settle(COMPLETE)
    assert seen == [{"Preempting"}] * 3


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", WRITES_UNTIL_ALL_ARE_EVICTED)
def test_killed_at_any_write(number: int, moment: str) -> None:
    world = three_small_pods()
    members = wanting_gang(world)
    setattr(world.meddler, moment, at(number + len(world.meddler.calls), Killed()))
    with expect_kill():
        world.settle(5)
    world.start()
    world.settle(COMPLETE)
    assert sorted(world.evicted()) == list(SMALL)
    for name in SMALL:
        world.end(name)
    assert placed(world, members)
    world.check()


@pytest.mark.parametrize("after", range(4))
def test_what_is_freed_is_kept_over_a_restart_of_the_controller(after: int) -> None:
    world = three_small_pods()
    members = wanting_gang(world)
    world.settle(COMPLETE)
    for number in range(3):
        world.wanting(f"rival-{number}", HIGH, preemptionPolicy="Never")
    for name in SMALL[:after]:
        world.remove_pod(name)
    world.start()
    world.settle()
    assert sorted(world.evicted()) == [*SMALL[after:]]
    for name in SMALL[after:]:
        world.end(name)
    assert placed(world, members)
    assert all(world.gates(f"rival-{number}") for number in range(3))


def test_room_that_is_freed_for_a_gang_goes_to_no_older_pod_of_its_priority() -> None:
    world = three_small_pods()
    world.wanting("older", HIGH, count=4)
    world.settle(5)
    members = wanting_gang(world)
    world.settle(5)
    world.wanting("younger", HIGH, preemptionPolicy="Never")
    for name in SMALL:
        world.end(name)
        assert world.gates("younger")
    assert placed(world, members)


def test_a_gang_that_is_deleted_gives_back_what_was_kept_for_it() -> None:
    world = three_small_pods()
    members = wanting_gang(world)
    world.settle(COMPLETE)
    world.wanting("next", 1, preemptionPolicy="Never")
    world.settle()
    assert world.gates("next")
    for member in members:
        world.api.delete(PODS, member, "default", grace_period_seconds=0)
    world.settle()
    assert world.devices("next")
    assert not world.controller.state.kept_places


def test_when_one_member_is_deleted_the_others_keep_nothing() -> None:
    world = three_small_pods()
    members = wanting_gang(world)
    world.settle(COMPLETE)
    world.wanting("next", 1, preemptionPolicy="Never")
    world.settle()
    world.api.delete(PODS, members[2], "default", grace_period_seconds=0)
    world.settle(30)
    assert world.devices("next")
    assert not world.controller.state.kept_places


def test_a_plan_whose_victim_outlasts_its_grace_by_a_minute_is_made_anew() -> None:
    world = PreemptingWorld(nodes=2, cards=2)
    for name in "ab":
        world.running(name, terminationGracePeriodSeconds=10)
    for name in "cd":
        world.running(name, priority=1)
    members = wanting_gang(world, count=2)
    world.settle(69)
    assert sorted(world.evicted()) == ["a", "b"]
    world.settle(5)
    assert sorted(world.evicted()) == ["a", "b", "c", "d"]
    for name in "cd":
        world.end(name)
    assert placed(world, members)


@pytest.mark.parametrize(
    ("settings", "pod"),
    [
        ({"preemption": {"enabled": False}}, {}),
        ({"preemption": {"enabled": True, "priorityClasses": ["urgent"]}}, {"priorityClassName": "other"}),
        ({}, {"preemptionPolicy": "Never"}),
        ({}, {"priority": 0}),
        ({}, {"gates": ("lode.dev/allocation", "example.com/quota")}),
    ],
)
def test_nobody_is_evicted_for_a_gang_that_may_not_have_others_evicted(
    settings: dict[str, Any], pod: dict[str, Any]
) -> None:
    world = PreemptingWorld(nodes=1, cards=2, **settings)
    world.running("a")
    world.running("b")
    wanting_gang(world, count=2, **{"priority": HIGH, **pod})
    world.settle(600)
    assert world.evicted() == []


def test_nobody_is_evicted_for_a_gang_of_which_one_member_may_not_have_others_evicted() -> None:
    world = PreemptingWorld(nodes=1, cards=2)
    world.running("a")
    world.running("b")
    members = wanting_gang(world, count=2)
    world.api.delete(PODS, members[1], "default", grace_period_seconds=0)
    world.add_pod(members[1], members[1], priority=HIGH, preemptionPolicy="Never")
    world.settle(600)
    assert world.evicted() == []


def test_the_least_priority_of_the_members_counts() -> None:
    world = PreemptingWorld(nodes=1, cards=2)
    world.running("a", priority=1)
    world.running("b")
    members = wanting_gang(world, count=2)
    world.api.delete(PODS, members[1], "default", grace_period_seconds=0)
    world.add_pod(members[1], members[1], priority=1)
    world.settle(600)
    assert world.evicted() == []


def test_a_gang_that_fits_nowhere_has_nobody_evicted() -> None:
    world = three_small_pods()
    members = wanting_gang(world, count=5)
    world.settle(600)
    assert world.evicted() == []
    assert {world.condition(member)[1] for member in members} == {"Unallocatable"}


def test_a_pod_of_higher_priority_may_take_the_room_of_a_member_and_the_gang_is_decided_anew() -> None:
    world = PreemptingWorld(nodes=2, cards=2)
    for name in "ab":
        world.running(name)
    for name in "cd":
        world.running(name, priority=1)
    members = wanting_gang(world, count=2)
    world.settle(COMPLETE)
    assert sorted(world.evicted()) == ["a", "b"]
    world.wanting("urgent", 2 * HIGH)
    world.settle()
    world.end("a")
    world.settle()
    assert world.devices("urgent")
    for name in world.evicted():
        world.end(name)
    assert placed(world, members)
    world.check()


def test_a_gang_that_came_before_its_victims_were_bound_has_them_evicted_when_they_are() -> None:
    world = PreemptingWorld(cards=2)
    for name in "ab":
        world.wanting(name)
    world.settle()
    members = wanting_gang(world, count=2)
    world.settle(COMPLETE)
    for name in "ab":
        assert world.evicted() == []
        world.bind(name, "n1")
        world.settle(COMPLETE)
    assert sorted(world.evicted()) == ["a", "b"]
    for name in "ab":
        world.end(name)
    assert placed(world, members)


def test_a_gang_takes_what_is_kept_for_a_lower_priority_only_if_it_has_no_other_place() -> None:
    world = PreemptingWorld(cards=3)
    world.running("a")
    world.wanting("important", HIGH, count=3)
    world.settle()
    assert world.evicted() == ["a"]
    world.add_node("n2", 2)
    members = wanting_gang(world, count=2, priority=2 * HIGH)
    world.settle(COMPLETE)
    assert [world.devices(member)[0].split("/")[0] for member in members] == ["n2", "n2"]
    further = wanting_gang(world, count=2, priority=2 * HIGH, name="further")
    world.settle(COMPLETE)
    assert [world.devices(member)[0].split("/")[0] for member in further] == ["n1", "n1"]
