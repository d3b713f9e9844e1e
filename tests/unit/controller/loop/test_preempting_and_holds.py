"""While a node is held back for somebody else, nobody is evicted there; once it is not, somebody is."""

from collections.abc import Callable

import pytest

from driver.kube.api import PODS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import COMPLETE, gang_of, wanting_gang

AFTER, LONGEST, PAUSE = 10, 60, 300
HOLD = {"after_seconds": AFTER, "for_seconds": LONGEST, "pause_seconds": PAUSE, "share": 1}


def held_world() -> PreemptingWorld:
    """A node whose card a pod of low priority has, held back for a pod that preempts nobody."""
    world = PreemptingWorld(nodes=1, cards=1, hold=HOLD)
    world.running("low")
    world.wanting("patient", HIGH, preemptionPolicy="Never")
    world.settle(AFTER + 1)
    assert world.controller.held_nodes
    return world


def pod_waits(world: PreemptingWorld) -> None:
    world.wanting("important", HIGH)
    world.settle(5)


def gang_waits(world: PreemptingWorld) -> None:
    world.add_claim("important", config=[gang_of("job", 1)])
    world.add_pod("important", "important", priority=HIGH)
    world.settle(COMPLETE)


@pytest.mark.parametrize("waits", [pod_waits, gang_waits])
def test_somebody_is_evicted_once_the_node_is_held_back_no_longer(waits: Callable[[PreemptingWorld], None]) -> None:
    world = held_world()
    waits(world)
    assert world.evicted() == []
    world.settle(LONGEST)
    assert world.evicted() == ["low"]


def test_somebody_is_evicted_when_whoever_the_node_was_held_back_for_is_gone() -> None:
    world = held_world()
    pod_waits(world)
    world.api.delete(PODS, "patient", "default", grace_period_seconds=0)
    world.settle(5)
    assert world.evicted() == ["low"]


def test_who_waits_for_an_end_takes_a_node_that_is_held_back_for_a_gang_no_longer() -> None:
    """So does one that was held back for a single pod: whatever opens is news for those whose place may change."""
    world = PreemptingWorld(nodes=3, cards=1, hold=HOLD)
    on = {world.running(name, HIGH): name for name in ("a", "b", "c")}
    members = wanting_gang(world, 2, HIGH + 1, preemptionPolicy="Never")
    world.settle(AFTER + COMPLETE)
    (held,) = world.controller.held_domains
    (ending,) = on.keys() - held.nodes
    opening = min(held.nodes)
    world.api.delete(PODS, on[ending], "default", grace_period_seconds=300)
    world.end(on[opening])
    world.wanting("important", HIGH)
    world.settle(5)
    place = world.controller.state.kept_places.for_pod("default/important")
    assert place is not None
    assert place.node == ending
    for member in members:
        world.remove_pod(member)
    world.settle(5)
    assert world.devices("important") == [f"{opening}/gpu-0"]
