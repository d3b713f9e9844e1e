"""What a ResourceQuota says about memory and cores of cards, and what is wrong with one that cannot be understood."""

from typing import Any

import pytest

from controller.quotas import Quota, quota_from, unreadable_quota
from driver.kube.api import Object
from driver.names import Names

NAMES = Names()
GIB = 2**30 * 10**9
NANO = 10**9


def resource_quota(hard: Any, **spec: Any) -> Object:
    return {"metadata": {"name": "gpus", "namespace": "team", "uid": "u"}, "spec": {"hard": hard, **spec}}


def quota(hard: Any, **spec: Any) -> Quota:
    return quota_from(resource_quota(hard, **spec), NAMES)


@pytest.mark.parametrize(
    ("hard", "limits"),
    [
        ({"lode.dev/memory": "320Gi", "lode.dev/cores": "400"}, {"memory": 320 * GIB, "cores": 400 * NANO}),
        ({"lode.dev/memory.H100": "80Gi", "pods": "10"}, {"memory.H100": 80 * GIB}),
        ({"lode.dev/cores": 0}, {"cores": 0}),
        ({"lode.dev/memory": "1e400"}, {"memory": 10**409}),
        ({"pods": "10", "requests.nvidia.com/gpu": "4", "gpu.lode.dev.deviceclass.resource.k8s.io/devices": "4"}, {}),
        ({}, {}),
        (None, {}),
    ],
)
def test_only_names_of_the_driver_are_limits(hard: Any, limits: dict[str, int]) -> None:
    found = quota(hard)
    assert (found.key, found.namespace, found.limits, found.faults) == ("team/gpus", "team", limits, ())
    assert found.counts == bool(limits)


def test_the_names_follow_from_the_drivers_name() -> None:
    found = quota_from(
        resource_quota({"gpu.example.com/cores": "100", "lode.dev/cores": "x"}), Names("gpu.example.com")
    )
    assert (found.limits, found.faults) == ({"cores": 100 * NANO}, ())


@pytest.mark.parametrize(
    ("hard", "spec", "fault"),
    [
        ({"lode.dev/memorry": "1Gi"}, {}, "spec.hard[lode.dev/memorry]: unknown; the names are memory; cores"),
        ({"lode.dev/memory.": "1Gi"}, {}, "spec.hard[lode.dev/memory.]: unknown"),
        ({"lode.dev/memory": "much"}, {}, "spec.hard[lode.dev/memory]: not a quantity: much; write a number"),
        ({"lode.dev/memory": ["1"]}, {}, "not a quantity: ['1']"),
        ({"lode.dev/memory": "1e99999999999"}, {}, "not a quantity"),
        ({"lode.dev/memory": "9" * 5000}, {}, "not a quantity"),
        ({"lode.dev/cores": "-1"}, {}, "spec.hard[lode.dev/cores]: must not be negative: -1"),
        ({"lode.dev/cores": "1"}, {"scopes": ["BestEffort"]}, "spec.scopes: not supported"),
        ({"lode.dev/cores": "1"}, {"scopeSelector": {"matchExpressions": [{}]}}, "spec.scopeSelector: not supported"),
        ({f"lode.dev/cores.t{number}": "1" for number in range(65)}, {}, "spec.hard: has 65 names of lode.dev"),
    ],
)
def test_what_cannot_be_understood_is_a_fault_with_its_field(
    hard: dict[str, Any], spec: dict[str, Any], fault: str
) -> None:
    found = quota(hard, **spec)
    assert found.counts
    told = [str(one) for one in found.faults]
    assert any(one.startswith(fault) or fault in one for one in told), told
    assert all(len(one) < 300 for one in told)


def test_all_faults_are_told_at_once() -> None:
    found = quota({"lode.dev/memory": "x", "lode.dev/cards": "1", "lode.dev/cores": "100"}, scopes=["Terminating"])
    assert len(found.faults) == 3
    assert found.limits == {"cores": 100 * NANO}


def test_scopes_are_nothing_to_a_quota_without_names_of_the_driver() -> None:
    assert not quota({"pods": "1"}, scopes=["BestEffort"]).counts


def test_a_quota_that_cannot_be_decoded_may_limit_anything() -> None:
    found = unreadable_quota({"metadata": {"name": "gpus", "namespace": "team"}}, "too deep")
    told = [str(fault) for fault in found.faults]
    assert (found.key, found.counts, told) == ("team/gpus", True, ["cannot be decoded: too deep"])
