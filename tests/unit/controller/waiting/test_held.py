"""A node that is held back for a pod is closed to pods that come after it, and to no others."""

import pytest

from controller.waiting import HeldNodes, Hold, HoldLimits, Pauses, Rank
from controller.waiting.held import MOST_HELD


def rank(pod: str, priority: int = 0) -> Rank:
    return Rank(-priority, "", pod)


def node(pod: str, name: str, priority: int = 0) -> Hold:
    return Hold.of_pod(rank(pod, priority), name, 0)


def test_a_held_node_is_closed_to_those_that_come_after() -> None:
    held = HeldNodes()
    held.hold(node("first", "n1", 5))
    assert held.from_pod(rank("later", 1)) == {"n1": "first"}
    assert held.from_pod(rank("before", 9)) == {}
    assert held.from_pod(rank("first", 5)) == {}


def test_several_holds_of_one_node_name_the_first_pod() -> None:
    held = HeldNodes()
    held.hold(node("second", "n1", 4))
    held.hold(node("first", "n1", 5))
    held.hold(node("third", "n2", 3))
    assert held.from_pod(rank("later")) == {"n1": "first", "n2": "third"}
    assert held.on(["n1"]) == [("pod", "second"), ("pod", "first")]
    assert held.on([""]) == [("pod", "second"), ("pod", "first"), ("pod", "third")]


def test_a_hold_ends() -> None:
    held = HeldNodes()
    held.hold(node("first", "n1"))
    hold = node("first", "n1")
    first = hold.owner
    assert (held.get(first), held.end(first), held.end(first), held.get(first)) == (hold, hold, None, None)


def test_the_number_of_held_nodes_is_bounded_in_all_and_for_each_namespace() -> None:
    held = HeldNodes()
    for number in range(MOST_HELD):
        team = number % 2
        assert not held.is_full(f"team-{team}", 100)
        held.hold(node(f"team-{team}/p{number}", f"n{number}"))
        assert held.is_full(f"team-{team}", 100) == (number // 2 == MOST_HELD // 2 - 1)
    assert held.is_full("other", 100)


def test_in_a_small_cluster_fewer_nodes_are_held_and_at_least_one() -> None:
    held = HeldNodes()
    assert not held.is_full("team", 1)
    held.hold(node("team/p", "n1"))
    assert held.is_full("team", 1)
    assert held.is_full("other", 1)
    assert held.is_full("team", 2)
    assert not held.is_full("other", 2)


# Domains, for gangs


def domain(gang: str, nodes: str, outermost: str = "a", priority: int = 5, starts: float | None = None) -> Hold:
    return Hold(("gang", gang), rank(gang, priority), frozenset(nodes.split()), outermost=outermost, starts=starts)


def test_the_nodes_of_a_gang_are_closed_to_those_that_come_after_and_not_to_itself() -> None:
    held = HeldNodes()
    held.hold(domain("ns/train", "n1 n2"))
    assert held.from_pod(rank("later")) == {"n1": "gang ns/train", "n2": "gang ns/train"}
    assert held.from_pod(rank("before", 9)) == {}
    assert held.from_pod(rank("later"), gang="ns/train") == {}


@pytest.mark.parametrize(
    ("new", "most", "displaced"),
    [
        pytest.param(domain("c/new", "n3", priority=3), 9, None, id="one gang of a domain, the first"),
        pytest.param(domain("c/new", "n3", priority=9), 9, ["a/one"], id="which displaces the one that comes after"),
        pytest.param(domain("a/new", "m9", "z", priority=3), 9, None, id="one gang of a namespace, the first"),
        pytest.param(domain("a/new", "m9", "z", priority=9), 9, ["a/one"], id="which displaces its neighbor"),
        pytest.param(domain("c/new", "m9", "z", priority=3), 4, [], id="as many nodes as may be held"),
        pytest.param(domain("c/new", "m9", "z", priority=3), 3, None, id="and no more"),
        pytest.param(domain("c/new", "m9", "z", priority=9), 3, ["b/two"], id="those that come last make room"),
        pytest.param(domain("c/new", "m1 m2 m3 m4", "z", priority=9), 3, ["a/one", "b/two"], id="or all of them"),
        pytest.param(domain("a/one", "n1 n2 n3", priority=5), 4, [], id="a gang does not displace itself"),
    ],
)
def test_what_is_held_for_whom_at_a_time(new: Hold, most: int, displaced: list[str] | None) -> None:
    held = HeldNodes()
    held.hold(domain("a/one", "n1 n2", priority=5))
    held.hold(domain("b/two", "k1", outermost="b", priority=4))
    assert held.displaced(new, most) == displaced


def test_the_gangs_on_changed_nodes() -> None:
    held = HeldNodes()
    held.hold(domain("one", "n1 n2"))
    held.hold(domain("two", "m1", outermost="b"))
    assert held.on({"n2": None}) == [("gang", "one")]
    assert held.on({"": None}) == [("gang", "one"), ("gang", "two")]
    assert held.on({}) == []


@pytest.mark.parametrize(
    ("starts", "ends", "is_open"),
    [(100.0, 100.0, True), (100.0, 99.0, True), (100.0, 101.0, False), (100.0, None, False), (None, 1.0, False)],
)
def test_held_nodes_are_open_to_what_ends_before_the_gang_can_start(
    starts: float | None, ends: float | None, is_open: bool
) -> None:
    held = HeldNodes()
    held.hold(domain("train", "n1", starts=starts))
    assert held.from_pod(rank("later"), ends) == ({} if is_open else {"n1": "gang train"})


@pytest.mark.parametrize(
    ("known", "found", "now", "then"),
    [
        (None, 100.0, 50, 100.0),
        (100.0, 90.0, 50, 90.0),
        (100.0, 110.0, 50, 100.0),
        (100.0, None, 50, 100.0),
        (100.0, 110.0, 100, 110.0),
        (100.0, None, 100, None),
    ],
)
def test_a_prediction_is_put_off_only_when_it_has_passed(
    known: float | None, found: float | None, now: float, then: float | None
) -> None:
    """Else pods that use the nodes meanwhile could delay the gang for ever, each a little."""
    assert domain("train", "n1", starts=known).predicting(found, now).starts == then


# How much, and how often


@pytest.mark.parametrize(("share", "nodes", "most"), [(0.5, 10, 5), (0.5, 1, 1), (0.1, 4, 1), (1, 4, 4), (0.5, 0, 1)])
def test_the_share_of_the_nodes_is_at_least_one(share: float, nodes: int, most: int) -> None:
    assert HoldLimits(share=share).most(nodes) == most


def test_after_a_hold_that_ran_out_its_nodes_stay_open_and_its_namespace_waits_longer() -> None:
    pauses = Pauses(100)
    pauses.ended(rank("a/p", 5), ["n1", "n2"], 1000)
    assert pauses.nodes(rank("b/q", 5), 1099) == {"n1": 1100, "n2": 1100}
    assert pauses.nodes(rank("b/q", 5), 1100) == {}
    assert [pauses.of_namespace(rank(pod, 5), 1100) for pod in ("a/other", "b/q")] == [1200, None]
    assert pauses.of_namespace(rank("a/other", 5), 1200) is None


def test_a_pause_does_not_bind_those_of_higher_priority() -> None:
    pauses = Pauses(100)
    pauses.ended(rank("a/p", 5), ["n1"], 0)
    assert [bool(pauses.nodes(rank("b/q", priority), 1)) for priority in (4, 5, 6)] == [True, True, False]
    assert [pauses.of_namespace(rank("a/q", priority), 1) for priority in (4, 5, 6)] == [200, 200, None]


def test_the_pause_after_a_hold_that_ended_early_is_shorter() -> None:
    pauses = Pauses(100)
    pauses.ended(rank("a/p", 5), ["n1"], 0, part=0.1)
    assert pauses.nodes(rank("b/q", 5), 0) == {"n1": 10}
    assert pauses.of_namespace(rank("a/q", 5), 0) == 20
