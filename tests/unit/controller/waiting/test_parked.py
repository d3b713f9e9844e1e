"""Of pods that wait, only those are woken that a change can help, and of each group only the first in the order."""

from hypothesis import given
from hypothesis import strategies as st

from controller.waiting import Help, ParkedPods, Rank


def rank(pod: str, priority: int = 0, created: str = "2027-01-01") -> Rank:
    return Rank(-priority, created, pod)


def parked(*pods: Rank, by: Help = Help.NODES, group: str = "shape") -> ParkedPods:
    waiting = ParkedPods()
    for one in pods:
        waiting.park(one, by, group)
    return waiting


def test_the_first_of_a_group_is_woken_for_a_node() -> None:
    waiting = parked(rank("b"), rank("a"), rank("urgent", 10))
    waiting.park(rank("other"), Help.NODES, "other shape")
    assert waiting.woken(["n1"]) == ["urgent", "other"]
    assert waiting.woken([]) == []


def test_what_concerns_every_node_wakes_the_first_of_each_group_unseen() -> None:
    waiting = parked(rank("a"), rank("b"))
    for pod in "cd":
        waiting.park(rank(pod), Help.CLUSTER, pod)
        waiting.park(rank(f"{pod}-own"), Help.OWN, pod)
    assert waiting.woken([""]) == ["a", "c", "d"]
    assert waiting.woken(["n1"]) == ["a"]


def test_the_next_of_a_group_is_named_when_the_first_leaves_and_only_then() -> None:
    waiting = parked(rank("a"), rank("b"), rank("c"))
    assert waiting.leave("b") is None
    assert waiting.leave("a") == "c"
    assert waiting.leave("c") is None
    assert waiting.leave("c") is None
    assert len(waiting) == 0


def test_a_pod_that_moves_to_another_group_leaves_the_first_place_to_the_next() -> None:
    waiting = parked(rank("a"), rank("b"))
    assert waiting.park(rank("a"), Help.NODES, "shape") is None
    assert waiting.park(rank("a"), Help.NODES, ("shape", "a")) == "b"
    assert waiting.is_first("a")
    assert waiting.is_first("b")


def test_the_first_of_its_group_is_known() -> None:
    waiting = parked(rank("b"), rank("a"))
    assert waiting.is_first("a")
    assert not waiting.is_first("b")
    assert not waiting.is_first("gone")
    assert not parked(rank("a"), by=Help.OWN).is_first("a")


Pods = st.sampled_from("abcdef")
Steps = st.lists(st.tuples(Pods, st.sampled_from(["x", "y", None])), max_size=40)


@given(Steps)
def test_exactly_the_first_of_each_group_wakes_whatever_came_and_went(steps: list[tuple[str, str | None]]) -> None:
    waiting, model = ParkedPods(), dict[str, str]()
    for pod, group in steps:
        if group is None:
            waiting.leave(pod)
            model.pop(pod, None)
        else:
            waiting.park(rank(pod, priority=ord(pod) % 3), Help.NODES, group)
            model[pod] = group
    assert sorted(waiting) == sorted(model)
    groups = {group: [rank(pod, ord(pod) % 3) for pod, of in model.items() if of == group] for group in model.values()}
    assert sorted(waiting.woken(["n"])) == sorted(min(ranks).pod for ranks in groups.values())


def test_the_order_is_priority_then_age_then_name() -> None:
    ordered = [rank("z", 5), rank("a", 0, "2026"), rank("a", 0, "2027"), rank("b", 0, "2027"), rank("a", -1, "2020")]
    shuffled = [ordered[place] for place in (3, 0, 4, 2, 1)]
    assert sorted(shuffled) == ordered
