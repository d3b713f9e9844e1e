"""While a node is held back for somebody else, nobody is evicted there; once it is not, somebody is."""

from collections.abc import Callable

import pytest

from driver.kube.api import PODS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import COMPLETE, gang_of

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
