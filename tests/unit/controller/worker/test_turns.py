"""A gang is decided together, and not once for each of its members."""

import pytest

from controller.worker.queue import AT_ONCE
from tests.unit.controller.loop.gangworld import GangWorld

MOST = 6
"""Decisions from the last member to the last gate: one that waits for further members, two phases, and what the API
reports of them."""


def decided(world: GangWorld) -> float:
    """How many decisions about gangs were made."""
    found = world.metrics.registry.get_sample_value("lode_controller_decisions_total", {"outcome": "gang"})
    return found or 0


@pytest.mark.parametrize("members", [4, AT_ONCE, 4 * AT_ONCE])
def test_a_start_takes_as_many_decisions_for_a_large_gang_as_for_a_small_one(members: int) -> None:
    world = GangWorld(cards=8, a=members // 8 + 1)
    pods = world.add_gang("train", members - 1, minimum=members, cpu="100m")
    world.settle(60)
    before = decided(world)
    world.add_gang("train", 1, minimum=members, first=members - 1, cpu="100m")
    world.settle(10)
    assert len(world.let_go(*pods)) == members - 1
    assert decided(world) - before <= MOST
