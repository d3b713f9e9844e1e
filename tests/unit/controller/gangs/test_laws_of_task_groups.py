"""Against trying everything: levels that keep some tasks of a gang together, each group for itself."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.gangs import GangPlan, Level
from tests.unit.controller.gangs.exhaustive import Problem, keeps, levels_of
from tests.unit.controller.gangs.test_laws import has_no_way_if_ruled_out, placed_exactly_if_it_can_be, scene
from tests.unit.controller.gangs.test_laws_of_groups import problems

BOTH, APART = frozenset({("even", "a"), ("odd", "a")}), frozenset({("even", "a"), ("odd", "b")})
EVEN, ODD = frozenset({("even", "a")}), frozenset({("odd", "b")})
WHOLE: frozenset[tuple[str, str]] = frozenset()


@st.composite
def by_task(draw: st.DrawFn) -> Problem:
    """Mostly with a level for the whole gang, and inside it levels for each task, or for one of them."""
    found = []
    keys = draw(st.sampled_from([("ib", "leaf"), ("leaf",), ("ib", "leaf", "host"), ("leaf", "host"), ("ib",)]))
    for number, key in enumerate(keys):
        groups = draw(st.sampled_from([WHOLE, APART, EVEN, ODD] if number == 0 else [APART, APART, EVEN, ODD, BOTH]))
        found.append(Level(key, "nodeLabel", required=draw(st.booleans()), task_groups=groups))
    problem = replace(draw(problems()), levels=tuple(found))
    nobody = (None,) * len(problem.members)
    return problem if keeps(problem, levels_of(problem), nobody) else replace(problem, standing=(), minimum=1)


@given(by_task(), st.integers(0, 100))
def test_each_group_of_tasks_is_in_one_domain_of_its_level(problem: Problem, seed: int) -> None:
    placed_exactly_if_it_can_be(problem, seed)


@given(by_task())
def test_what_is_ruled_out_without_a_search_has_no_way(problem: Problem) -> None:
    has_no_way_if_ruled_out(problem)


@given(problems(), st.sampled_from(["ib", "leaf"]))
def test_a_level_for_all_tasks_together_is_one_for_the_gang(problem: Problem, key: str) -> None:
    whole = replace(problem, levels=(Level(key, "nodeLabel"),), standing=(), minimum=len(problem.members))
    together = replace(whole, levels=(Level(key, "nodeLabel", task_groups=BOTH),))
    assert isinstance(scene(whole).decide(), GangPlan) == isinstance(scene(together).decide(), GangPlan)
