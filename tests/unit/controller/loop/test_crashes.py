"""Wherever the controller dies or an answer is lost, the next run finishes the work and nothing is given out twice."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from driver.kube.api import RESOURCE_CLAIMS, Conflict, Unavailable
from tests.unit.controller.loop.world import ControllerWorld, Killed, expect_kill

Meddling = Callable[[str, Any], None]
WRITES_OF_THE_WHOLE_STORY = range(1, 17)


def story() -> ControllerWorld:
    """Three pods want 2 + 2 + 1 cards of two nodes with two cards each; one of them has two claims."""
    world = ControllerWorld(nodes=2, cards=2)
    for name, size in (("a", 1), ("b", 1), ("c", 2), ("d", 1)):
        world.add_claim(name, size)
    world.add_pod("first", "a", "b")
    world.add_pod("second", "c")
    world.add_pod("third", "d")
    return world


def told(world: ControllerWorld) -> None:
    """Two of the three pods fit, whichever came first; each has all of its devices on one node, or none and a gate."""
    world.check()
    placed = 0
    for pod, (claims, size) in {"first": ("ab", 2), "second": ("c", 2), "third": ("d", 1)}.items():
        devices = [device for claim in claims for device in world.devices(claim)]
        assert len({device.split("/")[0] for device in devices}) == (1 if devices else 0)
        assert (len(devices), len(world.gates(pod))) in ((size, 0), (0, 1))
        assert world.condition(pod)[0] == ("True" if devices else "False")
        placed += bool(devices)
    assert placed == 2


def at(number: int, error: BaseException) -> Meddling:
    calls = count(1)

    def meddle(what: str, obj: Any) -> None:
        if next(calls) == number:
            raise error

    return meddle


def lost_forever(number: int) -> Meddling:
    """From call ``number`` on, no answer arrives for a while."""
    calls = count(1)

    def meddle(what: str, obj: Any) -> None:
        if number <= next(calls) < number + 4:
            raise Unavailable("connection lost")

    return meddle


def test_the_story_ends_well_without_any_trouble() -> None:
    world = story()
    world.settle(10)
    told(world)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", WRITES_OF_THE_WHOLE_STORY)
def test_killed_at_any_call(number: int, moment: str) -> None:
    world = story()
    setattr(world.meddler, moment, at(number, Killed()))
    with expect_kill():
        world.settle(10)
    world.check()
    world.start()
    world.settle(60)
    told(world)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", WRITES_OF_THE_WHOLE_STORY)
@pytest.mark.parametrize("trouble", [lost_forever, lambda number: at(number, Unavailable("lost"))])
def test_an_answer_lost_at_any_call(number: int, moment: str, trouble: Callable[[int], Meddling]) -> None:
    world = story()
    setattr(world.meddler, moment, trouble(number))
    world.settle(120)
    told(world)


@pytest.mark.parametrize("number", WRITES_OF_THE_WHOLE_STORY)
def test_a_conflict_at_any_call(number: int) -> None:
    world = story()
    world.meddler.before = at(number, Conflict("somebody else was first", status=409))
    world.settle(60)
    told(world)


def test_a_write_that_arrives_late_cannot_take_devices_given_to_somebody_else() -> None:
    world = ControllerWorld(cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    late: list[Any] = []

    def hold_back(what: str, obj: Any) -> None:
        if what == "patch resourceclaims/status" and not late:
            late.append(world.meddler.bodies[-1][1])
            raise Unavailable("no answer")

    world.meddler.before = hold_back
    world.settle()
    world.add_claim("b")
    world.add_pod("q", "b")
    world.settle(30)
    with pytest.raises(Conflict):
        world.api.patch(RESOURCE_CLAIMS, "a", late[0], namespace="default", subresource="status")
    world.check()
    assert world.devices("a") + world.devices("b") == ["n1/gpu-0"]
