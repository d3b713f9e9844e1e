"""Parameters mean what they say, or are refused with every fault named."""

from typing import Any

import pytest

from driver.errors import InvalidInput
from driver.model import OpaqueConfig
from driver.names import Names
from driver.parameters import Configured, GpuConfig, MigConfig, NpuConfig, PlacementConfig, parameters_of

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
        ({"kind": "PlacementConfig", "memoryPercent": 30}, PlacementConfig(memoryPercent=30)),
        ({"kind": "GpuConfig", "sharing": "none"}, GpuConfig()),
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
        ({"kind": "GpuConfig", "sharing": "mps"}, "sharing: unsupported value: 'mps'; use 'none'"),
        (
            {"kind": "PlacementConfig", "policy": "best"},
            "policy: unsupported value: 'best'; use 'first",
        ),
        ({"kind": "PlacementConfig", "locality": "required"}, "locality: unsupported value: 'required'"),
        ({"kind": "PlacementConfig", "memoryPercent": 0}, "memoryPercent: Input should be greater than or equal to 1"),
        ({"kind": "PlacementConfig", "memoryPercent": 101}, "less than or equal to 100 (found 101)"),
        ({"kind": "PlacementConfig", "memoryPercent": "50"}, "memoryPercent: Input should be a valid integer"),
        ({"kind": "PlacementConfig", "memoryPercent": True}, "memoryPercent: Input should be a valid integer"),
        ({"kind": "PlacementConfig", "memory_percent": 5}, "remove it (PlacementConfig has policy, locality, memoryPe"),
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
