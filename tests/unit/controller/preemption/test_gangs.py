"""A gang of higher priority has places for all of its members in one domain, and no more victims than that takes."""

import pytest

from controller.preemption import Preemption, Unevicted
from controller.preemption.values import KeptPods
from controller.refusal import Refusal
from tests.unit.controller.preemption.cases import HALF, RACK, SMALL, WHOLE, Cluster, gang, nobody, pod, victims


def members(count: int, kind: str = WHOLE, priority: int = 10) -> list:  # type: ignore[type-arg]
    return [pod(kind, name=f"worker-{number}", priority=priority) for number in range(count)]


def test_a_gang_of_four_preempts_three_small_pods_and_nothing_else() -> None:
    cluster = Cluster([1] * 6)
    for number in range(3):
        assert cluster.hold(f"small-{number}", SMALL, node=f"n{number + 2}")
    for number, node in enumerate(("n5", "n6")):
        assert cluster.hold(f"whole-{number}", WHOLE, node=node)
    answer = cluster.preempt(gang(*members(4)))
    assert sorted(victims(answer)) == ["small-0", "small-1", "small-2"]
    assert isinstance(answer, Preemption)
    assert answer.least
    assert {one.node for one in answer.placements} == {"n1", "n2", "n3", "n4"}


def test_all_places_are_in_one_domain() -> None:
    cluster = Cluster([1] * 4)
    cluster.hold("odd", WHOLE, node="n1", priority=5)
    cluster.hold("odd-too", WHOLE, node="n3", priority=5)
    cluster.hold("even", WHOLE, node="n2", priority=1)
    cluster.hold("protected", WHOLE, node="n4", priority=10)
    assert victims(cluster.preempt(gang(*members(2)))) == ["even", "odd"]
    assert victims(cluster.preempt(gang(*members(2), levels=(RACK,)))) == ["odd", "odd-too"]


def test_nobody_goes_for_members_beyond_the_minimum() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("low", WHOLE, node="n2")
    assert victims(cluster.preempt(gang(*members(2), minimum=1))) == []


def test_a_gang_counts_as_its_least_important_member() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("low", WHOLE, node="n2", priority=5)
    pods = [*members(1), pod(WHOLE, name="other", priority=5)]
    answer = cluster.preempt(gang(*pods))
    assert isinstance(answer, Refusal)
    assert answer.why.kept == (KeptPods("do not have a lower priority", 1, ("ns/low",)),)
    pods[1] = pod(WHOLE, name="other", priority=6, preempts=False)
    assert nobody(cluster.preempt(gang(*pods))) == Unevicted(never="its preemptionPolicy is Never")


def test_pods_that_are_going_count_as_gone() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("going", WHOLE, node="n2", priority=50, going=True)
    answer = cluster.preempt(gang(*members(2)))
    assert victims(answer) == []
    assert isinstance(answer, Preemption)
    assert [one.pod for one in answer.awaited] == ["ns/going"]


def test_pods_in_vain_are_counted() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("a", WHOLE)
    cluster.hold("b", HALF, node="n2")
    assert nobody(cluster.preempt(gang(*members(3)))) == Unevicted(in_vain=2)


@pytest.mark.parametrize("trials", [0, 3])
def test_without_many_trials_the_places_of_the_first_plan_say_who_goes(trials: int) -> None:
    cluster = Cluster([8] * 4)
    for number in range(4):
        for card in range(8):
            cluster.hold(f"low-{number}-{card}", WHOLE, node=f"n{number + 1}")
    answer = cluster.preempt(gang(*(pod(*[WHOLE] * 8, name=f"worker-{number}") for number in range(2))), trials)
    assert isinstance(answer, Preemption)
    assert not answer.least
    assert len(answer.victims) == 16
    assert {one.node for one in answer.victims} == {one.node for one in answer.placements}


@pytest.mark.parametrize("needed", [1, 8, 9, 20, 32, 33])
def test_as_few_of_the_cheapest_go_as_are_needed(needed: int) -> None:
    cluster = Cluster([1] * 33)
    for number in range(33):
        cluster.hold(f"low-{number}", WHOLE, node=f"n{number + 1}", created=number)
    answer = cluster.preempt(gang(*members(needed)), trials=0)
    assert victims(answer) == [f"low-{number}" for number in reversed(range(33 - needed, 33))]
    assert nobody(cluster.preempt(gang(*members(34)), trials=0)) == Unevicted(in_vain=33)


@pytest.mark.parametrize("others", [0, 60])
def test_a_higher_priority_goes_where_a_budget_keeps_the_lower_ones(others: int) -> None:
    cluster = Cluster([1] * (3 + others))
    for number in range(2):
        cluster.hold(f"low-{number}", WHOLE, node=f"n{number + 1}", created=number, budgets=("ns/budget",))
    for number in range(1 + others):
        cluster.hold(f"middle-{number}", WHOLE, node=f"n{number + 3}", priority=1, created=-number)
    cluster.budgets = {"ns/budget": 1}
    assert victims(cluster.preempt(gang(*members(2)))) == ["low-1", "middle-0"]
