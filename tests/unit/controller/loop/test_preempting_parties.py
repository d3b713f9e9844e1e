"""Of several pods that have to go together, none goes before the API server has said of each that it may."""

from driver.kube.api import PODS, Forbidden
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import COMPLETE, gang_of, wanting_gang
from tests.unit.controller.loop.world import Killed, expect_kill


class Asked:
    """What the API server is asked about evictions, in order; it refuses those of some pods."""

    def __init__(self, world: PreemptingWorld, *refused: str):
        self.trials: list[str] = []
        self.done: list[str] = []
        self.refused = refused
        world.meddler.before = self.note

    def note(self, what: str, about: str) -> None:
        if not what.startswith("evict pods"):
            return
        if about in self.refused:
            raise Forbidden("admission webhook denied the request", status=403)
        (self.done if what == "evict pods" else self.trials).append(about)


def running_gang(world: PreemptingWorld, size: int) -> list[str]:
    """A gang that needs all of its members, one on each of the first nodes."""
    names = [f"job-{number}" for number in range(size)]
    for name in names:
        world.add_claim(name, config=[gang_of("job", size)])
        world.add_pod(name, name)
    world.settle(COMPLETE)
    for name in names:
        world.bind(name, world.devices(name)[0].split("/")[0])
    world.settle()
    return names


def test_all_members_of_a_gang_are_asked_about_once_before_the_first_goes() -> None:
    world = PreemptingWorld(nodes=4, cards=1)
    names = running_gang(world, 4)
    asked = Asked(world)
    world.wanting("important", HIGH)
    world.settle(5)
    assert sorted(asked.trials) == sorted(asked.done) == names
    assert sorted(world.evicted()) == names
    trial, done = "evict pods (dry run)", "evict pods"
    assert [call for call in world.meddler.calls if call in (trial, done)] == [trial] * 4 + [done] * 4


def test_if_one_member_may_not_go_none_does() -> None:
    world = PreemptingWorld(nodes=4, cards=1)
    running_gang(world, 4)
    asked = Asked(world, "job-2")
    world.wanting("important", HIGH)
    world.settle(300)
    assert asked.done == []
    assert world.evicted() == []


def test_others_go_in_place_of_a_gang_of_which_one_member_may_not() -> None:
    world = PreemptingWorld(nodes=5, cards=1)
    running_gang(world, 4)
    world.running("low", priority=1)
    asked = Asked(world, "job-0")
    world.wanting("important", HIGH)
    world.settle(10)
    assert world.evicted() == ["low"]
    assert asked.done == ["low"]


def test_who_goes_alone_is_not_asked_about_before() -> None:
    world = PreemptingWorld(cards=1)
    world.running("low")
    asked = Asked(world)
    world.wanting("important", HIGH)
    world.settle()
    assert (asked.trials, asked.done) == ([], ["low"])


def test_those_that_go_for_a_gang_are_asked_about_once_each() -> None:
    world = PreemptingWorld(nodes=3, cards=1)
    names = ["a", "b", "c"]
    for name in names:
        world.running(name)
    asked = Asked(world)
    wanting_gang(world, count=3)
    world.settle(COMPLETE + 5)
    assert sorted(asked.trials) == sorted(asked.done) == names


def test_after_a_restart_the_rest_is_asked_about_again() -> None:
    world = PreemptingWorld(nodes=4, cards=1)
    names = running_gang(world, 4)
    asked = Asked(world)

    def kill(what: str, _: object) -> None:
        if what == "evict pods":
            raise Killed

    world.meddler.after = kill
    world.wanting("important", HIGH)
    with expect_kill():
        world.settle(5)
    [gone] = asked.done
    world.start()
    asked = Asked(world)
    world.settle(5)
    assert sorted(world.evicted()) == names
    assert sorted(asked.trials) == sorted(asked.done) == [name for name in names if name != gone]


def test_a_preemptor_that_is_gone_after_the_question_has_nobody_evicted() -> None:
    world = PreemptingWorld(nodes=4, cards=1)
    running_gang(world, 4)
    world.wanting("important", HIGH)
    world.api.delete(PODS, "important", "default", grace_period_seconds=0)
    world.settle(60)
    assert world.evicted() == []
