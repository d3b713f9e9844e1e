"""PodGroups of three APIs say the minimum and the topology of a gang; what is not supported is refused by name."""

from dataclasses import replace
from typing import Any

import pytest

from controller.gangs import Group, Level, Source, group_from, sub_group_of

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
            Source.POD_GROUP,
            {"parentCompositePodGroupName": "all"},
            "spec.parentCompositePodGroupName: all: groups of groups are not supported; let all pods name one PodGroup",
        ),
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
    assert any(str(fault).startswith(f"PodGroup ns/g: {said}") for fault in group(source, minMember=1, **spec).faults)
