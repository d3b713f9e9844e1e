"""Members that come later: they return to the domain of those that stand, wait for it, or move."""

from dataclasses import replace

from controller.gangs import GangPlan, Level, render
from controller.refusal import Refusal
from tests.unit.controller.gangs.cases import (
    CLUSTER,
    PREFERRED_LEAF,
    Host,
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


def test_a_replacement_stays_in_the_domain_of_those_that_stand(decide: Decide) -> None:
    cluster = [*hosts("a", 2, A), *hosts("b", 4, B)]
    stands = tuple(standing(n, cluster, "a1", f"gpu-{n}") for n in range(3))
    asked = replace(gang(members(1, 3), CLUSTER), standing=stands, minimum=4)
    assert nodes_of(decide(cluster, asked)) == ["a1"]
    full = [replace(host, used=8) if host.name == "a2" else host for host in cluster]
    large = replace(gang(members(1, 3, count=6), CLUSTER), standing=stands, minimum=4)
    assert nodes_of(decide(cluster, large)) == ["a2"]
    assert verdicts(decide(full, large)) == ["a: 3 of 4"]


def test_a_replacement_leaves_a_full_preferred_leaf(decide: Decide) -> None:
    cluster = [
        Host("a1", leaf("a", "l1"), cards=2),
        Host("a2", leaf("a", "l2"), cards=4),
        Host("b1", leaf("b", "l1"), cards=4),
    ]
    stands = (standing(0, cluster, "a1", "gpu-0", "gpu-1"), standing(2, cluster, "a2", "gpu-0"))
    lost = [member(1, count=2), member(3)]
    asked = replace(gang(lost, CLUSTER, PREFERRED_LEAF), standing=stands, minimum=3)
    assert nodes_of(decide(cluster, asked)) == ["a2", "a2"]
    groups = Level("leaf", "nodeLabel", group_size=2)
    answer = decide(cluster, replace(asked, levels=(CLUSTER, groups)))
    assert isinstance(answer, GangPlan)
    assert [placement.pod for placement in answer.placements] == ["ns/worker-3"], "the other one's leaf is full"


def test_later_members_wait_when_the_domain_is_gone_or_move_to_another(decide: Decide) -> None:
    cluster = [Host("x1", {}, cards=8), *hosts("a", 1, A, cards=1), *hosts("b", 2, B, cards=2)]
    stands = (standing(0, cluster, "x1", "gpu-0"),)
    waits = replace(gang(members(3, 1), CLUSTER), standing=stands, minimum=2)
    refused = decide(cluster, waits)
    assert isinstance(refused, Refusal)
    assert "the members that stand are in no domain of ib" in render(refused)
    assert nodes_of(decide(cluster, replace(waits, moves=True, minimum=4))) == ["b1", "b1", "b2"]


def test_members_that_may_move_stay_with_one_that_is_in_a_domain(decide: Decide) -> None:
    cluster = [Host("x1", {}, cards=8), *hosts("a", 2, A), *hosts("b", 1, B, cards=2)]
    stands = (standing(0, cluster, "x1", "gpu-0"), standing(1, cluster, "b1", "gpu-0"))
    asked = replace(gang(members(2, 2), CLUSTER), standing=stands, minimum=3, moves=True)
    assert nodes_of(decide(cluster, asked)) == ["b1"]


def test_a_group_of_which_the_domain_is_gone_waits_or_moves(decide: Decide) -> None:
    cluster = [Host("x1", A, cards=8), Host("a1", leaf("a", "l1"), cards=8), Host("a2", leaf("a", "l2"), cards=8)]
    groups = Level("leaf", "nodeLabel", group_size=2)
    stands = (standing(0, cluster, "x1", "gpu-0"), standing(2, cluster, "a2", "gpu-0"))
    waits = replace(gang([member(1), member(3)], CLUSTER, groups), standing=stands, minimum=3)
    answer = decide(cluster, waits)
    assert isinstance(answer, GangPlan)
    assert [(one.pod, one.node) for one in answer.placements] == [("ns/worker-3", "a2")]
    assert len(nodes_of(decide(cluster, replace(waits, moves=True)))) == 2


def test_a_preferred_level_is_waited_for(decide: Decide) -> None:
    cluster = [Host(f"a{number}", leaf("a", f"l{number}"), cards=2) for number in range(2)]
    patient = Level("leaf", "nodeLabel", required=False, wait_seconds=300)
    asked = gang(members(4), CLUSTER, patient)
    waiting = decide(cluster, replace(asked, elapsed=100))
    assert isinstance(waiting, Refusal)
    assert waiting.after == 200
    assert domain_of(decide(cluster, replace(asked, elapsed=300))) == "a"
    freed = [*cluster, Host("a3", leaf("a", "l1"), cards=2)]
    assert domain_of(decide(freed, replace(asked, elapsed=200))) == "a/l1"
