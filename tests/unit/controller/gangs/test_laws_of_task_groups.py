"""Against trying everything: levels that keep some tasks of a gang together, each group for itself."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from controller.gangs import GangPlan, Level
from controller.refusal import Refusal
from tests.unit.controller.gangs.exhaustive import Problem, best_tier, enough, fits, keeps, levels_of, required, tiers
from tests.unit.controller.gangs.test_laws import scene
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
    asked = scene(problem)
    answer = asked.decide()
    assert asked.decide(Random(seed)) == answer
    tier = best_tier(problem)
    if tier is None:
        assert isinstance(answer, Refusal)
        assert answer.why.decided
        return
    assert isinstance(answer, GangPlan), answer
    at = {placement.pod: int(placement.node[1:]) for placement in answer.placements}
    assigned = tuple(at.get(f"ns/w{number}") for number in range(len(problem.members)))
    assert enough(problem, assigned)
    assert fits(problem, assigned)
    assert keeps(problem, required(problem), assigned), "also with members beyond the minimum"
    if len(at) == max(1, problem.minimum - len(problem.standing)):
        assert keeps(problem, [*tiers(problem)][tier], assigned)


@given(by_task())
def test_what_is_ruled_out_without_a_search_has_no_way(problem: Problem) -> None:
    answer = scene(problem).decide(budget=0)
    if isinstance(answer, Refusal) and answer.why.decided:
        assert best_tier(problem) is None


@given(problems(), st.sampled_from(["ib", "leaf"]))
def test_a_level_for_all_tasks_together_is_one_for_the_gang(problem: Problem, key: str) -> None:
    whole = replace(problem, levels=(Level(key, "nodeLabel"),), standing=(), minimum=len(problem.members))
    together = replace(whole, levels=(Level(key, "nodeLabel", task_groups=BOTH),))
    assert isinstance(scene(whole).decide(), GangPlan) == isinstance(scene(together).decide(), GangPlan)
