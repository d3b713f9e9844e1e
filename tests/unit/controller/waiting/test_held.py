"""A node that is held back for a pod is closed to pods that come after it, and to no others."""

import pytest

from controller.waiting import HeldDomain, HeldDomains, HeldNodes, Rank
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


# Domains, for gangs


def domain(gang: str, nodes: str, outermost: str = "a", priority: int = 5, starts: float | None = None) -> HeldDomain:
    return HeldDomain(gang, rank(gang, priority), outermost, frozenset(nodes.split()), starts)


def test_the_nodes_of_a_gang_are_closed_to_those_that_come_after_and_not_to_itself() -> None:
    held = HeldDomains()
    held.hold(domain("ns/train", "n1 n2"))
    assert held.from_pod(rank("later")) == {"n1": "gang ns/train", "n2": "gang ns/train"}
    assert held.from_pod(rank("before", 9)) == {}
    assert held.from_pod(rank("later"), gang="ns/train") == {}


def test_in_each_outermost_domain_nodes_are_held_for_one_gang_the_first() -> None:
    held = HeldDomains()
    assert held.hold(domain("second", "n1", priority=4))
    assert held.hold(domain("first", "n2", priority=5))
    assert not held.hold(domain("third", "n3", priority=3))
    assert held.hold(domain("elsewhere", "m1", outermost="b", priority=1))
    assert held.from_pod(rank("later")) == {"n2": "gang first", "m1": "gang elsewhere"}


def test_the_gangs_on_changed_nodes() -> None:
    held = HeldDomains()
    held.hold(domain("one", "n1 n2"))
    held.hold(domain("two", "m1", outermost="b"))
    assert held.on({"n2": None}) == ["one"]
    assert held.on({"": None}) == ["one", "two"]
    assert held.on({}) == []


@pytest.mark.parametrize(
    ("starts", "ends", "is_open"),
    [(100.0, 100.0, True), (100.0, 99.0, True), (100.0, 101.0, False), (100.0, None, False), (None, 1.0, False)],
)
def test_held_nodes_are_open_to_what_ends_before_the_gang_can_start(
    starts: float | None, ends: float | None, is_open: bool
) -> None:
    held = HeldDomains()
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
