"""A pod that no node can ever take is told so, with a reason of its own; one that only has to wait is not."""

from typing import Any

import pytest

from controller.reporting import REWORD_SECONDS
from driver.kube.api import NODES, RESOURCE_SLICES
from tests.unit.controller.loop.world import ControllerWorld

SAYS = "Waiting does not help: no node has what the claims ask for, even if nothing was in use."


def told(world: ControllerWorld, **asks: Any) -> str:
    """The reason for which a pod that asks for this waits; its condition and its Event say the same."""
    world.add_claim("c", **asks)
    world.add_pod("p", "c")
    world.settle(5)
    _, reason, message = world.condition("p")
    assert (SAYS in message) == (reason == "Impossible")
    assert world.events("p", reason)[0] == message
    return reason


def alternatives(*choices: tuple[str, int]) -> dict[str, Any]:
    """A request that any of these satisfies: a class, and how many of its devices."""
    subrequests = [{"name": f"r{at}", "deviceClassName": name, "count": n} for at, (name, n) in enumerate(choices)]
    return {"requests": [{"name": "any", "firstAvailable": subrequests}]}


def in_use(world: ControllerWorld) -> ControllerWorld:
    """The world in which a pod has one card of ``n1``."""
    world.add_claim("held")
    world.add_pod("holder", "held")
    world.settle(1)
    assert world.devices("held") == ["n1/gpu-0"]
    return world


@pytest.mark.parametrize(
    "asks",
    [
        {"count": 3},
        {"device_class": "none.lode.dev"},
        alternatives(("gpu.lode.dev", 3), ("none.lode.dev", 1)),
        {"requests": [{"name": "all", "exactly": {"deviceClassName": "none.lode.dev", "allocationMode": "All"}}]},
    ],
    ids=["more than any node has", "of a class that fits no device", "every alternative", "all of none"],
)
def test_what_no_node_has_is_impossible(asks: dict[str, Any]) -> None:
    world = ControllerWorld(nodes=2, cards=2)
    world.add_class("none.lode.dev", 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "none"')
    assert told(in_use(world), **asks) == "Impossible"


@pytest.mark.parametrize(
    "asks",
    [{"count": 2}, alternatives(("gpu.lode.dev", 3), ("gpu.lode.dev", 2))],
    ids=["of one request", "of one alternative"],
)
def test_devices_in_use_are_worth_waiting_for(asks: dict[str, Any]) -> None:
    assert told(in_use(ControllerWorld(nodes=1, cards=2)), **asks) == "Unallocatable"


@pytest.mark.parametrize("reason", ["not ready", "cordoned", "no CPU left"])
def test_a_node_that_takes_no_pods_now_may_take_them_later(reason: str) -> None:
    world = ControllerWorld(nodes=1, cards=1)
    world.add_node("large", 2, cpu="0" if reason == "no CPU left" else "8")
    if reason == "not ready":
        world.set_ready("large", False)
    if reason == "cordoned":
        world.api.update(NODES, {**world.api.get(NODES, "large"), "spec": {"unschedulable": True}})
    assert told(world, count=2) == "Unallocatable"


def test_nodes_that_take_no_pods_now_and_have_too_few_do_not_hide_that_it_is_impossible() -> None:
    world = ControllerWorld(nodes=2, cards=1)
    world.set_ready("n2", False)
    assert told(world, count=2) == "Impossible"


def test_a_pool_of_which_slices_are_missing_may_have_them() -> None:
    world = ControllerWorld(nodes=1, cards=1)
    name = world.api.list(RESOURCE_SLICES).items[0]["metadata"]["name"]
    spec = world.api.get(RESOURCE_SLICES, name)["spec"]
    again = {**spec["pool"], "generation": spec["pool"]["generation"] + 1, "resourceSliceCount": 2}
    world.api.update(RESOURCE_SLICES, {**world.api.get(RESOURCE_SLICES, name), "spec": {**spec, "pool": again}})
    assert told(world, count=2) == "Unallocatable"


def test_a_new_node_makes_it_possible() -> None:
    world = ControllerWorld(nodes=1, cards=1)
    assert told(world, count=2) == "Impossible"
    world.add_node("large", 2)
    world.settle(5)
    assert world.condition("p")[0] == "True"
    assert len(world.devices("c")) == 2


def test_it_is_told_once_while_only_words_change() -> None:
    world = ControllerWorld(nodes=1, cards=1)
    told(world, count=2)
    world.set_ready("n1", False)
    world.settle(REWORD_SECONDS / 2)
    assert [world.event_count("p", reason) for reason in ("Impossible", "Unallocatable")] == [1, 0]
