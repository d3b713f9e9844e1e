"""Gangs after their gates are removed: members that are refused, are lost, or come later; and who is served first."""

from typing import Any

import pytest

from driver.kube.api import RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from tests.unit.controller.loop.gangworld import GangWorld, gang_config
from tests.unit.controller.loop.world import NAMES


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


def test_if_no_node_of_the_fabric_takes_a_refused_member_and_one_is_bound_it_waits_and_says_so() -> None:
    world = GangWorld(a=2, b=2)
    pods = world.add_gang("train", 4)
    world.settle(10)
    (fabric,) = {node[0] for node in world.nodes_of(*pods)}
    runs = [pod for pod in pods if world.node_of(pod) == f"{fabric}1"]
    refused = [pod for pod in pods if pod not in runs]
    for _ in range(10):
        world.bind_all(refuses=(f"{fabric}2",))
        world.settle(5)
    assert world.nodes_of(*runs) == [f"{fabric}1"] * 2, "what runs goes on running"
    assert world.nodes_of(*refused) == [""] * 2, "nothing is held for those that wait"
    for pod in refused:
        assert world.condition(pod)[:2] == ("False", "Unallocatable")
        assert f"2 of 3 members fit in {fabric}" in world.condition(pod)[2]


def test_a_member_that_comes_later_waits_for_the_end_of_a_pod_and_for_nothing_else() -> None:
    world = GangWorld(a=2, b=2)
    pods = started(world, 4)
    (fabric,) = {node[0] for node in world.nodes_of(*pods)}
    world.add_gang("train", 1, minimum=4, first=4)
    world.settle(60)
    world.meddler.calls.clear()
    world.settle(7200)
    assert all("events" in call for call in world.meddler.calls), "nothing is tried by time"
    world.remove_pod(pods[2])
    world.settle(1)
    assert world.node_of("train-4")[0] == fabric


# Who is served first


def test_priority_comes_first_then_a_replacement_then_age() -> None:
    world = GangWorld(a=1)
    pods = started(world, 2, minimum=2)
    for name, priority in (("older", 0), ("urgent", 10)):
        world.add_claim(name)
        world.add_pod(name, name, priority=priority)
    world.settle(10)
    world.clock.advance(10)
    replaced(world, pods[0], "again", 2)
    world.settle(5)
    assert [world.node_of(pod) for pod in ("urgent", "again", "older")] == ["a1", "", ""]
    world.bind_all()
    world.remove_pod("urgent")
    world.settle(5)
    assert [world.node_of(pod) for pod in ("again", "older")] == ["a1", ""]


def test_a_gang_is_decided_on_what_is_being_written_for_another() -> None:
    world = GangWorld(a=2)
    world.latency = lambda sequence, result: 3
    both = [world.add_gang("one", 3), world.add_gang("two", 3)]
    for _ in range(60):
        world.settle(1)
        for pods in both:
            world.check_gang(*pods, minimum=0)
        assert sum(bool(node) for pods in both for node in world.nodes_of(*pods)) <= 3
    assert sorted(len(world.let_go(*pods)) for pods in both) == [0, 3]


def test_a_gang_takes_the_alternative_that_lets_all_members_start() -> None:
    """Its only card can be given as a whole to one member, or in halves to two."""
    world = GangWorld(a=1, cards=0)
    world.add_class("half.lode.dev", 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "half"')
    publish_card_with_halves(world, "a1")
    for number in range(2):
        choices = [{"name": name, "deviceClassName": f"{name}.lode.dev"} for name in ("gpu", "half")]
        devices = {"requests": [{"name": "r", "firstAvailable": choices}], "config": [gang_config("train", 2)]}
        metadata = {"name": f"train-{number}", "namespace": "default"}
        world.api.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": {"devices": devices}})
        world.add_pod(f"train-{number}", f"train-{number}")
    world.settle(10)
    assert world.let_go("train-0", "train-1") == ["train-0", "train-1"]
    assert [world.devices(f"train-{number}") for number in range(2)] == [["a1/half-0"], ["a1/half-1"]]


def publish_card_with_halves(world: GangWorld, node: str) -> None:
    """One card that is offered as a whole and in two halves."""
    pool = {"name": f"{node}/more", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": NAMES.driver, "nodeName": node, "pool": pool}
    sets = [{"name": "card", "counters": {"units": {"value": "2"}}}]
    devices = [_part("gpu-0", "gpu", 2), _part("half-0", "half", 1), _part("half-1", "half", 1)]
    for number, content in enumerate(({"sharedCounters": sets}, {"devices": devices})):
        spec = {**common, **content}
        world.api.create(RESOURCE_SLICES, {"metadata": {"name": f"{node}-more-{number}"}, "spec": spec})


def _part(name: str, kind: str, units: int) -> Object:
    consumed: Any = {"counterSet": "card", "counters": {"units": {"value": str(units)}}}
    return {"name": name, "attributes": {"kind": {"string": kind}}, "consumesCounters": [consumed]}
