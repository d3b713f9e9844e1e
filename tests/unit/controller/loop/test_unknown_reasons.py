"""Pods that kube-scheduler refuses for reasons that the controller does not know end on a node that takes them."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from controller.reconcile.history import LAST_RESORT_SECONDS, PATIENCE_SECONDS, RAREST_RESORT_SECONDS
from driver.kube.api import NODES
from tests.unit.controller.loop.kubescheduler import UnknownReasons
from tests.unit.controller.loop.world import ControllerWorld


def one_pod(nodes: int, refuses: Callable[[str, str], str], cards: int = 2) -> tuple[ControllerWorld, UnknownReasons]:
    world = ControllerWorld(nodes=nodes, cards=cards)
    world.add_claim("a")
    world.add_pod("p", "a")
    return world, UnknownReasons(world, refuses, nodes)


def test_a_deployment_with_anti_affinity_is_bound_within_fifteen_seconds() -> None:
    world = ControllerWorld(nodes=6, cards=8)
    for number in range(4):
        world.add_claim(f"c{number}")
        world.add_pod(f"r{number}", f"c{number}")

    def refuses(pod: str, node: str) -> str:
        taken = {on for other, on in scheduler.bound.items() if other != pod}
        return "node(s) didn't match pod anti-affinity rules" if node in taken else ""

    scheduler = UnknownReasons(world, refuses, 6)
    assert scheduler.run(60, until=lambda: len(scheduler.bound) == 4) < 15
    assert sorted(scheduler.bound.values()) == ["n1", "n2", "n3", "n4"]
    world.check()


@pytest.mark.parametrize("good", ["n3", "n6"])
def test_a_pod_with_a_volume_elsewhere_is_tried_on_each_node_once_until_it_is_bound(good: str) -> None:
    world, scheduler = one_pod(6, lambda _, node: "" if node == good else "node(s) had volume node affinity conflict")
    scheduler.run(300, until=lambda: bool(scheduler.bound))
    assert scheduler.bound == {"p": good}
    tried = list(dict.fromkeys(scheduler.tried["p"]))
    assert tried == [f"n{number}" for number in range(1, int(good[1:]) + 1)]
    assert world.event_count("p", "AllocationTakenBack") == len(tried) - 1


def test_a_pod_that_fits_nowhere_says_so_once_with_the_useful_clause_first_and_waits() -> None:
    world, scheduler = one_pod(3, lambda *_: "node(s) had volume node affinity conflict")
    scheduler.run(60)
    assert world.devices("a") == []
    assert world.condition("p") == (
        "False",
        "Unallocatable",
        "kube-scheduler refuses the pod on 3 nodes: node(s) had volume node affinity conflict. "
        "0 of 3 nodes can take the pod.",
    )
    said, calls = world.events("p"), len(world.meddler.calls)
    scheduler.run(LAST_RESORT_SECONDS / 2)
    assert (world.events("p"), len(world.meddler.calls)) == (said, calls)


def test_a_change_of_a_node_gives_it_another_try() -> None:
    accepted: set[str] = set()
    world, scheduler = one_pod(3, lambda _, node: "" if node in accepted else "Insufficient example.com/thing")
    scheduler.run(60)
    assert world.devices("a") == []
    node = world.api.get(NODES, "n2")
    node["metadata"]["labels"] = {"changed": "yes"}
    accepted.add("n2")
    world.api.update(NODES, node)
    assert scheduler.run(60, until=lambda: bool(scheduler.bound)) < 15
    assert scheduler.bound == {"p": "n2"}


def test_a_node_that_changes_while_a_pod_is_refused_there_gets_another_try() -> None:
    def refuses(pod: str, node: str) -> str:
        # What has changed is seen by the next attempt of kube-scheduler, which comes too late.
        return "" if world.events("p", "AllocationTakenBack") else "node(s) were unschedulable"

    world, scheduler = one_pod(1, refuses)
    scheduler.run(1)
    assert world.devices("a") == ["n1/gpu-0"]
    node = world.api.get(NODES, "n1")
    node["metadata"]["labels"] = {"changed": "yes"}
    world.api.update(NODES, node)
    assert scheduler.run(60, until=lambda: bool(scheduler.bound)) < 15


def test_a_cause_that_nobody_sees_ends_by_the_last_resort() -> None:
    accepted: set[str] = set()
    _, scheduler = one_pod(3, lambda _, node: "" if node in accepted else "Insufficient example.com/thing")
    scheduler.run(60)
    accepted.add("n1")
    assert scheduler.run(2 * LAST_RESORT_SECONDS, until=lambda: bool(scheduler.bound)) > 0
    assert scheduler.bound == {"p": "n1"}


def test_a_pod_that_fits_nowhere_is_tried_ever_more_rarely_up_to_once_an_hour() -> None:
    world, _ = one_pod(3, lambda *_: "")
    changes = [(0.0, "")]

    def watch(what: str, _: object) -> None:
        devices = "".join(world.devices("a"))
        if what == "patch resourceclaims/status" and devices != changes[-1][1]:
            changes.append((world.clock.monotonic(), devices))

    world.meddler.after = watch
    while world.clock.monotonic() < 8 * 3600:
        world.settle(30)
        if changes[-1][1]:
            world.refuse("p")
    tries = [place.partition("/")[0] for _, place in changes if place]
    pauses = [later - earlier for (earlier, place), (later, _) in pairwise(changes) if not place]
    assert tries == [f"n{number % 3 + 1}" for number in range(len(tries))]
    assert pauses[:7] == pytest.approx([0, 0, 0, *(LAST_RESORT_SECONDS * 2**times for times in range(4))])
    assert pauses[7:] == pytest.approx([RAREST_RESORT_SECONDS] * len(pauses[7:]))
    assert len(pauses) > 10
    assert world.event_count("p", "AllocationTakenBack") == sum(not place for _, place in changes[1:])


def test_an_old_refusal_condemns_no_later_node() -> None:
    world = ControllerWorld(nodes=4, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    world.refuse("p")
    world.settle(3600)
    assert world.devices("a") == ["n2/gpu-0"], "kube-scheduler has said nothing about n2 yet"
    world.refuse("p")
    world.settle(2 * PATIENCE_SECONDS)
    assert world.devices("a") == ["n3/gpu-0"], "the same words again are news"


def test_an_error_of_kube_scheduler_is_neither_a_refusal_nor_does_it_clear_the_history() -> None:
    world = ControllerWorld(nodes=3, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    for place in ("n1", "n2", "n3"):
        world.settle(10)
        assert world.devices("a") == [f"{place}/gpu-0"]
        world.refuse("p", "running PreBind plugin: denied", "SchedulerError")
        world.meddler.calls.clear()
        world.settle(60)
        assert (world.devices("a"), world.meddler.calls) == ([f"{place}/gpu-0"], []), "an error is no refusal"
        world.refuse("p")
    world.settle(10)
    assert world.devices("a") == []


def test_a_new_leader_that_knows_nothing_of_refusals_costs_retries_only() -> None:
    world, scheduler = one_pod(6, lambda _, node: "" if node == "n5" else "no")
    scheduler.run(12)
    assert not scheduler.bound
    world.start()
    scheduler.run(120, until=lambda: bool(scheduler.bound))
    assert scheduler.bound == {"p": "n5"}
