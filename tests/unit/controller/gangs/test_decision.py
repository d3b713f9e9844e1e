"""The gang goes into one domain or nowhere, into the best one, whatever the order of the input."""

import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.gangs import STEPS, Gang, GangPlan, Level, Memory, SearchOptions, choose, render
from controller.placement import NodeFacts, Nodes, needs_of
from controller.refusal import Refusal
from driver.model import Constraint
from tests.hard_searches import HARD_SEARCHES, NODE
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, want
from tests.unit.controller.gangs.cases import (
    CLUSTER,
    CPU,
    PREFERRED_LEAF,
    GangCase,
    Host,
    attribute,
    devices_of,
    domain_of,
    gang,
    hosts,
    member,
    members,
    nodes_of,
    standing,
    verdicts,
)
from tests.unit.controller.gangs.deciding import A, B, Decide, leaf

SPREAD: dict[str, Any] = {"policy": "spread"}

# Which domain


def test_only_a_domain_with_enough_nodes_is_chosen(decide: Decide) -> None:
    cluster = [*hosts("a", 5, A), *hosts("b", 3, B)]
    answer = decide(cluster, gang(members(4, count=8), CLUSTER))
    assert domain_of(answer) == "a"
    assert nodes_of(answer) == ["a1", "a2", "a3", "a4"]


def test_a_domain_that_other_predicates_empty_is_never_chosen(decide: Decide) -> None:
    cluster = [*hosts("a", 5, A)[:3], *[replace(host, cpus=1) for host in hosts("a", 5, A)[3:]], *hosts("b", 4, B)]
    assert domain_of(decide(cluster, gang(members(4, count=8, cpus=40), CLUSTER))) == "b"
    tainted = [*hosts("a", 2, A), Host("a3", A, tainted=True), Host("a4", A, ready=False), *hosts("b", 4, B)]
    assert domain_of(decide(tainted, gang(members(4, count=8), CLUSTER))) == "b"


def test_binpack_leaves_the_least_room_and_spread_takes_the_least_used(decide: Decide) -> None:
    cluster = [Host("a1", A, cards=8), Host("b1", B, cards=8, used=4)]
    assert domain_of(decide(cluster, gang(members(4), CLUSTER))) == "b"
    assert domain_of(decide(cluster, gang(members(4), CLUSTER, **SPREAD))) == "a"


def test_one_leaf_comes_before_less_room_left(decide: Decide) -> None:
    cluster = [
        Host("a1", leaf("a", "l1"), cards=2),
        Host("a2", leaf("a", "l2"), cards=2),
        Host("b1", leaf("b", "l1"), cards=4),
        Host("b2", leaf("b", "l2"), cards=2),
    ]
    assert domain_of(decide(cluster, gang(members(4), CLUSTER, PREFERRED_LEAF))) == "b/l1"


def test_of_equal_domains_binpack_takes_the_first_name_and_spread_a_fixed_one(decide: Decide) -> None:
    cluster = [*hosts("a", 2, A), *hosts("b", 2, B), *hosts("c", 2, {"ib": "c"})]
    assert domain_of(decide(cluster, gang(members(4), CLUSTER))) == "a"
    chosen = [domain_of(decide(cluster, replace(gang(members(4), CLUSTER, **SPREAD), uid=uid))) for uid in "pqrstuvw"]
    assert set(chosen) == {"a", "b", "c"}


def test_a_block_that_a_larger_gang_could_use_is_not_broken(decide: Decide) -> None:
    cluster = [*hosts("a", 1, A, cards=8), *hosts("b", 1, B, cards=7)]
    assert domain_of(decide(cluster, gang(members(2), CLUSTER))) == "b"


def test_devices_of_a_pod_may_have_to_be_alike(decide: Decide) -> None:
    rails = (device("gpu-0", {"rail": "r1"}), device("gpu-1", {"rail": "r2"}))
    even = (device("gpu-0", {"rail": "r1"}), device("gpu-1", {"rail": "r1"}))
    cluster = [
        *[Host(f"a{number}", A, devices=even) for number in range(3)],
        Host("a3", A, devices=rails),
        *[Host(f"b{number}", B, devices=even) for number in range(4)],
    ]
    pair = [
        claim(want(count=2), constraints=(Constraint((), f"{DRIVER}/rail"),), name=f"worker-{rank}")
        for rank in range(4)
    ]
    assert domain_of(decide(cluster, gang([member(n, one) for n, one in enumerate(pair)], CLUSTER))) == "b"


def test_unequal_members_are_packed_exactly(decide: Decide) -> None:
    cluster = [Host("a1", A, cards=10), Host("a2", A, cards=6)]
    asked = [member(0, count=6), member(1, count=5), member(2, count=5)]
    assert nodes_of(decide(cluster, gang(asked, CLUSTER))) == ["a2", "a1", "a1"]


def test_a_preferred_level_falls_back_outwards_and_a_required_one_does_not(decide: Decide) -> None:
    cluster = [Host(f"a{number}", leaf("a", f"l{number}"), cards=2) for number in range(3)]
    assert domain_of(decide(cluster, gang(members(4), CLUSTER, PREFERRED_LEAF))) == "a"
    answer = decide(cluster, gang(members(4), CLUSTER, Level("leaf", "nodeLabel")))
    assert verdicts(answer) == ["a/l0: 2 of 4", "a/l1: 2 of 4", "a/l2: 2 of 4"]
    assert isinstance(answer, Refusal)
    assert answer.why.decided
    assert render(answer, 2) == (
        "2 of 4 members fit in a/l0 (devices on 1 node); 2 of 4 members fit in a/l1 (devices on 1 node); "
        "at most 2 of 4 in 1 other domain"
    )


def halves(name: str) -> Host:
    draws = [{"card.slices": 2}, {"card.slices": 1}, {"card.slices": 1}]
    kinds = ["gpu", "mig", "mig"]
    cards = tuple(device(f"d{n}", {"kind": kinds[n]}, draws=draws[n]) for n in range(3))
    return Host(name, A, devices=cards, sets={"card": {"slices": 2}})


def test_alternatives_of_one_member_are_undone_for_another(decide: Decide) -> None:
    asked = [member(n, claim((want("gpu", name="whole"), want("mig", name="half")), name=f"w{n}")) for n in range(2)]
    assert devices_of(decide([halves("a1")], gang(asked, CLUSTER))) == ["a1/d1", "a1/d2"]


def test_leaves_of_one_name_in_two_clusters_are_two_domains(decide: Decide) -> None:
    cluster = [Host("a1", leaf("a", "l1"), cards=2), Host("b1", leaf("b", "l1"), cards=2)]
    answer = decide(cluster, gang(members(4), CLUSTER, Level("leaf", "nodeLabel")))
    assert verdicts(answer) == ["a/l1: 2 of 4", "b/l1: 2 of 4"]


def test_many_domains_are_summed_up_and_a_node_without_a_domain_is_mentioned(decide: Decide) -> None:
    cluster = [
        *[Host(f"n{number}", {"ib": f"d{number}"}, cards=1 + number % 2) for number in range(6)],
        Host("apart", {"ib": ""}, cards=8),
    ]
    answer = decide(cluster, gang(members(4), Level("ib", "nodeLabel")))
    assert isinstance(answer, Refusal)
    text = render(replace(answer, after=118.2), 1, now=0.0)
    assert text.startswith("2 of 4 members fit in d")
    assert "; at most 2 of 4 in each of 5 other domains; 1 node is in no domain, without a value of ib; " in text
    assert text.endswith("a wider domain is taken from 00:01 UTC on")
    assert "wider" not in render(replace(answer, after=118.2))


def test_a_node_that_lacks_devices_for_members_of_several_kinds_counts_once(decide: Decide) -> None:
    cluster = [Host("a1", A, cards=1), Host("a2", A, cards=1)]
    asked = [member(0, count=3), member(1, count=2), member(2, count=3), member(3, count=2)]
    answer = decide(cluster, gang(asked, CLUSTER))
    assert isinstance(answer, Refusal)
    assert "(devices on 2 nodes)" in render(answer)


def test_an_empty_value_is_no_domain(decide: Decide) -> None:
    cluster = [*hosts("n", 2, {"ib": ""}), *hosts("m", 2)]
    answer = decide(cluster, gang(members(4), CLUSTER))
    assert isinstance(answer, Refusal)
    assert render(answer) == "0 of 4 members fit in the cluster (no node is in a domain of ib)"


# Domains are sets of devices


def nvlink(name: str, labels: dict[str, str] | None = None) -> Host:
    return Host(name, labels or {}, devices=tuple(device(f"g{n}", {"clique": f"d{1 + n // 4}"}) for n in range(8)))


def test_a_node_can_hold_devices_of_two_domains(decide: Decide) -> None:
    answer = decide([nvlink("n1")], gang(members(3, count=2), attribute("clique")))
    assert verdicts(answer) == ["d1: 2 of 3", "d2: 2 of 3"]
    answer = decide([nvlink("n1"), nvlink("n2")], gang(members(3, count=2), attribute("clique")))
    assert devices_of(answer) == ["n1/g0", "n1/g1", "n1/g2", "n1/g3", "n2/g0", "n2/g1"]


def test_a_label_cannot_be_in_two_domains_of_an_attribute(decide: Decide) -> None:
    levels = attribute("clique"), Level("leaf", "nodeLabel")
    answer = decide([nvlink("n1", {"leaf": "l1"})], gang(members(1), *levels))
    assert isinstance(answer, Refusal)
    assert render(answer) == (
        "0 of 1 members fit in the cluster (no node is in a domain of leaf; "
        "node n1 is in several domains of lode.dev/clique, so in none of leaf)"
    )


# Pinned, shared, standing


def test_members_pinned_to_hosts_go_exactly_there(decide: Decide) -> None:
    cluster = hosts("n", 16, A)
    asked = [member(n, count=2, among=(f"n{16 - n}",)) for n in range(16)]
    assert nodes_of(decide(cluster, gang(asked, CLUSTER))) == [f"n{16 - n}" for n in range(16)]


def selecting(rank: int, name: str, by: str, **fields: Any) -> Any:
    """A member that names its node."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    term = {"matchFields": [field]} if by == "field" else {"matchExpressions": [expression]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    spec = {"nodeSelector": {"kubernetes.io/hostname": name}} if by == "selector" else {"affinity": affinity}
    return member(rank, needs=needs_of({"metadata": {"namespace": "ns"}, "spec": spec}), **fields)


@pytest.mark.parametrize("by", ["selector", "expression", "field"])
def test_members_that_name_their_hosts_go_exactly_there(decide: Decide, by: str) -> None:
    cluster = [Host(f"n{n}", {**A, "kubernetes.io/hostname": f"n{n}"}) for n in range(16)]
    asked = gang([selecting(n, f"n{15 - n}", by, count=2) for n in range(16)], CLUSTER)
    assert nodes_of(decide(cluster, asked)) == [f"n{15 - n}" for n in range(16)]
    full = [replace(host, used=7) if host.name == "n3" else host for host in cluster]
    assert verdicts(decide(full, asked)) == ["a: 15 of 16"]
    without = decide(cluster[1:], asked)
    assert isinstance(without, Refusal)
    assert render(without) == "15 of 16 members fit in a (not one of the nodes that the pod may use on 15 nodes)"


def test_members_that_share_a_claim_are_on_one_node(decide: Decide) -> None:
    shared = claim(want(count=8), name="shared")
    asked = [member(n, shared, cpus=40) for n in range(3)]
    cluster = [*hosts("a", 4, A, cpus=96), Host("b1", B, cpus=128)]
    answer = decide(cluster, gang(asked, CLUSTER))
    assert nodes_of(answer) == ["b1"] * 3
    assert isinstance(answer, GangPlan)
    assert all(placement.allocations == answer.placements[0].allocations for placement in answer.placements)
    refused = decide(cluster[:4], gang(asked, CLUSTER))
    assert isinstance(refused, Refusal)
    assert render(refused) == "0 of 3 members fit in a (insufficient cpu (120 requested) on 4 nodes)"


def test_members_beyond_the_minimum_are_placed_where_there_is_room(decide: Decide) -> None:
    cluster = [Host("a1", leaf("a", "l1"), cards=4), Host("a2", leaf("a", "l2"), cards=1), Host("b1", B, cards=8)]
    asked = gang(members(6), CLUSTER, PREFERRED_LEAF, minimum=3)
    assert nodes_of(decide(cluster, asked)) == ["a1", "a1", "a1", "a1", "a2"]


def test_each_task_has_as_many_members_as_it_needs_besides_the_minimum_of_the_gang(decide: Decide) -> None:
    tasks = [*(member(n, count=8, task="ps") for n in range(2)), *(member(n, task="worker") for n in range(2, 6))]
    asked = gang(tasks, CLUSTER, minimum=3, task_minimums=(("ps", 1), ("worker", 2)))
    answer = decide([Host("a1", A, cards=7), Host("b1", B, cards=8), Host("b2", B, cards=2)], asked)
    assert domain_of(answer) == "b"
    assert nodes_of(answer) == ["b1", "b2", "b2"]
    only_workers = decide([Host("a1", A, cards=7)], asked)
    assert verdicts(only_workers) == ["a: 2 of 3"]
    assert nodes_of(decide([Host("a1", A, cards=7)], replace(asked, task_minimums=()))) == ["a1"] * 4


def test_members_that_stand_count_for_their_task(decide: Decide) -> None:
    cluster = [Host("a1", A, cards=3)]
    stands = replace(standing(0, cluster, "a1", "gpu-0"), task="ps")
    asked = gang([member(1, task="worker"), member(2, task="worker")], CLUSTER, minimum=3, standing=(stands,))
    assert nodes_of(decide(cluster, replace(asked, task_minimums=(("ps", 1), ("worker", 2))))) == ["a1", "a1"]
    answer = decide(cluster, replace(asked, task_minimums=(("ps", 2),)))
    assert isinstance(answer, Refusal)
    assert render(answer) == "2 of 3 members fit in the cluster (too few members of task ps are there to be placed)"


def test_only_one_of_two_gangs_fits(decide: Decide) -> None:
    cluster = hosts("a", 1, A, cards=6)
    scene = GangCase(cluster, gang(members(4), CLUSTER))
    made, nodes, first = scene.built()
    found = choose(first, Cluster.unlimited(made, nodes))
    assert isinstance(found, GangPlan)
    for placement in found.placements:
        made.ledger.assume(placement.pod, placement.allocations[0])
    before = made.ledger.usage_snapshot()
    assert verdicts(choose(first, Cluster.unlimited(made, nodes))) == ["a: 2 of 4"]
    assert made.ledger.usage_snapshot() == before


def test_gangs_one_after_the_other_get_the_same_places_whatever_the_order_of_the_input() -> None:
    """20 gangs on 1,000 nodes with 100 leaves; ``LODE_SHUFFLES=100`` says in how many orders."""
    cluster = [
        Host(f"n{n:04}", leaf(f"c{n // 100}", f"l{n // 10 % 10}"), used=n * 7 % 5 if n % 3 else 0) for n in range(1000)
    ]
    counts = (8, 4, 8, 1, 8, 2, 3, 5, 7, 6)
    asked = [gang(members(4, count=count), CLUSTER, PREFERRED_LEAF) for count in counts * 2]
    places = places_of(cluster, asked, None)
    for seed in range(int(os.environ.get("LODE_SHUFFLES", "1"))):
        assert places_of(cluster, asked, Random(seed)) == places


def places_of(cluster: Sequence[Host], asked: Sequence[Any], shuffle: Random | None) -> list[list[str]]:
    """Where the gangs go, each on top of those before, with what was remembered for those."""
    made, nodes, _ = GangCase(cluster, asked[0]).built(shuffle)
    memory, found = Memory(), []
    for number, one in enumerate(asked):
        answer = choose(one, Cluster.unlimited(made, nodes), SearchOptions(memory=memory))
        assert isinstance(answer, GangPlan)
        found.append(devices_of(answer))
        demands = {entry.demand.key: entry.demand for entry in one.members}
        for placement in answer.placements:
            made.ledger.assume(f"{number}-{placement.pod}", placement.allocations[0])
            nodes.count(f"{number}-{placement.pod}", demands[placement.pod].needs, placement.node)
    return found


def test_claims_that_are_invalid_are_faults(decide: Decide) -> None:
    answer = decide(hosts("a", 1, A), gang([member(0, claim(want("missing"), name="worker-0")), *members(1, 1)]))
    assert isinstance(answer, Refusal)
    assert "missing" in render(answer)


def test_a_gang_without_levels_and_devices_is_placed_by_what_else_it_needs(decide: Decide) -> None:
    cluster = hosts("n", 3, cards=0, cpus=3)
    assert nodes_of(decide(cluster, gang(members(6, count=0, cpus=1)))) == ["n1", "n1", "n1", "n2", "n2", "n2"]
    assert CPU


def hard_to_place(steps: int) -> tuple[Fleet, Nodes, Gang]:
    """A node, a gang of one whose devices take a search of 16 to 20 steps to find, and a fleet with so many steps."""
    search, fleet, nodes = HARD_SEARCHES["mig_halves"][0](4), Fleet(steps), Nodes()
    for device_class in search.classes:
        fleet.upsert_class(device_class)
    for part in search.slices:
        fleet.ledger.upsert_slice(part)
    nodes.upsert(NodeFacts(NODE, ready=True, allocatable={"pods": 100 * CPU}))
    return fleet, nodes, gang([member(0, *search.claims, cpus=0)])


@pytest.mark.parametrize(("steps", "budget"), [(20, STEPS), (8, 2 * STEPS), (5, 4 * STEPS)])
def test_with_a_larger_budget_searches_for_devices_on_a_node_are_longer(steps: int, budget: int) -> None:
    (fleet, nodes, asked), memory = hard_to_place(steps), Memory()
    if budget > STEPS:
        short = choose(asked, Cluster.unlimited(fleet, nodes), SearchOptions(budget // 2, memory))
        assert isinstance(short, Refusal)
        assert not short.why.decided
    assert isinstance(choose(asked, Cluster.unlimited(fleet, nodes), SearchOptions(budget, memory)), GangPlan)


def test_however_large_the_budget_is_a_search_for_devices_on_a_node_is_bounded() -> None:
    fleet, nodes, asked = hard_to_place(3)
    answer = choose(asked, Cluster.unlimited(fleet, nodes), SearchOptions(1_000 * STEPS))
    assert isinstance(answer, Refusal)
    assert not answer.why.decided
