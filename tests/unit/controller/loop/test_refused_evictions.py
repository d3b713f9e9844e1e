"""A pod that the API server does not let go is spared alone; everybody else goes on as if it was not there."""

from collections.abc import Collection

import pytest

from controller.preemption.worker import LONGEST_SECONDS, SPARED_SECONDS, SparedVictims
from driver.kube.api import ApiError, Forbidden, Invalid, Unavailable
from tests.unit.controller.loop.preemptingworld import HIGH, NO_RIGHT, PreemptingWorld

DENIED = 'admission webhook "protect.example.com" denied the request: pods with this annotation are not evicted'
REFUSALS = (
    Forbidden(DENIED, status=403),
    Invalid(DENIED, status=422),
    Unavailable("Internal error occurred: failed calling webhook", status=500),
)


class ClusterWithWebhook(PreemptingWorld):
    """A world in which a webhook keeps some pods."""

    def __init__(self, kept: Collection[str], error: ApiError, nodes: int = 2):
        super().__init__(nodes, cards=1)
        self.tries: list[str] = []
        self.kept = kept

        def refuse(what: str, about: str) -> None:
            if what == "evict pods":
                self.tries.append(about)
                if about in self.kept:
                    raise error

        self.meddler.before = refuse


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: str(error.status))
def test_a_pod_that_a_webhook_keeps_is_spared_and_another_one_goes(error: ApiError) -> None:
    world = ClusterWithWebhook(["kept"], error)
    world.running("low", priority=1)
    world.running("kept")
    world.wanting("important", HIGH)
    world.settle(5)
    assert world.evicted() == ["low"]
    world.end("low")
    assert world.devices("important")
    world.check()


def test_it_stops_nobody_else_from_having_others_evicted() -> None:
    world = ClusterWithWebhook(["kept"], REFUSALS[0])
    world.running("kept")
    world.running("low", priority=HIGH)
    world.wanting("blocked", HIGH)
    world.settle(5)
    world.wanting("important", 2 * HIGH)
    world.settle(2)
    assert world.evicted() == ["low"]


def test_it_is_tried_again_ever_more_rarely() -> None:
    world = ClusterWithWebhook(["kept"], REFUSALS[0], nodes=1)
    world.running("kept")
    world.wanting("important", HIGH)
    world.settle(4 * 3600)
    assert 5 < len(world.tries) < 15
    assert world.condition("important")[1] == "Unallocatable"
    world.kept = ()
    world.settle(LONGEST_SECONDS + 60)
    assert world.evicted() == ["kept"]


def test_of_many_that_are_kept_each_is_tried_before_the_first_is_tried_often() -> None:
    kept = [f"kept-{number}" for number in range(12)]
    world = ClusterWithWebhook(kept, REFUSALS[0], nodes=13)
    for name in kept:
        world.running(name)
    world.running("low", priority=1)
    world.wanting("important", HIGH)
    world.settle(20)
    assert world.evicted() == ["low"]
    assert sorted(world.tries) == sorted([*kept, "low"])


def test_without_the_right_nobody_is_tried_for_a_while_and_nobody_is_spared_for_it() -> None:
    world = ClusterWithWebhook(["kept", "low"], Forbidden(NO_RIGHT, status=403))
    world.running("low", priority=1)
    world.running("kept")
    world.wanting("important", HIGH)
    world.settle(600)
    assert set(world.tries) == {"kept"}
    assert len(world.tries) < 20
    world.kept = ()
    world.settle(70)
    assert world.evicted() == ["kept"]


def test_a_refused_write_of_the_preemptor_is_no_refusal_of_a_victim() -> None:
    world = PreemptingWorld(nodes=2, cards=1)
    world.running("low")
    world.running("lower")

    def refuse(what: str, about: str) -> None:
        if what == "patch pods/status" and about == "blocked":
            raise Forbidden(DENIED, status=403)

    world.meddler.before = refuse
    world.wanting("blocked", HIGH)
    world.settle(5)
    world.wanting("important", 2 * HIGH)
    world.settle(2)
    assert len(world.evicted()) == 1


def test_a_pod_is_spared_twice_as_long_each_time_and_at_most_an_hour() -> None:
    spared, now = SparedVictims(), 0.0
    for times in range(12):
        spared.refused("a", now)
        ends = spared.next_change(now)
        assert ends is not None
        assert ends == now + min(SPARED_SECONDS * 2**times, LONGEST_SECONDS)
        assert list(spared.at(ends - 1)) == ["a"]
        assert not spared.at(ends)
        now = ends
    spared.at(now + LONGEST_SECONDS)
    spared.refused("a", now)
    assert spared.next_change(now) == now + SPARED_SECONDS


def test_a_budget_spares_a_pod_for_half_a_minute_however_often() -> None:
    spared = SparedVictims()
    for _ in range(5):
        spared.by_budget("a", 0)
    assert spared.next_change(0) == SPARED_SECONDS
    before = spared.changes
    assert not spared.at(SPARED_SECONDS)
    assert spared.changes == before + 1
