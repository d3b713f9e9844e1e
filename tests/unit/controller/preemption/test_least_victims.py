"""The victims are the best of all sets of pods that may go: compared with trying every set, on small clusters."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.gangs import Gang, GangPlan, SubGroups, choose
from controller.placement import Placement, PodDemand, find_place
from controller.preemption import Holder, Preemption
from controller.preemption.occupancy import GangMember, RunningGang
from controller.refusal import Refusal
from driver.model import Claim
from tests.unit.controller.preemption.cases import HALF, PART, RACK, SMALL, THIRD, WHOLE, Cluster, gang, pod

KINDS = (WHOLE, HALF, THIRD, PART, SMALL)
CARDS = {WHOLE: Fraction(1), HALF: Fraction(1, 2), THIRD: Fraction(1, 3), PART: Fraction(1, 2), SMALL: Fraction(1, 7)}
Held = dict[str, tuple[str, ...]]
"""The kinds of devices of each claim, by UID."""


SLOW = settings(suppress_health_check=[HealthCheck.too_slow])
"""Each case is a cluster with an allocation for every holder."""


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Cluster, Held]:
    """Up to three nodes and six holders, with budgets, shared claims, and a gang with sub-groups and tasks."""
    cluster = Cluster(draw(st.lists(st.sampled_from([1, 1, 2]), min_size=1, max_size=3)), cpus=draw(st.integers(2, 6)))
    cluster.budgets = {"ns/budget": draw(st.integers(0, 2))}
    held: Held = {}
    for number in range(draw(st.integers(3, 6))):
        name = f"h{number}"
        shared = draw(st.sampled_from([*cluster.holders.values(), *[None] * 6]))
        kinds = () if shared else tuple(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2)))
        there = cluster.hold(
            name,
            *kinds,
            node=shared.node if shared else draw(st.sampled_from(list(cluster.nodes))),
            claims=shared.claims if shared else (),
            priority=draw(st.integers(0, 3)),
            created=draw(st.integers(0, 3)),
            cpus=draw(st.integers(0, 2)),
            kept=draw(st.sampled_from([*[""] * 7, "are protected"])),
            budgets=draw(st.sampled_from([(), (), ("ns/budget",)])),
            going=draw(st.sampled_from([False] * 11 + [True])),
            gang=draw(st.sampled_from(["", "", "ns/gang"])),
        )
        if there and kinds:
            held[f"uid-{name}"] = kinds
    cluster.gangs = {"ns/gang": draw(gangs([name for name, one in cluster.holders.items() if one.gang]))}
    return cluster, held


@st.composite
def gangs(draw: st.DrawFn, names: list[str]) -> RunningGang:
    sub_groups = st.sampled_from([None, None, (0, "a"), (0, "b")])
    members = tuple(GangMember(f"uid-{name}", draw(st.sampled_from(["", "task"])), draw(sub_groups)) for name in names)
    return RunningGang(
        "ns/gang",
        members,
        draw(st.integers(1, 4)),
        (("task", draw(st.integers(0, 2))),),
        (SubGroups(draw(st.integers(1, 3)), draw(st.integers(0, 2))),),
        (((0, "a"), draw(st.integers(0, 1))),),
    )


PODS = st.builds(
    lambda kinds, priority, cpus: pod(*kinds, priority=priority, cpus=cpus),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=2),
    st.integers(2, 4),
    st.integers(0, 3),
)


def price(cluster: Cluster, held: Held, victims: Collection[str]) -> tuple[object, ...]:
    some = [cluster.holders[name] for name in victims]
    lost = sum(CARDS[kind] for uid in {claim.uid for one in some for claim in one.claims} for kind in held[uid])
    return (
        max((one.priority for one in some), default=-1),
        lost,
        len(some),
        [-created for created in sorted(one.created for one in some)],
    )


def may_go(cluster: Cluster, victims: Collection[str], priority: int) -> bool:
    """Whether the pods may go, and nobody is left behind who needs one of them."""
    some = [cluster.holders[name] for name in victims]
    counted = Counter(budget for one in some for budget in one.budgets)
    return (
        all(one.priority < priority and not one.kept and not one.going for one in some)
        and all(count <= cluster.budgets[budget] for budget, count in counted.items())
        and not users_left(cluster, victims)
        and has_enough(cluster, cluster.gangs["ns/gang"], victims)
    )


def users_left(cluster: Cluster, victims: Collection[str]) -> bool:
    """Whether a pod stays that uses a claim of one that goes."""
    claims = {claim.uid for name in victims for claim in cluster.holders[name].claims}
    return any(
        claim.uid in claims
        for name, one in cluster.holders.items()
        if name not in victims and not one.going
        for claim in one.claims
    )


def has_enough(cluster: Cluster, gang: RunningGang, victims: Collection[str]) -> bool:
    """Whether the gang loses nobody, everybody, or only such that it does not need."""
    members = {member.uid.removeprefix("uid-"): member for member in gang.members}
    there = {name: member for name, member in members.items() if not cluster.holders[name].going}
    gone = [member for name, member in there.items() if name in victims]
    left = [member for name, member in there.items() if name not in victims]
    if not gone or not left:
        return True
    sizes = Counter(dict(gang.succeeded))
    sizes.update(member.sub_group for member in left if member.sub_group)
    size, minimum = gang.sub_groups[0].size, gang.sub_groups[0].minimum
    whole = [one for one, count in sizes.items() if count >= size]
    broken = {member.sub_group for member in gone if member.sub_group and member.sub_group not in whole}
    return (
        len(left) >= gang.minimum
        and sum(member.task == "task" for member in left) >= dict(gang.task_minimums)["task"]
        and not any(member.sub_group in broken for member in left)
        and (not broken or len(whole) >= minimum)
    )


@contextmanager
def ended(cluster: Cluster, holders: Collection[Holder]) -> Iterator[None]:
    """The cluster as it is when these pods have really ended."""
    needs = {one.pod: cluster.nodes[one.node].holds(one.pod) for one in holders}
    for one in holders:
        cluster.nodes.discount(one.pod)
    stays = {claim.uid for one in cluster.holders.values() if one not in holders for claim in one.claims}
    claims = {claim.uid: claim for one in holders for claim in one.claims if claim.uid not in stays}
    for uid in claims:
        cluster.fleet.ledger.remove_claim(uid)
    yield
    for one in holders:
        known = needs[one.pod]
        assert known is not None
        cluster.nodes.count(one.pod, known, one.node)
    for claim in claims.values():
        cluster.fleet.ledger.upsert_claim(claim)


def priority_of(important: PodDemand | Gang) -> int:
    if isinstance(important, Gang):
        return min(member.demand.needs.priority for member in important.members)
    return important.needs.priority


def fits(cluster: Cluster, important: PodDemand | Gang, *, alone: bool = True) -> bool:
    """Whether the pod or gang fits; ``alone`` if kube-scheduler shall not have to evict others for the pod."""
    if isinstance(important, Gang):
        return isinstance(choose(important, cluster.whole), GangPlan)
    needs = replace(important.needs, preempts=important.needs.preempts and not alone)
    return isinstance(find_place(replace(important, needs=needs), cluster.fleet, cluster.nodes), Placement)


def best(cluster: Cluster, held: Held, important: PodDemand | Gang) -> tuple[object, ...] | None:
    """The lowest price of all sets of pods without which the pod or gang fits."""
    sets = chain.from_iterable(combinations(cluster.holders, size) for size in range(len(cluster.holders) + 1))
    going = [one for one in cluster.holders.values() if one.going]
    prices = []
    for names in sets:
        if may_go(cluster, names, priority_of(important)):
            with ended(cluster, [*going, *(cluster.holders[name] for name in names)]):
                if fits(cluster, important, alone=bool(names)):
                    prices.append(price(cluster, held, names))
    return min(prices, default=None)


GANGS = st.builds(
    lambda pods, minimum, levels: gang(
        *(replace(one, key=f"ns/{number}", claims=(renamed(one, number),)) for number, one in enumerate(pods)),
        minimum=min(minimum, len(pods)),
        levels=levels,
    ),
    st.lists(PODS, min_size=2, max_size=3),
    st.integers(1, 3),
    st.sampled_from([(), (RACK,)]),
)


def renamed(one: PodDemand, number: int) -> Claim:
    """The claim of the pod with a name of its own."""
    return replace(one.claims[0], name=f"c{number}", uid=f"uid-c{number}")


@SLOW
@given(clusters(), st.one_of(PODS, GANGS))
def test_no_other_set_of_victims_is_better(case: tuple[Cluster, Held], important: PodDemand | Gang) -> None:
    cluster, held = case
    answer = cluster.preempt(important)
    cluster.holders = dict(reversed(cluster.holders.items()))
    assert cluster.preempt(important) == answer, "the order of the holders matters"
    expected = best(cluster, held, important)
    if isinstance(answer, Refusal):
        assert answer.why.decided
        assert expected is None
        return
    assert answer.least
    names = [victim.pod.removeprefix("ns/") for victim in answer.victims]
    assert may_go(cluster, names, priority_of(important))
    assert price(cluster, held, names) == expected


@SLOW
@given(clusters(), PODS, st.integers(0, 8))
def test_a_search_that_ends_early_spares_whoever_can_be_spared_on_the_node(
    case: tuple[Cluster, Held], important: PodDemand, trials: int
) -> None:
    cluster, _ = case
    answer = cluster.preempt(important, trials)
    if not isinstance(answer, Preemption):
        return
    gone = [one for one in cluster.holders.values() if one.going]
    victims = [cluster.holders[victim.pod.removeprefix("ns/")] for victim in answer.victims]
    with ended(cluster, [*gone, *victims]):
        assert fits(cluster, important, alone=bool(victims))
    for spared in victims:
        others = [one.pod.removeprefix("ns/") for one in victims if one is not spared]
        if may_go(cluster, others, important.needs.priority):
            with ended(cluster, [*gone, *(cluster.holders[name] for name in others)]):
                assert not fits(cluster, replace(important, among=(answer.placements[0].node,)))
