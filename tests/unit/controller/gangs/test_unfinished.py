"""A search that ran out of steps goes on where it ended, so that every gang is decided in the end."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.gangs import Gang, GangPlan, Level, Memory, SearchOptions, TriedDomains, Unfinished, choose
from controller.placement import Nodes
from controller.refusal import Refusal
from tests.unit.controller.gangs.cases import CLUSTER, GangCase, Host, gang, member, state
from tests.unit.controller.gangs.exhaustive import Problem, best
from tests.unit.controller.gangs.test_laws import problems, scene
from tests.unit.controller.gangs.test_memory import LEVELS, ChangingCluster, changes

FITS = ([5, 7, 6, 7, 3, 5, 7, 7, 8, 3, 8, 6, 4, 4], [18, 16, 16, 15, 15])
FITS_NOT = ([4, 7, 8, 9, 7, 9, 4, 8, 5, 9, 4], [16, 19, 20, 19])
"""Cards of members, and of nodes; to find out takes about a thousand steps."""
BUDGET = 20


def packed(sizes: Sequence[int], cards: Sequence[int]) -> tuple[Fleet, Nodes, Gang]:
    cluster = [Host(f"a{number}", {"ib": "a"}, cards=some) for number, some in enumerate(cards)]
    members = [member(rank, count=size) for rank, size in enumerate(sizes)]
    return GangCase(cluster, gang(members, CLUSTER)).built()


class Deciding:
    """One gang, decided again and again with a small budget."""

    def __init__(self, fleet: Fleet, nodes: Nodes, asked: Gang, budget: int = BUDGET):
        self.fleet, self.nodes, self.asked, self.budget = fleet, nodes, asked, budget
        self.memory, self.unfinished = Memory(), Unfinished()

    def once(self) -> GangPlan | Refusal[TriedDomains]:
        before = state(self.fleet, self.nodes)
        answer = choose(
            self.asked,
            Cluster.unlimited(self.fleet, self.nodes),
            SearchOptions(self.budget, self.memory, self.unfinished),
        )
        assert state(self.fleet, self.nodes) == before, "something is left behind"
        return answer

    def tries(self, most: int) -> tuple[int, GangPlan | Refusal[TriedDomains]]:
        """How often it was decided until the answer was certain, and the answer."""
        for number in count(1):
            answer = self.once()
            if is_certain(answer):
                return number, answer
            assert number < most, answer
        raise AssertionError


def is_certain(answer: GangPlan | Refusal[TriedDomains]) -> bool:
    return isinstance(answer, GangPlan) or answer.why.decided


@pytest.mark.parametrize(("problem", "kind"), [(FITS, GangPlan), (FITS_NOT, Refusal)])
def test_however_many_steps_a_gang_needs_it_is_decided_in_the_end(problem: Any, kind: type) -> None:
    fleet, nodes, asked = packed(*problem)
    assert not is_certain(choose(asked, Cluster.unlimited(fleet, nodes), SearchOptions(20 * BUDGET)))
    tries, answer = Deciding(fleet, nodes, asked).tries(most=200)
    assert isinstance(answer, kind)
    assert tries > 20, "no try takes longer"


def test_a_search_begins_anew_when_the_domain_has_changed() -> None:
    fleet, nodes, asked = packed(*FITS_NOT)
    undisturbed, _ = Deciding(fleet, nodes, asked).tries(most=200)
    fleet, nodes, asked = packed(*FITS_NOT)
    deciding = Deciding(fleet, nodes, asked)
    for _ in range(undisturbed - 1):
        assert not is_certain(deciding.once())
    nodes.mark_changed("a0")
    assert deciding.tries(most=200)[0] == undisturbed


def test_a_search_goes_on_when_something_has_changed_elsewhere() -> None:
    cluster = [Host(f"a{number}", {"ib": "a"}, cards=cards) for number, cards in enumerate(FITS_NOT[1])]
    members = [member(rank, count=size) for rank, size in enumerate(FITS_NOT[0])]
    fleet, nodes, asked = GangCase([*cluster, Host("b0", {"ib": "b"}, cards=1)], gang(members, CLUSTER)).built()
    undisturbed, _ = Deciding(fleet, nodes, asked).tries(most=200)
    deciding = Deciding(fleet, nodes, asked)
    for _ in range(undisturbed - 1):
        assert not is_certain(deciding.once())
        nodes.mark_changed("b0")
    assert is_certain(deciding.once())


@given(problems())
def test_a_gang_that_is_decided_in_small_steps_is_placed_exactly_if_it_can_be(problem: Problem) -> None:
    fleet, nodes, asked = scene(problem).built()
    _, answer = Deciding(fleet, nodes, asked, budget=0).tries(most=1_000)
    assert isinstance(answer, GangPlan) == (best(problem) is not None)


@given(st.lists(changes, max_size=6), st.sampled_from(LEVELS), st.lists(st.integers(1, 3), min_size=2, max_size=4))
def test_what_was_searched_before_a_change_never_makes_an_answer_wrong(
    happened: list[tuple[str, str, list[str], dict[str, str]]], levels: tuple[Level, ...], sizes: list[int]
) -> None:
    world = ChangingCluster()
    asked = gang([member(rank, count=size, cpus=30) for rank, size in enumerate(sizes)], *levels)
    deciding = Deciding(world.fleet, world.nodes, asked, budget=0)
    for change in (None, *happened):
        if change is not None:
            world.change(*change)
        answer = deciding.once()
        if is_certain(answer):
            assert isinstance(answer, type(choose(asked, Cluster.unlimited(world.fleet, world.nodes))))
