"""Wall clocks are set and differ. No pause takes longer than its own maximum because of that."""

from collections.abc import Callable

import pytest

from controller.reconcile.claims import ORPHAN_SECONDS
from controller.state.times import Timeline
from driver.clock import rfc3339
from driver.kube.api import PODS, RESOURCE_CLAIMS, Invalid
from tests.simulation.clock import VirtualClock
from tests.unit.controller.loop.gangworld import GangWorld
from tests.unit.controller.loop.world import ControllerWorld

SET = pytest.mark.parametrize("seconds", [0, -3600, 3600])
JUMP = 3600


def seconds_until(world: ControllerWorld, is_so: Callable[[], bool]) -> float:
    began = world.clock.monotonic()
    while not is_so():
        assert world.clock.monotonic() - began < 2 * JUMP
        world.settle(1)
    return world.clock.monotonic() - began


@SET
def test_the_devices_of_a_claim_that_nobody_uses_are_freed_in_time(seconds: float) -> None:
    world = ControllerWorld(nodes=1, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(2)
    patch = {"status": {"reservedFor": None}}
    world.api.patch(RESOURCE_CLAIMS, "a", patch, namespace="default", subresource="status")
    world.api.delete(PODS, "p", "default", grace_period_seconds=0)
    world.settle(1)
    world.clock.set(seconds)
    assert seconds_until(world, lambda: not world.devices("a")) <= ORPHAN_SECONDS


@SET
def test_a_pod_that_kube_scheduler_refuses_is_moved_in_time(seconds: float) -> None:
    world = ControllerWorld(nodes=2, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(2)
    first = world.devices("a")
    world.clock.set(seconds)
    world.refuse("p")
    assert seconds_until(world, lambda: world.devices("a") not in ([], first)) <= 6


def test_a_leader_whose_clock_is_behind_that_of_the_last_moves_a_refused_pod_in_time() -> None:
    world = ControllerWorld(nodes=2, cards=1)
    world.settle(2)
    world.clock.set(600)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(2)
    first = world.devices("a")
    world.clock.set(-600)
    world.start()
    world.refuse("p")
    assert seconds_until(world, lambda: world.devices("a") not in ([], first)) <= 8


@SET
def test_a_pod_whose_write_was_refused_is_tried_again_in_time(seconds: float) -> None:
    world = ControllerWorld(nodes=1, cards=1)
    refuses = [True]

    def webhook(what: str, _: object) -> None:
        if what == "patch resourceclaims/status" and refuses[0]:
            raise Invalid("admission webhook denied the request: maintenance", status=422)

    world.meddler.before = webhook
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(2)
    refuses[0] = False
    world.clock.set(seconds)
    assert seconds_until(world, lambda: bool(world.devices("a"))) <= 60


@SET
def test_a_gang_that_may_start_with_fewer_members_starts_in_time(seconds: float) -> None:
    world = GangWorld(a=2)
    world.settle(2)
    pods = world.add_gang("train", 3, minimum=2)
    world.clock.set(seconds)
    assert seconds_until(world, lambda: len(world.let_go(*pods)) == 3) <= 3


def test_a_time_stamp_counts_from_when_it_was_seen_first() -> None:
    clock = VirtualClock()
    timeline = Timeline(clock.now, clock.monotonic)
    past, future = rfc3339(clock.now() - 10), rfc3339(clock.now() + 1000)
    assert [timeline.at(past), timeline.at(future)] == [-10, 0]
    clock.advance(5)
    clock.set(-JUMP)
    assert [timeline.at(past), timeline.at(future)] == [-10, 0]
    assert timeline.at("nonsense") < -1_000_000_000
