"""Parameters mean what they say, or are refused with every fault named."""

from typing import Any

import pytest

from driver.errors import InvalidInput
from driver.model import OpaqueConfig
from driver.names import Names
from driver.parameters import (
    AlignmentConfig,
    Configured,
    GangConfig,
    GangConstraint,
    GpuConfig,
    MigConfig,
    NpuConfig,
    PlacementConfig,
    SubGroupConfig,
    SubGroupKind,
    TopologyLevel,
    parameters_of,
)

NAMES = Names()


def entry(driver: str = "lode.dev", requests: tuple[str, ...] = (), **parameters: Any) -> OpaqueConfig:
    return OpaqueConfig(driver, {"apiVersion": "lode.dev/v1alpha1", **parameters}, requests)


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        ({"kind": "PlacementConfig"}, PlacementConfig()),
        ({"kind": "PlacementConfig", "policy": "firstFit"}, PlacementConfig(policy="firstFit")),
        ({"kind": "PlacementConfig", "policy": "binpack"}, PlacementConfig(policy="binpack")),
        ({"kind": "PlacementConfig", "policy": "spread"}, PlacementConfig(policy="spread")),
        ({"kind": "PlacementConfig", "locality": "preferred"}, PlacementConfig(locality="preferred")),
        ({"kind": "PlacementConfig", "nodePolicy": "spread"}, PlacementConfig(nodePolicy="spread")),
        ({"kind": "PlacementConfig", "memoryPercent": 30}, PlacementConfig(memoryPercent=30)),
        (
            {"kind": "PlacementConfig", "alignWith": {"claim": "nic", "attribute": "a.dev/root", "mode": "preferred"}},
            PlacementConfig(alignWith=AlignmentConfig(claim="nic", attribute="a.dev/root", mode="preferred")),
        ),
        ({"kind": "PlacementConfig", "gang": {}}, PlacementConfig(gang=GangConfig())),
        (
            {"kind": "PlacementConfig", "gang": {"name": "train", "minAvailable": 4}},
            PlacementConfig(gang=GangConfig(name="train", minAvailable=4)),
        ),
        (
            {"kind": "PlacementConfig", "gang": {"name": "chat", "subGroup": {"label": "a/replica", "size": 4}}},
            PlacementConfig(
                gang=GangConfig(name="chat", subGroup=SubGroupConfig(label="a/replica", size=4, minAvailable=1))
            ),
        ),
        (
            {
                "kind": "PlacementConfig",
                "gang": {"subGroups": [{"label": "r", "size": 4, "matchLabels": {"b": "1", "a": "2"}}]},
            },
            PlacementConfig(
                gang=GangConfig(
                    subGroups=(
                        SubGroupKind.model_validate({"label": "r", "size": 4, "matchLabels": {"a": "2", "b": "1"}}),
                    )
                )
            ),
        ),
        (
            {"kind": "PlacementConfig", "topology": [{"nodeLabel": "rack", "perSubGroup": True}]},
            PlacementConfig(topology=(TopologyLevel(nodeLabel="rack", perSubGroup=True),)),
        ),
        (
            {
                "kind": "PlacementConfig",
                "gang": {"constraints": [{"sameSet": "a/b"}, {"same": "a/c", "mode": "preferred"}]},
            },
            PlacementConfig(
                gang=GangConfig(
                    constraints=(GangConstraint(sameSet="a/b"), GangConstraint(same="a/c", mode="preferred"))
                )
            ),
        ),
        (
            {"kind": "PlacementConfig", "gang": {"onDomainLoss": "move"}},
            PlacementConfig(gang=GangConfig(onDomainLoss="move")),
        ),
        (
            {
                "kind": "PlacementConfig",
                "topology": [
                    {"attribute": "lode.dev/ibCluster"},
                    {"nodeLabel": "rack", "mode": "preferred", "groupSize": 8, "waitSeconds": 300},
                ],
            },
            PlacementConfig(
                topology=(
                    TopologyLevel(attribute="lode.dev/ibCluster", mode="required"),
                    TopologyLevel(nodeLabel="rack", mode="preferred", groupSize=8, waitSeconds=300),
                )
            ),
        ),
        ({"kind": "GpuConfig", "sharing": "none"}, GpuConfig()),
        ({"kind": "GpuConfig", "sharing": "mps"}, GpuConfig(sharing="mps")),
        (
            {"kind": "GpuConfig", "sharing": "timeSlicing", "interval": "short"},
            GpuConfig(sharing="timeSlicing", interval="short"),
        ),
        ({"kind": "NpuConfig"}, NpuConfig()),
        ({"kind": "MigConfig"}, MigConfig()),
    ],
)
def test_each_kind_is_read(parameters: dict[str, Any], value: Any) -> None:
    assert parameters_of([entry(**parameters, requests=("gpu",))], NAMES, "claim") == (Configured(value, ("gpu",)),)


def test_parameters_of_other_drivers_are_not_ours_to_judge() -> None:
    assert parameters_of([entry(driver="other.example.com", kind="Whatever")], NAMES, "claim") == ()


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"kind": "GpuConfg"}, "kind: unknown kind: 'GpuConfg'; use one of PlacementConfig, GpuConfig"),
        ({}, "kind: unknown kind: None"),
        ({"kind": "GpuConfig", "shareing": 1}, "parameters.shareing: unknown field; remove it"),
        ({"kind": "NpuConfig", "sharing": "mps"}, "sharing: unsupported value: 'mps'; use 'none'"),
        (
            {"kind": "GpuConfig", "sharing": "mig"},
            "sharing: unsupported value: 'mig'; use 'none', 'timeSlicing', 'mps' or",
        ),
        ({"kind": "GpuConfig", "sharing": "timeSlicing", "interval": "1ms"}, "interval: unsupported value: '1ms'; use"),
        ({"kind": "GpuConfig", "sharing": "mps", "interval": "long"}, "remove it, or use sharing timeSlicing"),
        (
            {"kind": "PlacementConfig", "policy": "best"},
            "policy: unsupported value: 'best'; use 'first",
        ),
        ({"kind": "PlacementConfig", "nodePolicy": "best"}, "nodePolicy: unsupported value: 'best'; use 'first"),
        ({"kind": "PlacementConfig", "locality": "required"}, "locality: unsupported value: 'required'"),
        ({"kind": "PlacementConfig", "memoryPercent": 0}, "memoryPercent: must be at least 1 (found 0)"),
        (
            {"kind": "PlacementConfig", "alignWith": "nic"},
            "alignWith: must be an object; its fields are claim, attribute, mode (found 'nic')",
        ),
        (
            {"kind": "PlacementConfig", "alignWith": {"claim": "nic"}},
            "alignWith.attribute: is missing; set it (found {'claim': 'nic'})",
        ),
        (
            {"kind": "PlacementConfig", "alignWith": {"claim": "nic", "attribute": "pcieRoot"}},
            "alignWith.attribute: must be the qualified name of a device attribute, such as",
        ),
        (
            {"kind": "PlacementConfig", "alignWith": {"claim": "", "attribute": "a.dev/b", "mode": "never"}},
            "alignWith.claim: must not be empty (found '')",
        ),
        (
            {"kind": "PlacementConfig", "alignWith": {"claim": "nic", "attribute": "a.dev/b", "mode": "never"}},
            "alignWith.mode: unsupported value: 'never'; use 'required' or 'preferred'",
        ),
        (
            {"kind": "PlacementConfig", "alignWith": {"claim": "nic", "attribute": "a.dev/b", "request": "r"}},
            "alignWith.request: unknown field; remove it (alignWith has claim, attribute, mode)",
        ),
        ({"kind": "PlacementConfig", "memoryPercent": 101}, "memoryPercent: must be at most 100 (found 101)"),
        ({"kind": "PlacementConfig", "memoryPercent": "50"}, "memoryPercent: must be an integer (found"),
        ({"kind": "PlacementConfig", "memoryPercent": True}, "memoryPercent: must be an integer (found"),
        ({"kind": "PlacementConfig", "memory_percent": 5}, "remove it (PlacementConfig has policy, nodePolicy, local"),
        (
            {"kind": "GpuConfig", "apiVersion": "lode.dev/v9"},
            "apiVersion: unknown version: 'lode.dev/v9'; use lode.dev/v1alpha1",
        ),
    ],
)
def test_a_fault_names_field_value_and_remedy(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parameters_of([entry(**parameters)], NAMES, "ResourceClaim a/b")
    assert said in str(caught.value)
    assert "ResourceClaim a/b: spec.devices.config[0].opaque.parameters" in str(caught.value)


def test_all_faults_of_all_entries_are_reported_at_once() -> None:
    faulty = [entry(kind="GpuConfig", a=1, b=2), entry(kind="Nope"), entry(kind="NpuConfig", sharing="x")]
    with pytest.raises(InvalidInput) as caught:
        parameters_of(faulty, NAMES, "claim")
    assert [fault.field.removeprefix("spec.devices.config") for fault in caught.value.faults] == [
        "[0].opaque.parameters.a",
        "[0].opaque.parameters.b",
        "[1].opaque.parameters.kind",
        "[2].opaque.parameters.sharing",
    ]


SUB_GROUP = {"label": "r", "size": 4}
GANG_FAULTS = [
    ({"gang": {"name": "train"}}, "gang: minAvailable is missing: nothing else says how many members a gang"),
    ({"gang": {"name": "Train", "minAvailable": 1}}, "gang.name: must match ^[a-z0-9]"),
    ({"gang": {"minAvailable": 0}}, "gang.minAvailable: must be at least 1 (found 0)"),
    ({"gang": {"minAvailable": "4"}}, "gang.minAvailable: must be an integer (found '4')"),
    (
        {"gang": {"size": 4}},
        "gang.size: unknown field; remove it (gang has name, minAvailable, subGroup, subGroups, constraints, onDomain",
    ),
    (
        {"gang": True},
        "gang: must be an object; its fields are name, minAvailable, subGroup, subGroups, constraints, onDomainLoss (f",
    ),
    ({"topology": []}, "topology: must have an entry (found"),
    ({"topology": [{}]}, "topology[0]: must have one of attribute and nodeLabel"),
    ({"topology": [{"attribute": "a/b", "nodeLabel": "c"}]}, "topology[0]: must have one of attribute and nodeLabel"),
    ({"topology": [{"attribute": "ibCluster"}]}, "topology[0].attribute: must be the qualified name of a device attri"),
    ({"topology": [{"attribute": "a/b/c"}]}, "topology[0].attribute: must be the qualified name"),
    (
        {"topology": [{"nodeLabel": "a", "mode": "hard"}]},
        "topology[0].mode: unsupported value: 'hard'; use 're",
    ),
    ({"gang": {"subGroup": {"label": "r", "size": 0}}}, "gang.subGroup.size: must be at least 1 (found 0)"),
    ({"gang": {"subGroup": {"size": 4}}}, "gang.subGroup.label: is missing; set it (found {'size': 4})"),
    (
        {"gang": {"subGroup": {"label": "r", "size": 4, "minimum": 1}}},
        "gang.subGroup.minimum: unknown field; remove it (subGroup has label, size, minAvailable)",
    ),
    ({"gang": {"subGroup": 4}}, "gang.subGroup: must be an object; its fields are label, size, minAvailable (found 4)"),
    (
        {"gang": {"subGroup": SUB_GROUP, "subGroups": [SUB_GROUP]}},
        "gang: must have at most one of subGroup and subGroups",
    ),
    ({"gang": {"subGroups": []}}, "gang.subGroups: must have an entry (found [])"),
    (
        {"gang": {"subGroups": [4]}},
        "gang.subGroups[0]: must be an object; its fields are label, size, minAvailable, mat",
    ),
    (
        {"gang": {"subGroups": [{**SUB_GROUP, "matchLabels": {"role": 1}}]}},
        "gang.subGroups[0].matchLabels: must be an object with texts as values, such as role: decode (found {'role'",
    ),
    (
        {"gang": {"subGroups": [{**SUB_GROUP, "matchLabels": [["a", "b"]]}]}},
        "gang.subGroups[0].matchLabels: must be an object with texts as values, such as role: decode (found [['a'",
    ),
    (
        {"gang": {"subGroups": [{**SUB_GROUP, "selector": {}}]}},
        "gang.subGroups[0].selector: unknown field; remove it (subGroups has label, size, minAvailable, matchLabels)",
    ),
    ({"gang": {"constraints": []}}, "gang.constraints: must have an entry (found [])"),
    ({"gang": {"constraints": [{}]}}, "gang.constraints[0]: must have one of sameSet, same and distinct (found {})"),
    (
        {"gang": {"constraints": [{"sameSet": "a/b", "same": "a/c"}]}},
        "gang.constraints[0]: must have one of sameSet, same and distinct (found {'sameSet'",
    ),
    (
        {"gang": {"constraints": [{"sameSet": "rail"}]}},
        "gang.constraints[0].sameSet: must be the qualified name of a device attribute",
    ),
    (
        {"gang": {"constraints": [{"sameSet": "a/b"}, {"distinct": "a/b"}]}},
        "gang.constraints: a/b: one constraint for each (found",
    ),
    (
        {"gang": {"constraints": [{"same": "a/b", "mode": "hard"}]}},
        "gang.constraints[0].mode: unsupported value: 'hard'; use 'required' or 'preferred'",
    ),
    (
        {"gang": {"constraints": [{"same": "a/b", "required": True}]}},
        "gang.constraints[0].required: unknown field; remove it (constraints has sameSet, same, distinct, mode)",
    ),
    (
        {"topology": [{"nodeLabel": "a", "groupSize": 2, "perSubGroup": True}]},
        "topology[0]: must have at most one of groupSize and perSubGroup",
    ),
    ({"topology": [{"nodeLabel": "a", "perSubGroup": 1}]}, "topology[0].perSubGroup: must be true or false (found 1)"),
    ({"topology": [{"nodeLabel": "a", "groupSize": 0}]}, "topology[0].groupSize: must be at least 1 (found 0)"),
    ({"topology": [{"nodeLabel": "a", "waitSeconds": 9}]}, "topology[0]: waitSeconds has no meaning in mode required"),
    (
        {"topology": [{"nodeLabel": "a", "size": 9}]},
        "topology[0].size: unknown field; remove it (topology has attr",
    ),
    ({"topology": [{"nodeLabel": "a"}, {"nodeLabel": "a"}]}, "topology: a: a level can be listed once"),
]


@pytest.mark.parametrize(("parameters", "said"), GANG_FAULTS)
def test_a_fault_of_a_gang_or_of_its_topology_names_field_value_and_remedy(parameters: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parameters_of([entry(kind="PlacementConfig", **parameters)], NAMES, "claim")
    assert f"claim: spec.devices.config[0].opaque.parameters.{said}" in str(caught.value)
    assert len(caught.value.faults) == 1


def test_a_class_can_join_no_pods_to_a_gang() -> None:
    config = [entry(kind="PlacementConfig", policy="spread", gang={}, topology=[{"nodeLabel": "rack"}])]
    with pytest.raises(InvalidInput) as caught:
        parameters_of(config, NAMES, "DeviceClass gpu", "spec.config", of_class=True)
    assert [fault.field.rpartition(".")[2] for fault in caught.value.faults] == ["gang", "topology"]


def test_a_class_can_name_no_claim_of_a_pod() -> None:
    config = [entry(kind="PlacementConfig", alignWith={"claim": "nic", "attribute": "a.dev/root"})]
    with pytest.raises(InvalidInput) as caught:
        parameters_of(config, NAMES, "DeviceClass gpu", "spec.config", of_class=True)
    [fault] = caught.value.faults
    assert fault.field == "spec.config[0].opaque.parameters.alignWith"
    assert (
        "it would name a claim in pods that have no such claim; move it to the ResourceClaimTemplate" in fault.message
    )
    assert "not allowed in a DeviceClass" in str(caught.value)
    assert "move it to the ResourceClaimTemplate" in str(caught.value)
    assert parameters_of([entry(kind="PlacementConfig", policy="spread")], NAMES, "DeviceClass gpu", of_class=True)
