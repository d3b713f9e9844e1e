"""Several pods preempt at once: each has a kept place, and nobody goes whose priority is higher than needed."""

import pytest

from driver.kube.api import PODS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import wanting_gang

GRACE = 30
SOON = 5
"""Seconds within which everything is done besides the grace period."""


def full(nodes: int, cards: int = 1, pods: int = 1) -> PreemptingWorld:
    """Nodes that are full of equal pods of low priority, so many on each."""
    world = PreemptingWorld(nodes, cards)
    for number in range(nodes * pods):
        world.running(f"low-{number}", count=cards // pods, terminationGracePeriodSeconds=GRACE)
    return world


def end_after_grace(world: PreemptingWorld) -> None:
    """All that were evicted end when their grace period is over; then everybody has a few seconds."""
    world.settle(GRACE)
    for name in world.evicted():
        world.remove_pod(name)
    world.settle(SOON)


def served(world: PreemptingWorld, names: list[str]) -> list[str]:
    return [name for name in names if world.held_by(name) and not world.gates(name)]


@pytest.mark.parametrize(("nodes", "cards", "pods", "each"), [(10, 1, 1, 1), (4, 8, 1, 8), (2, 8, 8, 4), (2, 8, 4, 2)])
@pytest.mark.parametrize("apart", [0, 1])
def test_all_of_a_burst_are_served_within_one_grace_period(
    nodes: int, cards: int, pods: int, each: int, apart: int
) -> None:
    world = full(nodes, cards, pods)
    burst = [f"high-{number}" for number in range(nodes * cards // each)]
    for number, name in enumerate(burst):
        world.wanting(name, HIGH + apart * number, each)
    world.settle(SOON)
    assert len(world.evicted()) == nodes * pods
    end_after_grace(world)
    assert served(world, burst) == burst
    assert not world.controller.state.kept_places
    world.check()


@pytest.mark.parametrize("running", [(10, 20, 10), (10, 10, 20), (20, 10, 10, 30), (10, 10, 10, 10, 10, 10)])
def test_nobody_of_a_higher_priority_goes_while_somebody_of_a_lower_one_would_do(running: tuple[int, ...]) -> None:
    world = PreemptingWorld(len(running), 1)
    for number, priority in enumerate(running):
        world.running(f"low-{number}", priority)
        world.clock.advance(10)
    for name in ("one", "two"):
        world.wanting(name, HIGH)
    world.settle(SOON)
    gone = world.evicted()
    lowest = sorted(running)[:2]
    assert sorted(running[int(name.removeprefix("low-"))] for name in gone) == lowest
    for name in gone:
        world.end(name)
    assert served(world, ["one", "two"]) == ["one", "two"]


def test_nobody_is_evicted_for_a_second_pod_that_has_no_place_besides_the_first() -> None:
    world = full(nodes=1)
    for name in ("one", "two"):
        world.wanting(name, HIGH)
    end_after_grace(world)
    assert served(world, ["one", "two"]) == ["one"]
    assert world.evicted() == []
    assert world.condition("two")[1] == "Unallocatable"


def test_others_are_evicted_at_once_when_a_room_is_given_back_that_was_in_the_way() -> None:
    world = PreemptingWorld(1, 3)
    world.running("a", count=2)
    world.running("b", priority=1)
    world.wanting("one", HIGH, 2)
    world.settle()
    assert world.evicted() == ["a"]
    world.wanting("two", HIGH, 3)
    world.settle(SOON)
    assert world.condition("two")[1] == "Unallocatable"
    world.api.delete(PODS, "one", "default", grace_period_seconds=0)
    world.settle(SOON)
    assert world.evicted() == ["a", "b"]
    for name in "ab":
        world.end(name)
    assert served(world, ["two"]) == ["two"]


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_restart_in_the_middle_of_a_burst_changes_nothing(after: int) -> None:
    world = full(nodes=3)
    burst = [f"high-{number}" for number in range(3)]
    for name in burst:
        world.wanting(name, HIGH)
    world.settle(SOON)
    gone = world.evicted()
    assert len(gone) == 3
    for name in gone[:after]:
        world.remove_pod(name)
    world.start()
    world.settle(SOON)
    assert world.evicted() == gone[after:]
    end_after_grace(world)
    assert served(world, burst) == burst


def test_all_of_a_burst_of_gangs_are_served_within_one_grace_period() -> None:
    world = full(nodes=4, cards=8, pods=4)
    gangs = [wanting_gang(world, 4, name=f"gang-{number}") for number in range(8)]
    world.settle(SOON)
    assert len(world.evicted()) == 16
    end_after_grace(world)
    members = [member for gang in gangs for member in gang]
    assert served(world, members) == members
    assert not world.controller.state.kept_places
    world.check()
