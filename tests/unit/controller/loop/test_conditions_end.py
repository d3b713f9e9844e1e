"""What the condition of a pod says ends with its cause, also for pods that get no devices of ours in the end."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from driver.kube.api import DEVICE_CLASSES, PODS, Forbidden, Unavailable
from tests.unit.controller.loop.test_gang_groups import GroupWorld
from tests.unit.controller.loop.world import ControllerWorld, Killed, expect_kill

OTHERS = 'device.driver == "other.example.com"'
WRITES_OF_THE_END = range(1, 4)


def change_class(world: ControllerWorld, name: str, expression: str) -> None:
    changed = world.api.get(DEVICE_CLASSES, name)
    changed["spec"]["selectors"][0]["cel"]["expression"] = expression
    world.api.update(DEVICE_CLASSES, changed)


def unknown_class(world: ControllerWorld) -> Callable[[], None]:
    world.add_claim("c", device_class="late.example.com")
    return lambda: world.add_class("late.example.com", OTHERS)


def missing_claim(world: ControllerWorld) -> Callable[[], None]:
    world.add_class("nic", OTHERS)

    def create() -> None:
        world.add_claim("c", device_class="nic")

    return create


def ambiguous_class(world: ControllerWorld) -> Callable[[], None]:
    world.add_class("any", f'device.driver == "lode.dev" || {OTHERS}')
    world.add_claim("c", device_class="any")
    return lambda: change_class(world, "any", OTHERS)


def no_device(world: ControllerWorld) -> Callable[[], None]:
    world.add_class("moved", 'device.driver == "lode.dev"')
    world.add_claim("c", 9, device_class="moved")
    return lambda: change_class(world, "moved", OTHERS)


CAUSES: dict[str, Callable[[ControllerWorld], Callable[[], None]]] = {
    "UnknownClass": unknown_class,
    "ClaimMissing": missing_claim,
    "AmbiguousClass": ambiguous_class,
    "Impossible": no_device,
}


def waiting(reason: str) -> tuple[ControllerWorld, Callable[[], None]]:
    """A pod that waits for this reason, and what ends the cause: it turns out to be another driver's."""
    world = ControllerWorld()
    end = CAUSES[reason](world)
    world.add_pod("p", "c")
    world.settle(10)
    assert world.condition("p")[:2] == ("False", reason)
    return world, end


@pytest.mark.parametrize("reason", CAUSES)
def test_the_condition_of_a_pod_that_is_let_go_ends(reason: str) -> None:
    world, end = waiting(reason)
    end()
    world.settle(10)
    assert (world.gates("p"), world.condition("p")) == ([], ("", "", ""))


def test_a_pod_without_a_condition_is_let_go_with_one_write() -> None:
    world = ControllerWorld()
    world.add_class("nic", OTHERS)
    world.add_claim("c", device_class="nic")
    world.add_pod("p", "c")
    world.settle(10)
    assert world.gates("p") == []
    assert world.meddler.calls == ["patch pods"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", WRITES_OF_THE_END)
def test_it_ends_wherever_the_controller_dies(number: int, moment: str) -> None:
    world, end = waiting("UnknownClass")
    end()
    calls = count(1)

    def die(what: str, obj: Any) -> None:
        if next(calls) == number:
            raise Killed

    setattr(world.meddler, moment, die)
    with expect_kill():
        world.settle(10)
    world.start()
    world.settle(10)
    assert (world.gates("p"), world.condition("p")) == ([], ("", "", ""))


def test_a_report_that_comes_late_ends_as_well() -> None:
    """The API server stores it after the answer to it was lost and the pod was let go."""
    world = ControllerWorld()
    end = missing_claim(world)
    late: list[Any] = []

    def lose(what: str, obj: Any) -> None:
        if what == "patch pods/status" and not late:
            late.append(world.meddler.bodies[-1][1])
            raise Unavailable("connection lost")

    world.meddler.before = lose
    world.add_pod("p", "c")
    world.settle()
    end()
    world.settle(1)
    assert (len(late), world.gates("p")) == (1, [])
    world.api.patch(PODS, "p", late[0], namespace="default", subresource="status", patch_type="strategic")
    world.settle(1)
    assert world.condition("p") == ("", "", "")


def test_a_report_that_comes_late_about_a_pod_with_devices_is_corrected_though_it_is_bound() -> None:
    world = ControllerWorld()
    world.add_claim("c")
    world.add_pod("p", "c")
    world.settle(1)
    world.bind("p", "n1")
    late = {"type": "lode.dev/Allocated", "status": "False", "reason": "Unallocatable", "message": "no room"}
    patch = {"status": {"conditions": [late]}}
    world.api.patch(PODS, "p", patch, namespace="default", subresource="status", patch_type="strategic")
    world.settle(1)
    assert world.condition("p") == ("True", "Allocated", "on node n1")


def test_a_condition_from_before_ends_when_the_controller_starts() -> None:
    world, end = waiting("UnknownClass")
    world.api.patch(PODS, "p", {"spec": {"schedulingGates": None}}, namespace="default")
    end()
    world.start()
    world.settle(10)
    assert world.condition("p") == ("", "", "")


def test_a_gate_that_may_not_be_removed_is_told_and_tried_ever_more_rarely() -> None:
    world, end = waiting("UnknownClass")
    tried: list[float] = []

    def refuse(what: str, obj: Any) -> None:
        if what == "patch pods":
            tried.append(world.clock.monotonic())
            raise Forbidden("a policy of somebody else", status=403)

    world.meddler.before = refuse
    end()
    world.settle(600)
    assert world.condition("p")[:2] == ("False", "WriteRefused")
    assert "a policy of somebody else" in world.condition("p")[2]
    assert len(tried) < 30
    world.meddler.before = None
    world.settle(600)
    assert (world.gates("p"), world.condition("p")) == ([], ("", "", ""))


def test_the_conditions_of_a_group_of_another_driver_end_as_well() -> None:
    """Its members wait together as long as it is not known whose devices they want."""
    world = GroupWorld(minimum=2, by_scheduler=True)
    for name in ("train-0", "train-1"):
        world.add_claim(name, device_class="late.example.com")
        world.add_pod(name, name, schedulingGroup={"podGroupName": "train"})
    world.settle(30)
    assert world.condition("train-0")[:2] == ("False", "UnknownClass")
    world.add_class("late.example.com", OTHERS)
    world.settle(30)
    for name in ("train-0", "train-1"):
        assert (world.gates(name), world.condition(name)) == ([], ("", "", ""))
