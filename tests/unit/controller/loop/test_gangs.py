"""Gangs in the running controller: all members or none, in one fabric, through crashes, refusals and losses."""

from itertools import count
from typing import Any

import pytest

from controller.reporting import REMIND_SECONDS
from driver.kube.api import NODES, Conflict, Unavailable
from tests.unit.controller.loop.gangworld import GangWorld, gang_config
from tests.unit.controller.loop.world import Killed, expect_kill

WRITES_OF_A_GANG = range(1, 19)


def test_a_gang_is_placed_in_one_fabric() -> None:
    world = GangWorld(a=1, b=2)
    pods = world.add_gang("train", 4)
    world.settle(10)
    assert world.nodes_of(*pods) == ["b1", "b1", "b2", "b2"]
    assert world.let_go(*pods) == list(pods)


def test_no_gate_is_removed_before_all_claims_are_written() -> None:
    world = GangWorld(a=2)
    pods = world.add_gang("train", 4)
    world.settle(10)
    written = [number for number, call in enumerate(world.meddler.calls) if call == "patch resourceclaims/status"]
    removed = [
        number
        for number, (call, body) in enumerate(zip(world.meddler.calls, world.meddler.bodies, strict=True))
        if call == "patch pods" and body[0] in pods
    ]
    assert len(written) == len(removed) == 4
    assert max(written) < min(removed)


def test_a_gang_that_fits_nowhere_holds_nothing_and_says_once_why() -> None:
    world = GangWorld(a=1, b=1)
    pods = world.add_gang("train", 4)
    world.settle(60)
    world.check_gang(*pods, minimum=4)
    assert world.nodes_of(*pods) == [""] * 4
    conditions = {world.condition(pod) for pod in pods}
    assert len(conditions) == 1
    assert next(iter(conditions))[:2] == ("False", "Unallocatable")
    for fabric in ("a", "b"):
        assert f"2 of 4 members fit in {fabric} (devices on 1 node)" in next(iter(conditions))[2]
    assert [len(world.events(pod)) for pod in pods] == [1, 0, 0, 0], "one Event for the gang"


def test_a_gang_is_woken_by_a_node_that_helps_and_by_nothing_else() -> None:
    world = GangWorld(a=1, b=1)
    pods = world.add_gang("train", 4)
    world.settle(60)
    calls = len(world.meddler.calls)
    world.settle(REMIND_SECONDS - 60)
    assert len(world.meddler.calls) == calls, "nothing is written while nothing changes"
    world.add_node("b2", 2)
    world.label("b2", "b")
    world.settle(1)
    assert world.nodes_of(*pods) == ["b1", "b1", "b2", "b2"]


def test_a_cpu_pod_that_ends_on_the_one_node_that_lacked_cpu_starts_the_gang() -> None:
    world = GangWorld(a=2)
    world.add_pod("hungry", gates=(), cpu="8", nodeName="a2")
    pods = world.add_gang("train", 4)
    world.settle(60)
    assert world.nodes_of(*pods) == [""] * 4
    world.remove_pod("hungry")
    world.settle(1)
    assert world.nodes_of(*pods) == ["a1", "a1", "a2", "a2"]


def test_of_two_gangs_that_fit_one_at_a_time_one_runs_after_the_other() -> None:
    world = GangWorld(a=3)
    first, second = world.add_gang("first", 4), world.add_gang("second", 4)
    world.settle(60)
    world.bind_all()
    world.settle(60)
    assert len(world.let_go(*first)) == 4
    assert world.nodes_of(*second) == [""] * 4, "the other gang holds nothing"
    for pod in first:
        world.remove_pod(pod)
    world.settle(5)
    assert len(world.let_go(*second)) == 4


def test_an_incomplete_gang_waits_for_its_members() -> None:
    world = GangWorld(a=2)
    pods = world.add_gang("train", 3, minimum=4)
    world.settle(60)
    assert world.nodes_of(*pods) == [""] * 3
    assert world.condition(pods[0])[1:] == ("GangIncomplete", "gang default/train: 3 of 4 members exist")
    world.add_gang("train", 1, minimum=4, first=3)
    world.settle(5)
    assert len(world.let_go(*pods, "train-3")) == 4


def test_members_that_contradict_each_other_are_told_so() -> None:
    world = GangWorld(a=2)
    pods = (*world.add_gang("train", 2, minimum=3), *world.add_gang("train", 1, minimum=2, first=2))
    world.settle(60)
    assert {world.condition(pod)[1] for pod in pods} == {"GangInvalid"}


def test_members_that_share_a_claim_start_together() -> None:
    world = GangWorld(a=1)
    world.add_claim("shared", 2, config=[gang_config("train", 3)])
    pods = [world.add_pod(f"train-{number}", "shared")["metadata"]["name"] for number in range(3)]
    world.settle(10)
    reserved = [entry["name"] for entry in world.claim("shared")["status"]["reservedFor"]]
    assert sorted(reserved) == pods
    assert world.let_go(*pods) == pods


def test_members_that_share_a_claim_wait_for_room_for_all_of_them() -> None:
    """Nothing is written for some of them and taken back again, though these would be enough for the gang."""
    world = GangWorld(a=1)
    world.add_claim("shared", config=[gang_config("train", 2)])
    pods = [world.add_pod(f"train-{number}", "shared", cpu="3")["metadata"]["name"] for number in range(4)]
    world.settle(60)
    assert world.let_go(*pods) == []
    assert not [call for call in world.meddler.calls if "resourceclaims" in call and "patch" in call]
    world.add_node("a2", 1, cpu="12")
    world.label("a2", "a")
    world.settle(10)
    assert world.let_go(*pods) == pods
    assert world.node_of(pods[0]) == "a2"


def test_of_a_gang_too_large_for_the_cluster_nothing_stays_behind_for_others() -> None:
    """What a failed attempt counted would make 18 idle nodes look full."""
    world = GangWorld(a=2)
    world.add_gang("huge", 5)
    world.settle(60)
    pods = world.add_gang("train", 4)
    world.settle(10)
    assert len(world.let_go(*pods)) == 4


def test_two_gangs_never_hold_half_of_the_cluster_each() -> None:
    world = GangWorld(a=2)
    both = [world.add_gang("one", 3), world.add_gang("two", 3)]
    world.settle(60)
    assert sorted(len(world.let_go(*pods)) for pods in both) == [0, 3]
    for pods in both:
        world.check_gang(*pods, minimum=3)


# Crashes, conflicts and lost answers at every write


def at(number: int, error: BaseException) -> Any:
    calls = count(1)

    def meddle(what: str, obj: Any) -> None:
        if next(calls) == number:
            raise error

    return meddle


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", WRITES_OF_A_GANG)
def test_killed_at_any_write_of_a_commit(number: int, moment: str) -> None:
    world = GangWorld(a=1, b=2)
    pods = world.add_gang("train", 4)
    setattr(world.meddler, moment, at(number, Killed()))
    with expect_kill():
        world.settle(10)
    gone = world.let_go(*pods)
    assert not gone or "" not in world.nodes_of(*pods), "no gate is removed before all are placed"
    world.start()
    world.settle(60)
    world.check_gang(*pods, minimum=4)
    assert len(world.let_go(*pods)) == 4


@pytest.mark.parametrize("number", WRITES_OF_A_GANG)
def test_killed_at_any_write_while_a_node_is_lost(number: int) -> None:
    """The next run finds no room for the rest: it takes back what was written."""
    world = GangWorld(b=2)
    pods = world.add_gang("train", 4)
    world.meddler.after = at(number, Killed())
    with expect_kill():
        world.settle(10)
    if world.let_go(*pods):
        return
    world.api.patch(NODES, "b2", {"spec": {"unschedulable": True}})
    world.start()
    world.settle(60)
    world.check_gang(*pods, minimum=4)
    assert world.nodes_of(*pods) == [""] * 4
    single = world.add_gang("single", 2)
    world.settle(10)
    assert len(world.let_go(*single)) == 2, "nothing leaked"


def test_a_gang_that_is_taken_back_says_so_in_one_event() -> None:
    world = GangWorld(b=2)
    pods = world.add_gang("train", 4)

    def kill_when_all_hold_devices(what: str, about: Any) -> None:
        if "" not in world.nodes_of(*pods):
            raise Killed

    world.meddler.after = kill_when_all_hold_devices
    with expect_kill():
        world.settle(10)
    assert world.let_go(*pods) == []
    for node in ("b1", "b2"):
        world.api.patch(NODES, node, {"spec": {"unschedulable": True}})
    world.start()
    world.settle(60)
    assert world.nodes_of(*pods) == [""] * 4
    assert sorted(world.event_count(pod, "AllocationTakenBack") for pod in pods) == [0, 0, 0, 1]


@pytest.mark.parametrize("number", WRITES_OF_A_GANG)
@pytest.mark.parametrize("error", [Conflict("somebody else was first", status=409), Unavailable("lost")])
def test_trouble_at_any_write_of_a_commit(number: int, error: Exception) -> None:
    world = GangWorld(a=1, b=2)
    pods = world.add_gang("train", 4)
    world.meddler.before = at(number, error)
    world.settle(120)
    world.check_gang(*pods, minimum=4)
    assert len(world.let_go(*pods)) == 4
