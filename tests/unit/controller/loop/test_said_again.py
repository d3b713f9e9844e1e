"""An API server forgets an Event an hour after it was written: why a pod waits is said again before."""

from typing import Any

import pytest

from controller.reporting import REMIND_SECONDS
from driver.kube.api import EVENTS, Unavailable
from tests.unit.controller.loop.gangworld import GangWorld
from tests.unit.controller.loop.world import ControllerWorld

HOURS = 3


def waiting_pods(count: int = 2) -> ControllerWorld:
    """A card that ``run`` has, and pods that wait for it."""
    world = ControllerWorld(nodes=1, cards=1, hold={"enabled": False})
    world.add_claim("c-run")
    world.add_pod("run", "c-run", cpu="10m")
    world.settle()
    world.bind("run", "n1")
    for number in range(count):
        world.add_claim(f"c{number}")
        world.add_pod(f"p{number}", f"c{number}", cpu="10m")
    world.settle(5)
    return world


def forget_events(world: ControllerWorld, names: tuple[str, ...] = ()) -> None:
    """What the API server does after an hour."""
    for event in world.api.list(EVENTS).items:
        if not names or event["involvedObject"]["name"] in names:
            world.api.delete(EVENTS, event["metadata"]["name"], "default")


def calls_about_pods(world: ControllerWorld) -> set[str]:
    return {call for call in world.meddler.calls if "events" not in call}


def test_why_a_pod_waits_can_be_read_after_hours_and_nothing_else_is_written() -> None:
    world = waiting_pods()
    world.meddler.calls.clear()
    world.settle(HOURS * 3600)
    for name in ("p0", "p1"):
        assert world.event_count(name) == 1 + int(HOURS * 3600 / REMIND_SECONDS)
        assert "in use by" in world.events(name, "Unallocatable")[0]
    assert calls_about_pods(world) == set()


def test_what_was_forgotten_meanwhile_is_said_anew() -> None:
    world = waiting_pods()
    forget_events(world)
    world.settle(3600)
    assert world.event_count("p0") == 1


def test_a_pod_that_is_served_or_deleted_is_not_told_any_more() -> None:
    world = waiting_pods(3)
    world.remove_pod("run")
    world.settle(5)
    assert world.devices("c0")
    world.remove_pod("p1")
    world.settle(HOURS * 3600)
    assert (world.event_count("p0"), world.event_count("p1")) == (1, 1)
    assert world.event_count("p2") >= 1 + HOURS, "who has the card now is news"


def test_an_event_about_a_claim_that_pods_share_is_said_again_once() -> None:
    world = ControllerWorld()
    world.add_claim("wrong", device_class="none")
    for number in range(3):
        world.add_pod(f"p{number}", "wrong")
    world.settle(5)
    before = world.event_count("wrong")
    assert before
    world.settle(3600)
    assert world.event_count("wrong") == before + 1


def test_a_new_run_says_it_no_sooner_than_the_earlier_one_would_have() -> None:
    world = waiting_pods()
    world.settle(REMIND_SECONDS - 120)
    world.start()
    world.settle(60)
    assert world.event_count("p0") == 1
    world.settle(120)
    assert world.event_count("p0") == 2


def test_a_new_run_says_what_was_forgotten_while_nobody_ran() -> None:
    world = waiting_pods()
    forget_events(world, ("p0",))
    world.start()
    world.settle(60)
    assert (world.event_count("p0"), world.event_count("p1")) == (1, 1)


def test_an_event_of_an_earlier_run_that_cannot_be_read_is_looked_for_again() -> None:
    world = waiting_pods()
    world.settle(600)
    world.start()

    def fail(what: str, _: Any) -> None:
        if what == "get events":
            raise Unavailable("no answer")

    world.meddler.before = fail
    world.settle(60)
    world.meddler.before = None
    assert world.meddler.calls.count("get events")
    world.settle(REMIND_SECONDS - 600)
    assert world.event_count("p0") == 2


def test_of_a_gang_the_event_is_said_again_that_was_said() -> None:
    world = GangWorld(cards=1, a=1)
    world.add_gang("g", 2)
    world.settle(5)
    told = {name: world.event_count(name) for name in ("g-0", "g-1")}
    assert sorted(told.values()) == [0, 1]
    world.settle(3600)
    assert {name: world.event_count(name) for name in told} == {name: 2 * count for name, count in told.items()}


@pytest.mark.parametrize("deleted", [0, 1])
def test_when_the_member_with_the_event_is_gone_another_one_gets_it(deleted: int) -> None:
    world = GangWorld(cards=1, a=1)
    world.add_gang("g", 3, minimum=2)
    world.settle(5)
    world.remove_pod(f"g-{deleted}")
    world.settle(60)
    assert sum(world.event_count(f"g-{number}") > 0 for number in range(3) if number != deleted) == 1


def test_placing_comes_before_what_is_said_again() -> None:
    world = waiting_pods(50)
    world.settle(REMIND_SECONDS - 10)
    world.clock.advance(20)
    world.add_node("n2", 1)
    world.observe()
    while not world.devices("c0"):
        world.observe()
        if not world.controller.step():
            world.writes.step()
        assert world.event_count("p49") == 1
