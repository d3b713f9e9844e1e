"""Against trying everything: sub-groups, each of which is whole or has not begun."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.gangs import Level, SubGroup, SubGroups
from tests.unit.controller.gangs.cases import attribute
from tests.unit.controller.gangs.exhaustive import (
    Asking,
    Assignment,
    Node,
    Problem,
    Stood,
    Way,
    keeps,
    levels_of,
)
from tests.unit.controller.gangs.test_laws import has_no_way_if_ruled_out, placed_exactly_if_it_can_be

nodes = st.builds(
    Node,
    st.sampled_from(["a", "a", "b"]),
    st.sampled_from(["x", "x", "y", ""]),
    st.integers(0, 4),
    st.just(0),
    st.sampled_from([1, 2, 4, 8]),
)
askings = st.builds(
    Asking, st.sampled_from([(Way(1),), (Way(1),), (Way(2),), (Way(halves=1),), ()]), st.sampled_from([0, 1, 1, 2])
)
names = st.sampled_from(["0", "1", "2"])


@st.composite
def levels(draw: st.DrawFn, size: int) -> tuple[Level, ...]:
    """Some levels; the innermost one mostly for each sub-group."""
    keys = draw(st.sampled_from([(), ("leaf",), ("leaf",), ("ib", "leaf"), ("ib", "leaf"), ("ib",)]))
    found = []
    for number, key in enumerate(keys):
        required = draw(st.booleans())
        kind = draw(st.sampled_from(["nodeLabel", "nodeLabel", "attribute"]))
        per = number == len(keys) - 1 and draw(st.sampled_from([True, True, False]))
        of_group = 0 if per else min(draw(st.sampled_from([0, 0, 0, 2, 3])), size)
        fields: dict[str, Any] = {"required": required, "per_sub_group": per, "group_size": of_group}
        found.append(attribute(key, **fields) if kind == "attribute" else Level(key, "nodeLabel", **fields))
    # What groups of ranks there are around sub-groups is another law's matter.
    return tuple(replace(one, group_size=0) if any(level.per_sub_group for level in found) else one for one in found)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    cluster = tuple(draw(st.lists(nodes, min_size=1, max_size=4)))
    kinds = draw(st.lists(askings, min_size=1, max_size=2))
    members = tuple(draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=6)))
    places = [at for at, node in enumerate(cluster) for _ in range(node.free)]
    stand = draw(st.permutations(places))[: draw(st.sampled_from([0, 0, 0, 1, 2]))]
    starts = not stand or draw(st.booleans())
    minimums = st.integers(0, 2) if starts else st.just(0)
    policies = tuple(draw(st.lists(st.builds(SubGroups, st.integers(1, 3), minimums), min_size=1, max_size=2)))

    def sub_group() -> SubGroup | None:
        number = draw(st.sampled_from([0, 0, 0, len(policies) - 1, None]))
        return None if number is None else (number, draw(names))

    size = len(members) + len(stand)
    succeeded = draw(st.sampled_from([0, 0, 0, 1]))
    problem = Problem(
        cluster,
        members,
        draw(st.one_of(st.just(1), st.just(1), st.integers(1, size))),
        draw(levels(size)),
        leader=draw(st.sampled_from([False, False, True])),
        shared=((0, len(members) - 1),) if members[0].ways and draw(st.sampled_from([False, False, True])) else (),
        standing=tuple(Stood(node, len(members) + at, sub_group()) for at, node in enumerate(stand)),
        sub_groups=policies,
        in_sub_groups=tuple(sub_group() for _ in members),
        succeeded=((((0, draw(names)), 1)),) if succeeded else (),
        starts=starts,
    )
    # What stands was placed before, so that all levels hold.
    nobody: Assignment = (None,) * len(members)
    if keeps(problem, levels_of(problem), nobody):
        return problem
    return replace(problem, standing=(), minimum=1, starts=True)


@given(problems(), st.integers(0, 100))
def test_a_gang_is_placed_exactly_if_enough_sub_groups_can_be_whole(problem: Problem, seed: int) -> None:
    placed_exactly_if_it_can_be(problem, seed)


@given(problems())
def test_what_is_ruled_out_without_a_search_cannot_be_whole(problem: Problem) -> None:
    has_no_way_if_ruled_out(problem)
