"""The input of the benchmarks is deterministic, valid, and as the tables describe it."""

import json
from collections import Counter
from itertools import product
from typing import Any

import pytest

from benchmarks.allocation import hard_searches
from benchmarks.allocation.hardware import CARDS, CPU_DRIVER
from benchmarks.allocation.scenario import FORMS, BenchmarkScenario, node_name
from benchmarks.allocation.workloads import SHAPES, WORKLOADS, Workload
from driver.names import Names
from driver.wire import claim_from, class_from, slice_from
from kubeletplugin.publish.validation import faults as limit_faults
from simulation.invariants import Catalogue, Holding
from tests.hard_searches import HARD_SEARCHES

NODES = 10
SCENARIOS = [BenchmarkScenario(workload, NODES, in_use) for workload in WORKLOADS for in_use in workload.in_use]
DEVICES_PER_NODE = {"mig": 152, "vnpu": 168, "cards": 160, CPU_DRIVER: 2}
"""By workload, or by driver of others beside it."""


def read(scenario: BenchmarkScenario) -> dict[str, list[dict[str, Any]]]:
    """The objects by kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for chunk in scenario.cluster():
        for line in chunk.splitlines():
            raw = json.loads(line)
            found.setdefault(raw["kind"], []).append(raw)
    return found


def name(scenario: BenchmarkScenario) -> str:
    return scenario.name


def workload_name(workload: Workload) -> str:
    return workload.name


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name)
def test_a_scenario_is_deterministic(scenario: BenchmarkScenario) -> None:
    assert list(scenario.cluster()) == list(scenario.cluster())
    for form in FORMS:
        assert list(scenario.pods(form)) == list(scenario.pods(form))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name)
def test_the_stated_part_of_the_cards_is_in_use_and_none_twice(scenario: BenchmarkScenario) -> None:
    objects = read(scenario)
    catalogue = Catalogue(Names(scenario.workload.driver))
    for raw in objects["ResourceSlice"]:
        catalogue.learn(raw)
    claims = [claim_from(raw) for raw in objects.get("ResourceClaim", [])]
    results = [(claim.key, result) for claim in claims if claim.allocation for result in claim.allocation.results]
    assert not list(catalogue.conflicts(Holding(key, result) for key, result in results))
    index = Names(scenario.workload.driver).attribute("index")
    held = {(result.device.pool, catalogue.devices[result.device].attributes[index]) for _, result in results}
    assert len(held) == NODES * CARDS * int(scenario.in_use.rstrip("p")) // 100
    if scenario.in_use.endswith("p"):
        assert set(Counter(pool for pool, _ in held).values()) == {CARDS}


@pytest.mark.parametrize("workload", WORKLOADS, ids=workload_name)
def test_every_node_has_one_complete_pool_of_each_driver_within_the_limits_of_the_api(workload: Workload) -> None:
    objects = read(BenchmarkScenario(workload, NODES, "0"))
    parts = [slice_from(raw) for raw in objects["ResourceSlice"]]
    assert {raw["metadata"]["name"] for raw in objects["Node"]} == {part.scope.node_name for part in parts}
    for driver, number in product((workload.driver, *workload.besides), range(NODES)):
        pool = [part for part in parts if (part.driver, part.scope.node_name) == (driver, node_name(number))]
        assert {part.slice_count for part in pool} == {len(pool)}
        assert sum(len(part.devices) for part in pool) == DEVICES_PER_NODE.get(
            driver if driver in workload.besides else workload.name, CARDS
        )
        assert not limit_faults(pool)
    assert {class_from(raw).name for raw in objects["DeviceClass"]} >= {
        request["exactly"]["deviceClassName"] for request in workload.claim["devices"]["requests"]
    }


@pytest.mark.parametrize("workload", WORKLOADS, ids=workload_name)
def test_forms_repeat_one_claim_or_mix_many_and_churn_releases_claims(workload: Workload) -> None:
    scenario = BenchmarkScenario(workload, NODES, "0")
    pods = {form: [json.loads(line) for line in scenario.pods(form)] for form in FORMS}
    shapes = {form: {json.dumps(pod["claims"][0]["spec"]) for pod in found} for form, found in pods.items()}
    assert {form: len(found) for form, found in pods.items()} == workload.pods
    assert len(shapes["repeated"]) == len(shapes["churn"]) == 1
    assert len(shapes["mixed"]) == min(SHAPES, workload.pods["mixed"])
    assert all((pod["release"] >= 0) == (form == "churn") for form, found in pods.items() for pod in found)
    assert len({pod["claims"][0]["metadata"]["uid"] for pod in pods["mixed"]}) == workload.pods["mixed"]


@pytest.mark.parametrize("search", HARD_SEARCHES)
def test_a_hard_search_is_the_same_as_json(search: str) -> None:
    make, sizes = HARD_SEARCHES[search]
    one = make(sizes[0])
    objects = [json.loads(line) for line in hard_searches.cluster(one)]
    assert tuple(slice_from(raw) for raw in objects if raw["kind"] == "ResourceSlice") == one.slices
    assert tuple(class_from(raw) for raw in objects if raw["kind"] == "DeviceClass") == one.classes
    _, pod = [json.loads(line) for line in hard_searches.pods(one)]
    assert [claim_from(raw).spec for raw in pod["claims"]] == [claim.spec for claim in one.claims]
