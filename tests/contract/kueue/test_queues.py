"""Kueue counts our devices by the samples, and its gate and suspension come before our gate."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS
from tests.contract.conftest import eventually
from tests.contract.kueue.world import KueueCluster, kueue_cluster

pytestmark = [pytest.mark.kueue, pytest.mark.timeout(600)]

KUEUES_GATE = "kueue.x-k8s.io/admission"
OUR_GATE = "lode.dev/allocation"


@pytest.fixture(scope="module")
def cluster() -> Iterator[KueueCluster]:
    """A cluster with a node of eight H100."""
    with kueue_cluster(["node-a"], "h100x8") as cluster:
        yield cluster


def memory(amount: str) -> dict[str, Any]:
    return {"capacity": {"requests": {"memory": amount}}}


@dataclass(frozen=True)
class Charge:
    """What a claim counts."""

    device_class: str
    resource: str
    used: str
    expression: str = ""
    exactly: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    "charge",
    [
        pytest.param(Charge("gpu.lode.dev", "gpu-cards", "2", exactly={"count": 2}), id="cards by number"),
        pytest.param(
            Charge("mig.lode.dev", "mig-compute-slices", "3", 'device.attributes["lode.dev"].profile == "3g.40gb"'),
            id="partitions by a counter",
        ),
        pytest.param(
            Charge("gpu-share.lode.dev", "gpu-share-memory", "20Gi", exactly=memory("20Gi")), id="shares by capacity"
        ),
        pytest.param(
            Charge("gpu-share.lode.dev", "gpu-share-memory", "81559Mi"), id="a share without an amount is a whole card"
        ),
        pytest.param(
            Charge("gpu-share.lode.dev", "gpu-share-memory", "0", exactly=memory("80.1Gi")), id="more than a card has"
        ),
    ],
)
def test_a_claim_counts_as_the_sample_says(cluster: KueueCluster, charge: Charge, unique: str) -> None:
    cluster.add_template(unique, charge.device_class, charge.expression, **charge.exactly)
    cluster.add_job(unique, unique)
    try:
        eventually(lambda: cluster.condition(unique, "QuotaReserved"), 30)
        eventually(lambda: cluster.used(charge.resource) == charge.used, 30)
        assert cluster.is_suspended(unique) == (charge.used == "0")
        if charge.used != "0":
            eventually(lambda: cluster.runs(unique), 60)
    finally:
        cluster.remove_job(unique)
        eventually(lambda: cluster.used(charge.resource) == "0", 30)


def test_a_job_over_the_quota_stays_suspended_until_another_ends(cluster: KueueCluster, unique: str) -> None:
    first, second = f"{unique}-1", f"{unique}-2"
    cluster.add_template(unique, "gpu.lode.dev", count=1)
    cluster.add_job(first, unique, pods=2)
    eventually(lambda: cluster.runs(first), 60)
    cluster.add_job(second, unique)
    waiting = eventually(lambda: cluster.condition(second, "QuotaReserved"), 30)
    assert (waiting["status"], "gpu-cards" in waiting["message"]) == ("False", True)
    assert cluster.is_suspended(second)
    assert cluster.pods_of(second) == []
    cluster.remove_job(first)
    eventually(lambda: cluster.runs(second), 60)
    cluster.remove_job(second)


def test_nothing_is_allocated_for_a_pod_before_kueue_removes_its_gate(cluster: KueueCluster, unique: str) -> None:
    job, pod = f"{unique}-job", f"{unique}-pod"
    cluster.add_template(unique, "gpu.lode.dev", count=2)
    cluster.add_job(job, unique)
    eventually(lambda: cluster.runs(job), 60)
    cluster.add_pod(pod, unique)
    eventually(lambda: cluster.pod(pod)["status"].get("resourceClaimStatuses"), 30)
    assert {KUEUES_GATE, OUR_GATE} <= set(cluster.gates(pod))
    (status,) = cluster.pod(pod)["status"]["resourceClaimStatuses"]
    claim = status["resourceClaimName"]
    eventually(lambda: cluster.condition(pod, "QuotaReserved"), 30)
    assert "allocation" not in cluster.api.get(RESOURCE_CLAIMS, claim, "default").get("status", {})
    cluster.remove_job(job)
    eventually(lambda: cluster.pod(pod)["spec"].get("nodeName"), 60)
    assert cluster.gates(pod) == []
    assert cluster.api.get(RESOURCE_CLAIMS, claim, "default")["status"]["allocation"]["devices"]["results"]
    cluster.api.delete(PODS, pod, "default", grace_period_seconds=0)


def test_a_template_without_a_number_of_devices_is_not_admitted_and_the_workload_says_why(
    cluster: KueueCluster, unique: str
) -> None:
    cluster.add_template(unique, "gpu.lode.dev", allocationMode="All")
    cluster.add_job(unique, unique)
    found = eventually(lambda: cluster.condition(unique, "QuotaReserved"), 30)
    assert (found["status"], "AllocationMode" in found["message"]) == ("False", True)
    assert cluster.is_suspended(unique)
    cluster.remove_job(unique)
