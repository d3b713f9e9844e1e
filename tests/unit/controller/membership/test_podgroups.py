"""Groups of five kinds say the minimum and the topology of a gang; what is not supported is refused by name."""

from dataclasses import replace
from typing import Any

import pytest

from controller.gangs import Level
from controller.membership import Group, Source, group_from, sub_group_of

TIERS = {"1": Level("lode.dev/ibLeaf", "attribute"), "spine": Level("spine", "nodeLabel")}


def group(source: Source, **spec: Any) -> Group:
    return group_from({"metadata": {"namespace": "ns", "name": "g", "uid": "u"}, "spec": spec}, source, TIERS)


@pytest.mark.parametrize(
    ("source", "spec", "minimum", "levels"),
    [
        (Source.POD_GROUP, {"schedulingPolicy": {"gang": {"minCount": 4}}}, 4, None),
        (Source.POD_GROUP, {"schedulingPolicy": {"basic": {}}}, None, None),
        (
            Source.POD_GROUP,
            {"schedulingPolicy": {"gang": {"minCount": 4}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}},
            4,
            (Level("rack", "nodeLabel"),),
        ),
        (Source.COMPOSITE, {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}, 2, None),
        (Source.COMPOSITE, {"schedulingPolicy": {"basic": {}}}, None, None),
        (
            Source.COMPOSITE,
            {
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "zone"}]},
            },
            2,
            (Level("zone", "nodeLabel"),),
        ),
        (Source.COSCHEDULING, {"minMember": 3}, 3, None),
        (Source.VOLCANO, {}, None, None),
        (Source.VOLCANO, {"minMember": 3, "networkTopology": {"mode": "hard"}}, 3, None),
        (Source.VOLCANO, {"minMember": 3, "networkTopology": {"highestTierAllowed": 1}}, 3, (TIERS["1"],)),
        (
            Source.VOLCANO,
            {"minMember": 3, "networkTopology": {"mode": "soft", "highestTierName": "spine"}},
            3,
            (Level("spine", "nodeLabel", required=False),),
        ),
        (
            Source.VOLCANO,
            {
                "minMember": 8,
                "networkTopology": {"mode": "hard", "highestTierName": "spine"},
                "subGroupPolicy": [
                    {
                        "name": "worker",
                        "subGroupSize": 4,
                        "minSubGroups": 2,
                        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
                        "matchLabelKeys": ["volcano.sh/partition-id"],
                        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
                    }
                ],
            },
            8,
            (TIERS["spine"], Level("lode.dev/ibLeaf", "attribute", per_sub_group=True)),
        ),
        (Source.VOLCANO, {"minMember": 8, "subGroupPolicy": [{"subGroupSize": 4}]}, 8, None),
    ],
)
def test_a_group_says_minimum_and_topology(
    source: Source, spec: Any, minimum: int | None, levels: tuple[Level, ...] | None
) -> None:
    assert replace(group(source, **spec), sub_groups=()) == Group("ns/g", "u", minimum, levels)


@pytest.mark.parametrize(
    ("minimum", "said", "kept"),
    [
        (3, {"worker": 2, "ps": 1}, (("ps", 1), ("worker", 2))),
        (5, {"worker": 2, "ps": 0}, (("worker", 2),)),
        (2, {"worker": 2, "ps": 1}, ()),
        (2, None, ()),
    ],
)
def test_minimums_of_tasks_count_unless_they_exceed_that_of_the_group(
    minimum: int, said: Any, kept: tuple[tuple[str, int], ...]
) -> None:
    found = group(Source.VOLCANO, minMember=minimum, minTaskMember=said)
    assert (found.minimum, found.task_minimums, found.faults) == (minimum, kept, ())


@pytest.mark.parametrize("source", [Source.POD_GROUP, Source.COMPOSITE])
def test_a_group_names_the_one_around_it(source: Source) -> None:
    assert group(source, parentCompositePodGroupName="all").parent == "ns/all"
    assert group(source).parent == ""


def test_a_topology_of_which_a_part_cannot_be_kept_is_none() -> None:
    """Else the part that can be kept would pass for what a claim says, and the fault would not be told."""
    policies = [{**BY_REPLICA, "networkTopology": {"highestTierAllowed": 2}}]
    found = group(Source.VOLCANO, minMember=1, networkTopology={"highestTierAllowed": 1}, subGroupPolicy=policies)
    assert (found.levels, len(found.level_faults)) == (None, 1)


def packed(required: str = "", preferred: str = "") -> dict[str, Any]:
    return {"topologyConstraint": {"packConstraint": {"required": required or None, "preferred": preferred or None}}}


def clique(name: str, least: int, **spec: Any) -> dict[str, Any]:
    return {"name": name, "podReferences": [], "minReplicas": least, **spec}


def test_a_pod_gang_of_grove_says_the_minimum_of_each_clique() -> None:
    found = group(Source.GROVE, podgroups=[clique("decode", 2), clique("prefill", 4), clique("router", 0)])
    assert (found.minimum, found.task_minimums) == (6, (("decode", 2), ("prefill", 4)))
    assert found.groups == ("decode", "prefill", "router")
    assert (found.levels, found.faults, found.level_faults) == (None, (), ())


def test_a_pod_gang_whose_minimums_were_taken_back_is_a_gang_still() -> None:
    found = group(Source.GROVE, podgroups=[clique("decode", 0)])
    assert (found.minimum, found.task_minimums) == (1, ())


def test_a_pod_gang_of_grove_keeps_cliques_together_and_groups_of_them_and_all() -> None:
    found = group(
        Source.GROVE,
        podgroups=[clique("a-0", 1), clique("a-1", 1, **packed("host")), clique("b", 1, **packed("host"))],
        topologyConstraintGroupConfigs=[{"name": "a", "podGroupNames": ["a-0", "a-1", "gone"], **packed("rack")}],
        **packed("zone"),
    )
    assert found.level_faults == ()
    assert [(level.key, dict(level.task_groups)) for level in found.levels or ()] == [
        ("zone", {}),
        ("rack", {"a-0": "group a", "a-1": "group a"}),
        ("host", {"a-1": "PodClique a-1", "b": "PodClique b"}),
    ]


def test_a_pod_gang_of_grove_may_prefer_a_domain() -> None:
    found = group(Source.GROVE, podgroups=[clique("a", 1)], **packed("zone", "rack"))
    assert found.levels == (Level("zone", "nodeLabel"), Level("rack", "nodeLabel", required=False))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {
                "podgroups": [clique("a", 1)],
                "topologyConstraintGroupConfigs": [
                    {"name": name, "podGroupNames": ["a"], **packed("rack")} for name in "xy"
                ],
            },
            "PodGang ns/g: spec.topologyConstraintGroupConfigs: a: in more than one of them, which is not supported; "
            "ask",
        ),
        (
            {"podgroups": [clique("a", 1, **packed("rack")), clique("b", 1, **packed("block"))]},
            "PodGang ns/g: spec.topologyConstraint: block, rack: nothing says which of them lies inside the other; ask",
        ),
    ],
)
def test_a_topology_of_grove_that_cannot_be_kept_is_told_with_the_remedy(spec: Any, said: str) -> None:
    found = group(Source.GROVE, **spec)
    assert (found.levels, found.faults) == (None, ())
    assert [str(fault) for fault in found.level_faults] == [f"{said} for topology in the PlacementConfig of a claim"]


BY_REPLICA = {"matchLabelKeys": ["replica"]}


@pytest.mark.parametrize(
    ("minimum", "policies", "kept"),
    [
        (None, [{"subGroupSize": 2, "minSubGroups": 4, **BY_REPLICA}], 8),
        (3, [{"subGroupSize": 2, "minSubGroups": 4, **BY_REPLICA}], 8),
        (9, [{"subGroupSize": 2, "minSubGroups": 4, **BY_REPLICA}], 9),
        (3, [{"minSubGroups": 4, **BY_REPLICA}], 4),
        (3, [{"minSubGroups": 4, **BY_REPLICA}, {"minSubGroups": 1, "subGroupSize": 3, **BY_REPLICA}], 7),
        (3, [{"subGroupSize": 2}], 3),
        (None, [{"subGroupSize": 2}], None),
    ],
)
def test_a_minimum_of_whole_sub_groups_is_one_of_their_members(minimum: int | None, policies: Any, kept: int) -> None:
    found = group(Source.VOLCANO, minMember=minimum, subGroupPolicy=policies)
    assert (found.minimum, found.faults) == (kept, ())


@pytest.mark.parametrize(
    ("labels", "sub_group"),
    [
        ({"role": "decode", "replica": "1", "shard": "2"}, (0, "1/2")),
        ({"role": "decode", "replica": "1"}, None),
        ({"role": "decode", "replica": "1", "shard": ""}, None),
        ({"role": "prefill", "replica": "1", "shard": "2"}, (1, "1")),
        ({"role": "router", "replica": "1"}, None),
        ({}, None),
    ],
)
def test_a_pod_is_in_the_sub_group_of_the_first_policy_that_selects_it(
    labels: dict[str, str], sub_group: tuple[int, str] | None
) -> None:
    """As Volcano's scheduler groups pods: ``getSubJobMatchValues`` in pkg/scheduler/api/sub_job_info.go."""
    policies = [
        {"labelSelector": {"matchLabels": {"role": "decode"}}, "matchLabelKeys": ["replica", "shard"]},
        {"labelSelector": {"matchLabels": {"role": "router"}}},
        {
            "labelSelector": {"matchExpressions": [{"key": "role", "operator": "In", "values": ["prefill"]}]},
            "matchLabelKeys": ["replica"],
        },
    ]
    assert sub_group_of(group(Source.VOLCANO, minMember=1, subGroupPolicy=policies).sub_groups, labels) == sub_group


TIER = {"highestTierAllowed": 1}


@pytest.mark.parametrize(
    ("source", "spec", "said"),
    [
        (
            Source.VOLCANO,
            {"networkTopology": {"highestTierAllowed": 2}},
            "spec.networkTopology.highestTierAllowed: tier 2 stands for no attribute or node label; have an operator "
            "add it to the setting controller.volcanoTiers, or ask for topology in the PlacementConfig of a claim",
        ),
        (
            Source.VOLCANO,
            {"networkTopology": {"highestTierName": "core"}},
            "spec.networkTopology.highestTierName: tier core stands for no attribute",
        ),
        (
            Source.VOLCANO,
            {"subGroupPolicy": [{**BY_REPLICA, "networkTopology": TIER}, BY_REPLICA]},
            "spec.subGroupPolicy: policies with different networkTopology are not supported; let all say the same",
        ),
        (
            Source.VOLCANO,
            {"subGroupPolicy": [BY_REPLICA, {"networkTopology": TIER}]},
            "spec.subGroupPolicy[1].matchLabelKeys: missing, so the policy groups no pods; set it to the label",
        ),
        (
            Source.VOLCANO,
            {"subGroupPolicy": [{"minSubGroups": 1}]},
            "spec.subGroupPolicy[0].matchLabelKeys: missing, so the policy groups no pods; set it to the label",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name_with_the_remedy(source: Source, spec: Any, said: str) -> None:
    found = group(source, minMember=1, **spec)
    assert any(str(fault).startswith(f"PodGroup ns/g: {said}") for fault in (*found.faults, *found.level_faults))
