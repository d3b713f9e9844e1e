"""Against upstream's own allocator cases (Kubernetes 1.37.1): the same devices, or a difference named here."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.allocation import Fleet, NodeReasons
from driver.model import Allocation, DeviceId, Result
from driver.quantity import Quantity
from driver.wire import allocation_from, allocation_to, claim_from, class_from, slice_from

_DATA = Path(__file__).parents[3] / "data" / "conformance" / "allocator"
_ON = "the feature is on by default since Kubernetes 1.36; the case has it switched off"

DIFFERENCES = {
    "admin-access-disabled": _ON,
    "binding-conditions-without-feature-gate": _ON,
    "list-attributes-disabled-match-constraint-with-lists": "list attributes are values whatever the gates, as in CEL",
    "multi-host-resource-pool-complete-update-from-node-1-to-node-2": (
        "devices of an older generation are obsolete on every node, as the API demands"
    ),
    "partitionable-devices-disabled-other-device-do-not-consume-counters": _ON,
    "partitionable-devices-disabled-per-device-node-selection": _ON,
    "prioritized-list-disabled": _ON,
    "tainted-admin-access-disabled": _ON,
    "tainted-disabled": _ON,
}
AGREEING = 118


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_DATA / name).read_text().splitlines()]


CASES = load("cases.jsonl")


def answer(case: Mapping[str, Any]) -> tuple[Allocation, ...] | NodeReasons:
    fleet = Fleet()
    for number, raw in enumerate(case["slices"]):
        # Some cases have several slices of one name, which no API server would hold.
        metadata = {**raw["metadata"], "name": f"{raw['metadata']['name']}~{number:03}"}
        fleet.ledger.upsert_slice(slice_from({**raw, "metadata": metadata}))
    for raw in case["classes"]:
        fleet.upsert_class(class_from(raw))
    others = allocation_to(Allocation(tuple(in_use(case["allocatedDevices"]))))
    fleet.ledger.assume("others", allocation_from(others))
    metadata = (case["node"] or {"metadata": {"name": ""}})["metadata"]
    claims = [claim_from(raw) for raw in case["claimsToAllocate"]]
    return fleet.allocate(metadata["name"], metadata.get("labels") or {}, claims)


def device_id(raw: Mapping[str, str]) -> DeviceId:
    return DeviceId(raw["driver"], raw["pool"], raw["device"])


def in_use(allocated: Mapping[str, Any]) -> list[Result]:
    amounts = {
        device_id(raw): {name: Quantity.parse(value) for name, value in raw["capacity"].items()}
        for raw in allocated["aggregatedCapacity"]
    }
    shares = [(device_id(raw), raw["shareID"]) for raw in allocated["sharedDeviceIDs"]]
    shared = {device for device, _ in shares}
    shares += [(device, "unnamed") for device in amounts if device not in shared]
    return [
        *(Result("r", device_id(raw)) for raw in allocated["devices"]),
        *(Result("r", device, share_id=share, consumed=amounts.pop(device, {})) for device, share in shares),
    ]


def comparable(raw: Mapping[str, Any], *, exact: bool) -> Any:
    results = [
        {
            **result,
            "shareID": bool(result.get("shareID")),
            "consumedCapacity": {k: Quantity.parse(v).nanos for k, v in result.get("consumedCapacity", {}).items()},
        }
        for result in raw.get("devices", {}).get("results", [])
    ]
    texts = [json.dumps(result, sort_keys=True) for result in results]
    nodes = json.dumps(raw.get("nodeSelector"), sort_keys=True)
    config = json.dumps(raw.get("devices", {}).get("config", []), sort_keys=True)
    return (texts, nodes, config) if exact else (sorted(texts), sorted(nodes), config)


def agrees(case: Mapping[str, Any]) -> bool:
    found = answer(case)
    if case["expectError"] or not case["expectResults"]:
        return isinstance(found, NodeReasons) or found == ()
    if isinstance(found, NodeReasons):
        return False
    exact = "exact" in case["expectChecks"]
    expected = [comparable(raw, exact=exact) for raw in case["expectResults"]]
    return sorted(expected) == sorted(comparable(allocation_to(one), exact=exact) for one in found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_choice_is_upstreams_except_where_a_difference_is_named(case: dict[str, Any]) -> None:
    assert agrees(case) == (case["name"] not in DIFFERENCES)


def test_the_number_of_agreeing_cases_is_known() -> None:
    assert len(CASES) - len(DIFFERENCES) == AGREEING


RANDOM_DIFFERENCES = {
    "random-300231": "an overdrawn counter keeps only those devices out that draw on it, not all of its pool",
}


@pytest.mark.parametrize("case", load("random.jsonl"), ids=lambda case: str(case["name"]))
def test_the_choice_on_random_questions_is_upstreams_except_where_a_difference_is_named(case: dict[str, Any]) -> None:
    assert agrees(case) == (case["name"] not in RANDOM_DIFFERENCES)


@pytest.mark.parametrize("case", load("mixed.jsonl"), ids=lambda case: str(case["name"]))
def test_the_choice_for_claims_over_several_drivers_is_upstreams(case: dict[str, Any]) -> None:
    assert agrees(case)


def test_claims_over_several_drivers_are_served_with_devices_of_several() -> None:
    served = [case["expectResults"] for case in load("mixed.jsonl") if case["expectResults"]]
    drivers = [{result["driver"] for result in one["devices"]["results"]} for results in served for one in results]
    assert sum(len(some) > 1 for some in drivers) > 20


@pytest.mark.parametrize("probe", load("probes.jsonl"), ids=lambda probe: str(probe["name"]))
def test_where_upstream_has_been_wrong_the_api_documentation_decides(probe: dict[str, Any]) -> None:
    assert isinstance(answer(probe), tuple) == probe["expectFeasible"], probe["why"]


NEWER_DIFFERENCES = {
    "admin-access-counters": "admin access takes nothing, as the API demands",
    "fraction-step-gate-off": "a step is what it says, as with the gate that is on by default in 1.38",
    "match-list-gate-off": "list attributes are values whatever the gates, as in CEL",
    "overdrawn-counter-set": "an overdrawn counter keeps only those devices out that draw on it, not all of its pool",
}


@pytest.mark.parametrize("case", load("probes-1.38.jsonl"), ids=lambda case: str(case["name"]))
def test_where_1_38_answers_otherwise_than_1_37_the_choice_is_that_of_1_38(case: dict[str, Any]) -> None:
    assert agrees(case) == (case["name"] not in NEWER_DIFFERENCES)
