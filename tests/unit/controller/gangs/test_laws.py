"""Against trying everything: the gang is placed if it can be, and in the best domain."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from controller.gangs import GangPlan, Level, Member
from controller.placement import Needs, PodDemand, needs_of
from controller.refusal import Refusal
from driver.model import Device, Want
from driver.parameters import PlacementPolicy
from tests.unit.controller.allocation.small_fleets import claim, device, want
from tests.unit.controller.gangs.cases import CPU, GangCase, Host, gang, standing
from tests.unit.controller.gangs.exhaustive import (
    Asking,
    Assignment,
    Kept,
    Node,
    Problem,
    Way,
    best,
    best_tier,
    enough,
    fits,
    keeps,
    required,
    task_of,
    tiers,
)

IB, LEAF = Level("ib", "nodeLabel"), Level("leaf", "nodeLabel")
PREFERRED_IB, PREFERRED_LEAF = (Level(key, "nodeLabel", required=False) for key in ("ib", "leaf"))
PAIRS = Level("leaf", "nodeLabel", group_size=2)
POLICIES: tuple[PlacementPolicy, ...] = get_args(PlacementPolicy)
LEVELS = [
    (),
    (IB,),
    (PREFERRED_IB,),
    (IB, LEAF),
    (IB, PREFERRED_LEAF),
    (PREFERRED_IB, PREFERRED_LEAF),
    (IB, PAIRS),
    (PAIRS,),
]

nodes = st.builds(
    lambda ib, leaf, cards, used, cpus: Node(ib, leaf, cards, min(used, cards), cpus),
    st.sampled_from(["a", "a", "b", ""]),
    st.sampled_from(["x", "y", "y", ""]),
    st.integers(0, 4),
    st.integers(0, 2),
    st.integers(1, 4),
)
asking = st.one_of(
    st.builds(Asking, st.integers(0, 3).map(lambda cards: (Way(cards),) if cards else ()), st.integers(1, 2)),
    st.builds(Asking, st.just((Way(whole=1), Way(halves=1))), st.integers(1, 2)),
)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    kinds = draw(st.lists(asking, min_size=1, max_size=2, unique=True))
    members = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    minimum = draw(st.one_of(st.just(len(members)), st.integers(1, len(members))))
    odd = draw(st.integers(0, min(minimum, len(members) // 2)))
    even = draw(st.integers(0, min(minimum - odd, len(members) - len(members) // 2)))
    return Problem(
        tuple(draw(st.lists(nodes, min_size=1, max_size=4))),
        tuple(members),
        minimum,
        draw(st.sampled_from(LEVELS)),
        draw(st.sampled_from(POLICIES)),
        draw(st.sampled_from([False, False, True])),
        (("even", even), ("odd", odd)),
    )


def devices_of(node: Node) -> tuple[tuple[Device, ...], dict[str, dict[str, int]]]:
    made: list[Device] = []
    domains = {key: value for key, value in (("ib", node.ib), ("leaf", node.leaf)) if value}
    for card in range(node.cards):
        counter = f"card-{card}.slices"
        made.append(device(f"gpu-{card}", domains, draws={counter: 2}))
        made += [device(f"mig-{card}-{half}", {"kind": "mig", **domains}, draws={counter: 1}) for half in range(2)]
    made += [device(f"nic-{number}", {"kind": "nic"}) for number in range(node.others)]
    return tuple(made), {f"card-{card}": {"slices": 2} for card in range(node.cards)}


def scene(problem: Problem) -> GangCase:
    """The cluster and the gang of the problem."""
    cluster = []
    for number, node in enumerate(problem.nodes):
        devices, sets = devices_of(node)
        labels = {"ib": node.ib, "leaf": node.leaf, "host": f"n{number}"}
        cluster.append(Host(f"n{number}", labels, 0, node.cpus, node.used, devices, sets))
    sharing = {other: one for one, other in problem.shared}
    members = [
        Member(
            demand(problem, number, sharing.get(number, number)),
            problem.rank(number),
            leader=problem.leader and number == 0,
            task=task_of(number),
            sub_group=problem.every_sub_group()[number],
        )
        for number in range(len(problem.members))
    ]
    taken = [node.used for node in problem.nodes]
    stand = []
    for number, one in enumerate(problem.standing):
        card = f"gpu-{taken[one.node]}"
        placed = standing(one.rank, cluster, f"n{one.node}", card, name=f"worker-{number}")
        stand.append(replace(placed, sub_group=one.sub_group, task=task_of(len(members) + number)))
        taken[one.node] += 1
    asked = gang(members, *problem.levels, minimum=problem.minimum, policy=problem.policy, standing=tuple(stand))
    asked = replace(asked, sub_groups=problem.sub_groups, succeeded=problem.succeeded, starts=problem.starts)
    return GangCase(cluster, replace(asked, task_minimums=problem.task_minimums))


def demand(problem: Problem, number: int, claim_of: int) -> PodDemand:
    wanted = wants_of(problem.members[claim_of].ways)
    claims = (claim(wanted, name=f"w{claim_of}"),) if wanted else ()
    return PodDemand(f"ns/w{number}", needs(problem.members[number].cpus, apart=problem.apart), claims)


def wants_of(ways: Sequence[Way]) -> Want | tuple[Want, ...] | None:
    """The request for one of the ways; None for none. Each is of devices of one class."""
    every = [(kind, count) for way in ways for kind, count in zip(("gpu", "mig", "nic"), way, strict=True) if count]
    if len(every) > 1:
        return tuple(want(kind, count=count, name=f"{kind}-{count}") for kind, count in every)
    return want(every[0][0], count=every[0][1]) if every else None


def needs(cpus: int, *, apart: bool) -> Needs:
    if not apart:
        return Needs({"cpu": cpus * CPU} if cpus else {})
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
    spec = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpus)}}}],
    }
    return needs_of({"metadata": {"namespace": "ns", "labels": {"app": "a"}}, "spec": spec})


def placed_exactly_if_it_can_be(problem: Problem, seed: int) -> tuple[list[Kept], Assignment] | None:
    """Check that the gang is placed if trying everything finds a way, in any order, and gives up no level in vain.

    Returns the levels that are kept, and the nodes of the members, if no more than the minimum have a place.
    """
    asked = scene(problem)
    answer = asked.decide()
    assert asked.decide(Random(seed)) == answer
    tier = best_tier(problem)
    if tier is None:
        assert isinstance(answer, Refusal)
        assert answer.why.decided
        return None
    assert isinstance(answer, GangPlan), answer
    at = {placement.pod: int(placement.node[1:]) for placement in answer.placements}
    assigned = tuple(at.get(f"ns/w{number}") for number in range(len(problem.members)))
    assert enough(problem, assigned), "also: no sub-group is begun in part"
    assert fits(problem, assigned)
    assert keeps(problem, required(problem), assigned), "also with members beyond the minimum"
    if len(at) != max(1, problem.minimum - len(problem.standing)):
        return None
    kept = [*tiers(problem)][tier]
    assert keeps(problem, kept, assigned)
    return kept, assigned


def has_no_way_if_ruled_out(problem: Problem) -> None:
    """Check that what is ruled out without a search cannot be placed."""
    answer = scene(problem).decide(budget=0)
    if isinstance(answer, Refusal) and answer.why.decided:
        assert best_tier(problem) is None


@given(problems(), st.integers(0, 100))
def test_a_gang_is_placed_exactly_if_it_can_be_and_in_the_best_domain(problem: Problem, seed: int) -> None:
    asked = scene(problem)
    answer = asked.decide()
    assert asked.decide(Random(seed)) == answer
    expected = best(problem)
    if expected is None:
        assert isinstance(answer, Refusal)
        assert answer.why.decided
        assert answer.why.fits
        assert all(verdict.placed < verdict.needed for verdict in answer.why.fits)
        return
    assert isinstance(answer, GangPlan)
    tier, path, children = expected
    at = {placement.pod: int(placement.node[1:]) for placement in answer.placements}
    assigned = tuple(at.get(f"ns/w{number}") for number in range(len(problem.members)))
    assert enough(problem, assigned)
    assert fits(problem, assigned)
    if len(at) == problem.minimum:
        assert keeps(problem, [*tiers(problem)][tier], assigned)
        used = [problem.path(number) for number in at.values()]
        assert {one[: len(path)] for one in used} == {path}
        assert len({one[: len(path) + 1] for one in used}) == children


@given(problems())
def test_what_is_ruled_out_without_a_search_is_impossible(problem: Problem) -> None:
    answer = scene(problem).decide(budget=0)
    if isinstance(answer, Refusal) and answer.why.decided:
        assert best(problem) is None
