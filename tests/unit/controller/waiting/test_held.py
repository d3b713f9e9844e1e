"""A node that is held back for a pod is closed to pods that come after it, and to no others."""

from controller.waiting import HeldNodes, Rank
from controller.waiting.held import MOST_HELD


def rank(pod: str, priority: int = 0) -> Rank:
    return Rank(-priority, "", pod)


def test_a_held_node_is_closed_to_those_that_come_after() -> None:
    held = HeldNodes()
    held.hold(rank("first", 5), "n1")
    assert held.from_pod(rank("later", 1)) == {"n1": "first"}
    assert held.from_pod(rank("before", 9)) == {}
    assert held.from_pod(rank("first", 5)) == {}


def test_several_holds_of_one_node_name_the_first_pod() -> None:
    held = HeldNodes()
    held.hold(rank("second", 4), "n1")
    held.hold(rank("first", 5), "n1")
    held.hold(rank("third", 3), "n2")
    assert held.from_pod(rank("later")) == {"n1": "first", "n2": "third"}
    assert held.holders("n1") == ["second", "first"]
    assert held.holders("") == ["second", "first", "third"]


def test_a_hold_ends() -> None:
    held = HeldNodes()
    held.hold(rank("first"), "n1")
    assert (held.node_of("first"), held.end("first"), held.end("first"), held.node_of("first")) == ("n1", "n1", "", "")


def test_the_number_of_held_nodes_is_bounded() -> None:
    held = HeldNodes()
    for number in range(MOST_HELD):
        assert not held.full
        held.hold(rank(f"p{number}"), f"n{number}")
    assert held.full
