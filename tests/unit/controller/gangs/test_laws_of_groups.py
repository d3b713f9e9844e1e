"""Against trying everything: groups of members, with gaps in their ranks, leaders, members that stand, shared claims,
and members that take one device or another."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.gangs import Level
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
    lambda ib, leaf, cards, used, cpus, others: Node(ib, leaf, cards, min(used, cards), cpus, others),
    st.sampled_from("aaab"),
    st.sampled_from(["x", "x", "y", "z", ""]),
    st.integers(0, 4),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([2, 4, 8, 8]),
    st.sampled_from([0, 0, 1, 2, 4]),
)
CARD, TWO, HALF, OTHER, OTHERS = Way(1), Way(2), Way(halves=1), Way(others=1), Way(others=2)
SINGLE = [(CARD,), (CARD,), (TWO,), (HALF,), ()]
ALTERNATIVES = [(OTHER, CARD), (CARD, OTHER), (OTHERS, TWO), (HALF, OTHER), (TWO, OTHER), (HALF, CARD)]


@st.composite
def levels(draw: st.DrawFn, size: int) -> tuple[Level, ...]:
    """Some of the levels, mostly with groups."""
    found = []
    for key in draw(
        st.sampled_from([("ib", "leaf"), ("leaf",), ("ib", "leaf", "host"), ("leaf", "host"), ("ib",), ()])
    ):
        of_group = draw(st.sampled_from([0, 1, 2, 2, 3, 3, 4]))
        found.append(Level(key, "nodeLabel", required=draw(st.booleans()), group_size=min(of_group, size)))
    return tuple(found)


def ranks(size: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Mostly with gaps; all alike, or none."""
    gaps = st.lists(st.integers(0, 9), min_size=size, max_size=size, unique=True).map(sorted).map(tuple)
    return st.one_of(gaps, gaps, st.just(()), st.just((0,) * size))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    cluster = tuple(draw(st.lists(nodes, min_size=2, max_size=4)))
    ways = draw(st.lists(st.sampled_from(draw(st.sampled_from([SINGLE, ALTERNATIVES]))), min_size=1, max_size=2))
    kinds = [Asking(way, draw(st.sampled_from([0, 1, 1, 2]))) for way in ways]
    members = tuple(draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=6)))
    places = [at for at, node in enumerate(cluster) for _ in range(node.free)]
    most = draw(st.sampled_from([0, 0, 1, 2, 3]))
    stand = draw(st.permutations(places))[:most]
    size = len(members) + len(stand)
    order: Sequence[int] = draw(ranks(size)) or range(size)
    order = draw(st.permutations(order)) if draw(st.booleans()) else order
    problem = Problem(
        cluster,
        members,
        draw(st.one_of(st.just(size), st.integers(1, size))),
        draw(levels(size)),
        ranks=tuple(order[: len(members)]),
        leader=draw(st.sampled_from([False, False, True])),
        shared=((0, len(members) - 1),) if members[0].ways and draw(st.sampled_from([False, False, True])) else (),
        standing=tuple(Stood(node, rank) for node, rank in zip(stand, order[len(members) :], strict=True)),
    )
    # What stands was placed before, so that all levels hold.
    nobody: Assignment = (None,) * len(members)
    return problem if keeps(problem, levels_of(problem), nobody) else replace(problem, standing=(), minimum=1)


@given(problems(), st.integers(0, 100))
def test_a_gang_with_groups_is_placed_exactly_if_it_can_be_and_gives_up_no_level_in_vain(
    problem: Problem, seed: int
) -> None:
    placed_exactly_if_it_can_be(problem, seed)


@given(problems())
def test_what_is_ruled_out_without_a_search_has_no_way(problem: Problem) -> None:
    has_no_way_if_ruled_out(problem)
