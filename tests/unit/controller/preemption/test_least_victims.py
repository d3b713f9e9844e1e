"""The victims are the best of all sets of pods that may go: compared with trying every set, on small clusters."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from controller.placement import Plan, PodDemand, plan
from controller.preemption import Holder, NoPreemption, Preemption
from tests.unit.controller.preemption.cases import HALF, PART, SMALL, THIRD, WHOLE, Cluster, pod

KINDS = (WHOLE, HALF, THIRD, PART, SMALL)
CARDS = {WHOLE: Fraction(1), HALF: Fraction(1, 2), THIRD: Fraction(1, 3), PART: Fraction(1, 2), SMALL: Fraction(1, 7)}
Held = dict[str, tuple[str, ...]]
"""The kinds of devices of each holder."""


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, Held]:
    """Up to three nodes and six holders, with budgets."""
    cluster = Cluster(draw(st.lists(st.integers(1, 2), min_size=1, max_size=3)), cpus=draw(st.integers(2, 6)))
    cluster.budgets = {"ns/budget": draw(st.integers(0, 2))}
    held: Held = {}
    for number in range(draw(st.integers(1, 6))):
        name = f"h{number}"
        kinds = tuple(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2)))
        node = draw(st.sampled_from(list(cluster.nodes)))
        there = cluster.hold(
            name,
            *kinds,
            node=node,
            priority=draw(st.integers(0, 3)),
            created=draw(st.integers(0, 3)),
            cpus=draw(st.integers(0, 2)),
            kept=draw(st.sampled_from(["", "", "", "are protected"])),
            budgets=draw(st.sampled_from([(), (), ("ns/budget",)])),
            going=draw(st.sampled_from([False] * 5 + [True])),
        )
        if there:
            held[name] = kinds
    return cluster, held


PODS = st.builds(
    lambda kinds, priority, cpus: pod(*kinds, priority=priority, cpus=cpus),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=2),
    st.integers(1, 4),
    st.integers(0, 3),
)


def price(cluster: Cluster, held: Held, victims: Collection[str]) -> tuple[object, ...]:
    some = [cluster.holders[name] for name in victims]
    lost = sum(CARDS[kind] for name in victims for kind in held[name])
    return (
        max((one.priority for one in some), default=-1),
        lost,
        len(some),
        [-created for created in sorted(one.created for one in some)],
    )


def may_go(cluster: Cluster, victims: Collection[str], priority: int) -> bool:
    some = [cluster.holders[name] for name in victims]
    counted = Counter(budget for one in some for budget in one.budgets)
    return all(one.priority < priority and not one.kept and not one.going for one in some) and all(
        count <= cluster.budgets[budget] for budget, count in counted.items()
    )


@contextmanager
def ended(cluster: Cluster, holders: Collection[Holder]) -> Iterator[None]:
    """The cluster as it is when these pods have really ended."""
    needs = {one.pod: cluster.nodes[one.node].holds(one.pod) for one in holders}
    for one in holders:
        cluster.nodes.discount(one.pod)
        for claim in one.claims:
            cluster.fleet.remove_claim(claim.uid)
    yield
    for one in holders:
        known = needs[one.pod]
        assert known is not None
        cluster.nodes.count(one.pod, known, one.node)
        for claim in one.claims:
            cluster.fleet.upsert_claim(claim)


def best(cluster: Cluster, held: Held, important: PodDemand) -> tuple[object, ...] | None:
    """The lowest price of all sets of pods without which the pod fits."""
    sets = chain.from_iterable(combinations(cluster.holders, size) for size in range(len(held) + 1))
    going = [one for one in cluster.holders.values() if one.going]
    prices = []
    for names in sets:
        if may_go(cluster, names, important.needs.priority):
            with ended(cluster, [*going, *(cluster.holders[name] for name in names)]):
                if isinstance(plan([important], cluster.fleet, cluster.nodes), Plan):
                    prices.append(price(cluster, held, names))
    return min(prices, default=None)


@given(clusters(), PODS)
def test_no_other_set_of_victims_is_better(case: tuple[Cluster, Held], important: PodDemand) -> None:
    cluster, held = case
    answer = cluster.preempt(important)
    expected = best(cluster, held, important)
    if isinstance(answer, NoPreemption):
        assert answer.decided
        assert expected is None
        return
    assert answer.least
    names = [victim.pod.removeprefix("ns/") for victim in answer.victims]
    assert may_go(cluster, names, important.needs.priority)
    assert price(cluster, held, names) == expected


@given(clusters(), PODS, st.integers(0, 8))
def test_a_search_that_ends_early_spares_whoever_can_be_spared(
    case: tuple[Cluster, Held], important: PodDemand, trials: int
) -> None:
    cluster, _ = case
    answer = cluster.preempt(important, trials)
    if not isinstance(answer, Preemption):
        return
    gone = [one for one in cluster.holders.values() if one.going]
    victims = [cluster.holders[victim.pod.removeprefix("ns/")] for victim in answer.victims]
    with ended(cluster, [*gone, *victims]):
        assert isinstance(plan([important], cluster.fleet, cluster.nodes), Plan)
    for spared in victims:
        with ended(cluster, [*gone, *(one for one in victims if one is not spared)]):
            assert not isinstance(plan([important], cluster.fleet, cluster.nodes), Plan)
