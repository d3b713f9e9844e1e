"""A gang of groups says how many members of which groups have to exist."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.membership import Quorum

PREFILL, DECODE, ROUTER = Quorum("prefill", 4, "p"), Quorum("decode", 2, "d"), Quorum("router", 1, "r")
BOTH = Quorum("serve", 2, groups=(PREFILL, DECODE))
ANY = Quorum("serve", 1, groups=(PREFILL, DECODE))
DEEP = Quorum("all", 2, groups=(ROUTER, ANY))


@pytest.mark.parametrize(
    ("quorum", "there", "lacking"),
    [
        (PREFILL, {"p": 4}, ""),
        (PREFILL, {"p": 3}, "3 of 4 members of prefill"),
        (PREFILL, {"d": 9}, "0 of 4 members of prefill"),
        (BOTH, {"p": 4, "d": 2}, ""),
        (BOTH, {"p": 5, "d": 1}, "1 of 2 groups of serve complete (1 of 2 members of decode)"),
        (ANY, {"d": 2}, ""),
        (DEEP, {"r": 1, "d": 2}, ""),
        (
            DEEP,
            {"r": 1, "d": 1},
            "1 of 2 groups of all complete (0 of 1 groups of serve complete (0 of 4 members of prefill, 1 of 2 members "
            "of decode))",
        ),
        (Quorum("serve", 2, groups=(DECODE,)), {"d": 2}, "1 of 2 groups of serve complete"),
        (Quorum("serve", 1), {}, "0 of 1 groups of serve complete"),
    ],
)
def test_what_is_missing_is_told_of_each_group(quorum: Quorum, there: Mapping[str, int], lacking: str) -> None:
    assert (quorum.lacking(there), quorum.is_met(there)) == (lacking, not lacking)


@pytest.mark.parametrize(
    ("quorum", "fewest"),
    [(PREFILL, 4), (BOTH, 6), (ANY, 2), (DEEP, 3), (Quorum("serve", 3, groups=(DECODE,)), 4), (Quorum("serve", 1), 1)],
)
def test_the_fewest_members_are_those_of_the_smallest_groups_that_are_enough(quorum: Quorum, fewest: int) -> None:
    assert quorum.fewest == fewest


def leaves(names: st.SearchStrategy[str]) -> st.SearchStrategy[Quorum]:
    return st.builds(lambda name, minimum: Quorum(name, minimum, name), names, st.integers(1, 3))


quorums = st.recursive(
    leaves(st.sampled_from("abcd")),
    lambda inside: st.builds(
        lambda minimum, groups: Quorum("group", min(minimum, len(groups)), groups=tuple(groups)),
        st.integers(1, 3),
        st.lists(inside, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
counts = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 4))


@given(quorums, counts, st.sampled_from("abcd"))
def test_one_member_more_never_makes_it_less(quorum: Quorum, there: dict[str, int], task: str) -> None:
    more = {**there, task: there.get(task, 0) + 1}
    assert quorum.is_met(more) >= quorum.is_met(there)


@given(quorums, counts)
def test_without_members_the_others_are_enough(quorum: Quorum, there: dict[str, int]) -> None:
    assert quorum.without(there).is_met({}) == quorum.is_met(there)


@given(quorums, counts)
def test_equal_ones_have_equal_hashes(quorum: Quorum, there: dict[str, int]) -> None:
    again = quorum.without({})
    assert (again, hash(again)) == (quorum, hash(quorum))
    assert set(quorum.tasks) <= set("abcd")
    assert not quorum.is_met({}) or quorum.without(there).is_met({})
