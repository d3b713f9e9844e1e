"""Members that want to be beside each other or apart: affinities, spreads, groups and leaders."""

from collections import Counter
from typing import Any

from controller.gangs import Level
from controller.placement import needs_of
from controller.refusal import Refusal
from tests.unit.controller.gangs.cases import (
    CLUSTER,
    PREFERRED_LEAF,
    Host,
    gang,
    member,
    members,
    nodes_of,
    verdicts,
)
from tests.unit.controller.gangs.deciding import A, B, Decide, leaf

# Members that want to be apart, together, or spread


def apart(rank: int, **fields: Any) -> Any:
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "a"}}}
    return with_affinity(
        rank, {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}, **fields
    )


def with_affinity(rank: int, affinity: dict[str, Any], **spec: Any) -> Any:
    raw = {"metadata": {"namespace": "ns", "labels": {"app": "a"}}, "spec": {"affinity": affinity, **spec}}
    return member(rank, needs=needs_of(raw))


def on_hosts(prefix: str, count: int, labels: dict[str, str]) -> list[Host]:
    return [Host(f"{prefix}{n}", {**labels, "host": f"{prefix}{n}"}) for n in range(count)]


def test_members_with_anti_affinity_get_a_node_each_and_are_counted(decide: Decide) -> None:
    cluster = [*on_hosts("a", 63, A), *on_hosts("b", 63, B)]
    answer = decide(cluster, gang([apart(n) for n in range(64)], CLUSTER))
    assert verdicts(answer) == ["a: 63 of 64", "b: 63 of 64"]
    assert isinstance(answer, Refusal)
    assert answer.why.decided
    assert len(set(nodes_of(decide(cluster, gang([apart(n) for n in range(63)], CLUSTER))))) == 63


def test_members_with_affinity_follow_the_one_they_want_to_be_with(decide: Decide) -> None:
    labels = {"app": "b"}
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": labels}}
    follower = with_affinity(0, {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    first = member(1, count=8, needs=needs_of({"metadata": {"namespace": "ns", "labels": labels}, "spec": {}}))
    cluster = [Host(f"a{n}", {**A, "host": f"a{n}"}, cards=9 if n == 2 else 8) for n in range(4)]
    assert nodes_of(decide(cluster, gang([follower, first], CLUSTER))) == ["a2", "a2"]


def test_members_are_spread_as_they_ask(decide: Decide) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "host",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    asked = [with_affinity(n, {}, topologySpreadConstraints=[constraint]) for n in range(32)]
    found = nodes_of(decide(on_hosts("a", 16, A), gang(asked, CLUSTER)))
    assert set(Counter(found).values()) == {2}


# Groups, extras, ranks


def test_groups_stay_in_one_domain_each(decide: Decide) -> None:
    cluster = [Host(f"a{n}", leaf("a", f"l{n}"), cards=3) for n in range(4)]
    pairs = Level("leaf", "nodeLabel", group_size=2)
    assert nodes_of(decide(cluster, gang(members(6), CLUSTER, pairs))) == ["a0", "a0", "a1", "a1", "a2", "a2"]
    assert verdicts(decide(cluster[:2], gang(members(6), CLUSTER, pairs))) == ["a: 5 of 6"]
    many = [Host(f"a{n:02}", leaf("a", f"l{n}"), cards=7 if n else 3) for n in range(40)]
    fours = Level("leaf", "nodeLabel", group_size=4)
    assert verdicts(decide(many, gang(members(160), CLUSTER, fours))) == ["a: 159 of 160"]


def test_groups_within_groups_may_be_smaller(decide: Decide) -> None:
    def host(block: str, rack: str) -> Host:
        return Host(f"{block}-{rack}", {"ib": "a", "leaf": block, "rack": rack}, cards=2)

    fours, pairs = Level("leaf", "nodeLabel", group_size=4), Level("rack", "nodeLabel", group_size=2)
    cluster = [host("x", "x1"), host("y", "y1"), host("y", "y2")]
    assert nodes_of(decide(cluster, gang(members(4), CLUSTER, fours, pairs))) == ["y-y1", "y-y1", "y-y2", "y-y2"]


def test_the_leader_is_beside_rank_0(decide: Decide) -> None:
    cluster = [Host(f"a{n}", leaf("a", f"l{n % 3}"), cards=2, cpus=10) for n in range(6)]
    workers = members(4, count=2, cpus=9)
    free = decide(cluster, gang([member(0, count=0, cpus=1, leader=True), *workers], CLUSTER))
    assert nodes_of(free)[0] == nodes_of(free)[1], "on one node"
    large = gang([member(0, count=0, cpus=2, leader=True), *workers], CLUSTER, PREFERRED_LEAF)
    placed = nodes_of(decide(cluster, large))
    leaf_of = {host.name: host.labels["leaf"] for host in cluster}
    assert placed[0] != placed[1]
    assert leaf_of[placed[0]] == leaf_of[placed[1]], "in one leaf"
    # The node that is filled first takes two workers, and then the leader no more.
    pairs = [Host("a1", A, cards=2, cpus=2), Host("a2", A, cards=2, cpus=2), Host("a3", A, cards=0, cpus=1)]
    moved = nodes_of(decide(pairs, gang([member(0, count=0, leader=True), *members(3)], CLUSTER)))
    assert moved[0] == moved[1]
