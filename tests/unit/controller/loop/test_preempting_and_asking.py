"""With preemption and autoscaling on, a pod that may have others evicted does that first, and asks if it cannot."""

from tests.unit.controller.autoscaling.test_node_wishes import GATED, asks, scheduled
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import placed, wanting_gang


def both(**options: int) -> PreemptingWorld:
    return PreemptingWorld(**options, autoscaling={"enabled": True})


def asked(world: PreemptingWorld, pod: str) -> int:
    """How often the pod was made to ask for a node."""
    bodies = [body for call, body in zip(world.meddler.calls, world.meddler.bodies, strict=True) if "pods" in call]
    return sum(body[0] == pod and "Unschedulable" in str(body) for body in bodies)


def test_a_pod_for_which_others_are_evicted_never_asks_for_a_node() -> None:
    world = both(cards=1)
    world.running("a")
    world.wanting("important", HIGH)
    world.settle(60)
    assert world.evicted() == ["a"]
    assert world.condition("important")[1] == "Preempting"
    world.end("a")
    assert world.devices("important") == ["n1/gpu-0"]
    assert asked(world, "important") == 0


def test_who_takes_the_place_of_a_victim_asks_for_a_node() -> None:
    world = both(cards=1)
    world.running("a")
    world.wanting("important", HIGH)
    world.settle()
    world.wanting("successor")
    world.settle()
    assert asks(world, "successor")
    world.end("a")
    world.add_node("n2", cards=1)
    world.settle()
    assert (world.devices("important"), world.devices("successor")) == (["n1/gpu-0"], ["n2/gpu-0"])
    assert scheduled(world, "successor") == GATED


def test_a_pod_asks_while_a_budget_keeps_its_victims_and_stops_before_they_are_evicted() -> None:
    world = both(cards=1)
    world.budget(0, app="web")
    world.running("a", labels={"app": "web"})
    world.wanting("important", HIGH)
    world.settle()
    assert asks(world, "important")
    world.meddler.calls.clear()
    world.meddler.bodies.clear()
    world.budget(1, app="web")
    world.settle(60)
    assert world.evicted() == ["a"]
    assert scheduled(world, "important") == GATED
    assert asked(world, "important") == 0
    evicted = world.meddler.calls.index("evict pods")
    ended = [number for number, body in enumerate(world.meddler.bodies) if "SchedulingGated" in str(body)]
    assert ended
    assert ended[0] < evicted


def test_a_pod_one_of_whose_victims_is_kept_by_a_budget_asks_and_has_nobody_evicted() -> None:
    world = both(cards=2)
    world.budget(1, app="web")
    world.running("a", labels={"app": "web"})
    world.running("b", labels={"app": "web"})
    world.wanting("important", HIGH, count=2)
    world.settle(60)
    assert world.evicted() == []
    assert asks(world, "important")


def test_a_node_that_comes_while_others_end_is_taken_by_whoever_asked_for_it() -> None:
    world = both(cards=1)
    world.running("a")
    world.wanting("low")
    world.settle()
    assert asks(world, "low")
    world.wanting("important", HIGH)
    world.settle()
    assert world.evicted() == ["a"]
    world.add_node("n2", cards=1)
    world.settle()
    assert world.devices("low") == ["n2/gpu-0"]
    world.end("a")
    assert world.devices("important") == ["n1/gpu-0"]


def test_a_gang_for_which_others_are_evicted_never_asks_for_nodes() -> None:
    world = both(nodes=2, cards=1)
    world.running("a")
    world.running("b")
    members = wanting_gang(world, 2)
    world.settle(60)
    assert sorted(world.evicted()) == ["a", "b"]
    for name in ("a", "b"):
        world.end(name)
    assert placed(world, members)
    assert [asked(world, member) for member in members] == [0, 0]


def test_no_member_of_a_gang_that_asked_still_asks_when_the_first_victim_goes() -> None:
    world = both(nodes=2, cards=1)
    world.budget(0, app="web")
    world.running("a", labels={"app": "web"})
    world.running("b")
    members = wanting_gang(world, 2)
    world.settle(60)
    assert (world.evicted(), [asks(world, member) for member in members]) == ([], [True, True])
    asking = []

    def look(what: str, _: object) -> None:
        if what == "evict pods":
            asking.append([asks(world, member) for member in members])

    world.meddler.before = look
    world.budget(1, app="web")
    world.settle(120)
    assert sorted(world.evicted()) == ["a", "b"]
    assert asking == [[False, False], [False, False]]
