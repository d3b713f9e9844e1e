"""Gangs in the running controller: all members or none, in one fabric, through crashes, refusals and losses."""

from itertools import count
from typing import Any

import pytest

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
    assert "gang default/train: 2 of 4 members fit in a" in next(iter(conditions))[2]
    assert [len(world.events(pod)) for pod in pods] == [1, 0, 0, 0], "one Event for the gang"


def test_a_gang_is_woken_by_a_node_that_helps_and_by_nothing_else() -> None:
    world = GangWorld(a=1, b=1)
    pods = world.add_gang("train", 4)
    world.settle(60)
    calls = len(world.meddler.calls)
    world.settle(3600)
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


@pytest.mark.parametrize("number", WRITES_OF_A_GANG)
@pytest.mark.parametrize("error", [Conflict("somebody else was first", status=409), Unavailable("lost")])
def test_trouble_at_any_write_of_a_commit(number: int, error: Exception) -> None:
    world = GangWorld(a=1, b=2)
    pods = world.add_gang("train", 4)
    world.meddler.before = at(number, error)
    world.settle(120)
    world.check_gang(*pods, minimum=4)
    assert len(world.let_go(*pods)) == 4


# After the start


def started(world: GangWorld, members: int, minimum: int = 0) -> tuple[str, ...]:
    pods = world.add_gang("train", members, minimum)
    world.settle(10)
    world.bind_all()
    world.settle(10)
    return pods


def replaced(world: GangWorld, pod: str, new: str, minimum: int) -> None:
    """The pod is lost, and its controller makes another one."""
    world.remove_pod(pod)
    world.add_claim(new, config=[gang_config("train", minimum)])
    world.add_pod(new, new)


def test_a_lost_member_is_replaced_in_the_fabric_of_the_others() -> None:
    world = GangWorld(a=4, b=2)
    pods = started(world, 4)
    (fabric,) = {node[0] for node in world.nodes_of(*pods)}
    replaced(world, pods[3], "again", 4)
    world.settle(5)
    assert world.node_of("again")[0] == fabric
    assert world.let_go("again") == ["again"]


def test_two_members_lost_at_once_are_replaced_each_when_it_can_be() -> None:
    world = GangWorld(a=2)
    pods = started(world, 4)
    for pod, new in ((pods[0], "first"), (pods[1], "second")):
        world.remove_pod(pod)
        world.add_claim(new, config=[gang_config("train", 4)])
    world.add_pod("first", "first", cpu="99")
    world.add_pod("second", "second")
    world.settle(5)
    assert world.nodes_of("first", "second")[0] == ""
    assert world.let_go("first", "second") == ["second"]


def test_a_node_that_is_not_ready_for_a_minute_changes_no_claim() -> None:
    world = GangWorld(a=2, b=2)
    pods = started(world, 4)
    before = [world.claim(pod) for pod in pods]
    node = world.node_of(pods[0])
    world.set_ready(node, False)
    world.settle(60)
    world.set_ready(node, True)
    world.settle(60)
    assert [world.claim(pod) for pod in pods] == before


def test_a_member_that_kube_scheduler_refuses_moves_within_the_fabric() -> None:
    world = GangWorld(a=3, b=3)
    pods = world.add_gang("train", 4)
    world.settle(10)
    refusing = world.node_of(pods[0])
    for _ in range(10):
        world.bind_all(refuses=(refusing,))
        world.settle(5)
    nodes = world.nodes_of(*pods)
    assert refusing not in nodes
    assert len({node[0] for node in nodes}) == 1
    assert all(world.pod(pod)["spec"].get("nodeName") for pod in pods)


def test_a_gang_that_no_node_of_a_fabric_takes_moves_to_another() -> None:
    world = GangWorld(a=2, b=2)
    pods = world.add_gang("train", 4)
    world.settle(10)
    (first,) = {node[0] for node in world.nodes_of(*pods)}
    for _ in range(20):
        world.bind_all(refuses=(f"{first}1", f"{first}2"))
        world.settle(5)
    assert {node[0] for node in world.nodes_of(*pods)} == {"b" if first == "a" else "a"}
    assert all(world.pod(pod)["spec"].get("nodeName") for pod in pods)


@pytest.mark.parametrize("moves", [False, True], ids=["waits", "moves"])
def test_when_the_fabric_of_a_gang_is_gone_later_members_wait_for_it_or_move(moves: bool) -> None:
    world = GangWorld(a=2, b=2)
    gang = {"onDomainLoss": "move" if moves else "wait"}
    pods = world.add_gang("train", 3, minimum=3, gang=gang)
    world.settle(10)
    world.bind_all()
    (fabric,) = {node[0] for node in world.nodes_of(*pods)}
    for number in (1, 2):
        world.label(f"{fabric}{number}", None)
    world.add_gang("train", 1, minimum=3, first=3, gang=gang)
    world.settle(60)
    other = "b" if fabric == "a" else "a"
    assert world.node_of("train-3")[:1] == (other if moves else "")
    if not moves:
        assert "the members that stand are in no domain of fabric" in world.condition("train-3")[2]
        world.label(f"{fabric}1", fabric)
        world.label(f"{fabric}2", fabric)
        world.settle(5)
        assert world.node_of("train-3")[0] == fabric


def test_a_gang_of_which_no_member_runs_starts_anew_wherever_it_fits() -> None:
    world = GangWorld(a=2, b=2)
    pods = started(world, 4)
    (fabric,) = {node[0] for node in world.nodes_of(*pods)}
    for number in (1, 2):
        world.set_ready(f"{fabric}{number}", False)
    for pod in pods:
        world.remove_pod(pod)
    again = world.add_gang("train", 4, first=4, minimum=4)
    world.settle(10)
    assert {node[0] for node in world.nodes_of(*again)} == {"b" if fabric == "a" else "a"}


def test_members_left_over_while_others_run_wait_and_say_so() -> None:
    world = GangWorld(a=2)
    pods = started(world, 4)
    world.add_gang("train", 1, minimum=4, first=4)
    world.settle(30)
    assert world.condition("train-4")[1] == "Unallocatable"
    assert world.node_of("train-4") == ""
    replaced_by_nobody = pods[0]
    world.remove_pod(replaced_by_nobody)
    world.settle(5)
    assert world.let_go("train-4") == ["train-4"]
