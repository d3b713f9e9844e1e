"""A pod or gang over its quota has nobody evicted, and what is kept for one counts for its namespace."""

import pytest

from driver.kube.api import PODS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import COMPLETE, placed, wanting_gang
from tests.unit.controller.loop.test_quotas import limit


def test_nobody_is_evicted_for_a_pod_over_its_quota_and_it_is_told_the_numbers() -> None:
    world = PreemptingWorld(cards=2)
    limit(world, cores="250")
    world.running("a")
    world.running("b")
    world.wanting("important", HIGH)
    world.settle(600)
    assert world.evicted() == []
    message = "ResourceQuota default/cards, lode.dev/cores: asked 100, used 200, limit 250"
    assert world.condition("important") == ("False", "QuotaExceeded", message)


def test_when_the_quota_is_raised_others_are_evicted_at_once() -> None:
    world = PreemptingWorld(cards=1)
    limit(world, cores="150")
    world.running("a")
    world.wanting("important", HIGH)
    world.settle(100)
    assert world.evicted() == []
    limit(world, cores="200")
    world.settle()
    assert world.evicted() == ["a"]


def test_nobody_is_evicted_for_a_gang_over_its_quota_and_all_members_are_told_the_numbers() -> None:
    world = PreemptingWorld(cards=2)
    limit(world, cores="350")
    world.running("a")
    world.running("b")
    members = wanting_gang(world, count=2)
    world.settle(600)
    assert world.evicted() == []
    message = "gang default/gang: ResourceQuota default/cards, lode.dev/cores: asked 200, used 200, limit 350"
    assert {world.condition(member) for member in members} == {("False", "QuotaExceeded", message)}
    limit(world, cores="400")
    world.settle()
    assert sorted(world.evicted()) == ["a", "b"]
    for name in "ab":
        world.end(name)
    assert placed(world, members)


@pytest.mark.parametrize("seconds", [None, 0, 5])
def test_of_two_pods_that_the_quota_does_not_allow_together_only_one_has_others_evicted(seconds: int | None) -> None:
    """Also if they come at once, so that nothing is written for the first when the second is decided."""
    world = PreemptingWorld(cards=2)
    limit(world, cores="300")
    world.running("a")
    world.running("b")
    world.wanting("first", HIGH)
    if seconds is not None:
        world.settle(seconds)
    world.wanting("second", HIGH)
    world.settle(60)
    assert len(world.evicted()) == 1
    used = "used 200, kept for pods that others are evicted for 100, limit 300"
    assert world.condition("second")[1:] == (
        "QuotaExceeded",
        f"ResourceQuota default/cards, lode.dev/cores: asked 100, {used}",
    )


def test_what_was_kept_for_a_pod_that_is_deleted_is_there_for_the_quota_of_others() -> None:
    world = PreemptingWorld(cards=2)
    limit(world, cores="300")
    world.running("a")
    world.running("b")
    world.wanting("first", HIGH)
    world.settle(5)
    world.wanting("second", 2 * HIGH)
    world.settle(5)
    world.api.delete(PODS, "first", "default", grace_period_seconds=0)
    world.settle(5)
    world.end(world.evicted()[0])
    assert world.devices("second")


def test_a_quota_that_is_made_while_room_is_kept_counts_it() -> None:
    world = PreemptingWorld(cards=2)
    world.running("a")
    world.running("b")
    world.wanting("first", HIGH)
    world.settle(5)
    limit(world, cores="300")
    world.wanting("second", HIGH)
    world.settle(60)
    assert len(world.evicted()) == 1


def test_of_two_gangs_that_the_quota_does_not_allow_together_only_one_has_others_evicted() -> None:
    world = PreemptingWorld(cards=4)
    limit(world, cores="600")
    for name in "abcd":
        world.running(name)
    members = wanting_gang(world, count=2)
    world.settle(COMPLETE)
    wanting_gang(world, count=2, name="other")
    world.settle(COMPLETE)
    evicted = world.evicted()
    assert len(evicted) == 2
    for name in evicted:
        world.end(name)
    assert placed(world, members)
