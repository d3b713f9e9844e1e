"""Against trying everything: members without devices, beside domains of devices."""

from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from controller.gangs import Level
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
    ways,
)
from tests.unit.controller.gangs.test_laws import has_no_way_if_ruled_out, placed_exactly_if_it_can_be

nodes = st.builds(
    Node,
    st.sampled_from(["a", "a", "b"]),
    st.sampled_from(["x", "y", ""]),
    st.integers(0, 3),
    st.just(0),
    st.sampled_from([0, 1, 2, 4]),
)
askings = st.builds(Asking, st.sampled_from([(), (), (Way(1),), (Way(2),)]), st.sampled_from([0, 1, 2]))


@st.composite
def levels(draw: st.DrawFn, size: int) -> tuple[Level, ...]:
    """One or two levels, of which at least one is an attribute."""
    keys = draw(st.sampled_from([("ib",), ("leaf",), ("ib", "leaf"), ("ib", "leaf")]))
    label = draw(st.sampled_from([-1, -1, 0, 1])) if len(keys) > 1 else -1
    found = []
    for number, key in enumerate(keys):
        fields: dict[str, Any] = {
            "required": draw(st.booleans()),
            "group_size": min(draw(st.sampled_from([0, 0, 1, 2, 3])), size),
        }
        found.append(Level(key, "nodeLabel", **fields) if number == label else attribute(key, **fields))
    return tuple(found)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    cluster = tuple(draw(st.lists(nodes, min_size=2, max_size=4)))
    members = tuple(draw(st.lists(askings, min_size=2, max_size=5)))
    places = [at for at, node in enumerate(cluster) for _ in range(node.free)]
    stand = draw(st.permutations(places))[: draw(st.sampled_from([0, 0, 0, 1]))]
    size = len(members) + len(stand)
    problem = Problem(
        cluster,
        members,
        draw(st.one_of(st.just(size), st.integers(1, size))),
        draw(levels(size)),
        leader=draw(st.booleans()),
        standing=tuple(Stood(node, len(members)) for node in stand),
    )
    # What stands was placed before, so that all levels hold.
    nobody: Assignment = (None,) * len(members)
    return problem if keeps(problem, levels_of(problem), nobody) else replace(problem, standing=(), minimum=1)


def two_of_three_without_devices(*, required: bool) -> Problem:
    """They are enough, and fit together where no card is; elsewhere is a card, but no CPU for them."""
    members = Asking((), 0), Asking((), 1), Asking((Way(1),), 1)
    levels = Level("ib", "nodeLabel", required=required), attribute("leaf", required=True)
    return Problem((Node("a", "x", 0, 0, 1), Node("b", "x", 1, 0, 0)), members, 2, levels)


@given(problems(), st.integers(0, 100))
@example(two_of_three_without_devices(required=True), 0)
@example(two_of_three_without_devices(required=False), 0)
def test_only_members_with_devices_are_kept_in_domains_of_devices(problem: Problem, seed: int) -> None:
    if (found := placed_exactly_if_it_can_be(problem, seed)) is None:
        return
    kept, assigned = found
    if any(keeps(problem, kept, one, inside=True) for one in ways(problem)):
        assert keeps(problem, kept, assigned, inside=True), "they can all be inside"


@given(problems())
def test_what_is_ruled_out_without_a_search_has_no_way_either(problem: Problem) -> None:
    has_no_way_if_ruled_out(problem)
