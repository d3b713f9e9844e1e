"""Kueue asks Lode whether the pods of a job would get their devices, and spends no quota on those that would not."""

from collections.abc import Iterator
from typing import Any

import pytest

from driver.kube.api import KUEUE_ADMISSION_CHECKS, KUEUE_WORKLOADS, PODS, Forbidden
from driver.kube.client import KubeClient
from tests.contract.conftest import eventually
from tests.contract.kueue.world import CLUSTER_QUEUES, QUEUE, SAMPLES, KueueCluster, kueue_cluster

pytestmark = [pytest.mark.kueue, pytest.mark.timeout(600)]

CHECK = "fits-now"
CONTROLLER = "system:serviceaccount:lode-system:lode-controller"
TIME = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
BAD_CONFIG = {
    "opaque": {
        "driver": "lode.dev",
        "parameters": {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "policy": "best"},
    }
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KueueCluster]:
    """A cluster with a node of two cards, whose queue asks us."""
    with kueue_cluster(["node-a"], "t4x2", {"kueue": {"enabled": True}}) as cluster:
        cluster.plane.kubectl("apply", "-f", SAMPLES / "admission-check.yaml")
        strategy = {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]}}}
        cluster.api.patch(CLUSTER_QUEUES, QUEUE, strategy)
        cluster.add_template("card", "gpu.lode.dev")
        eventually(lambda: active(cluster.api.get(CLUSTER_QUEUES, QUEUE)), 60)
        yield cluster


def active(obj: Any) -> bool:
    return any(
        (one["type"], one["status"]) == ("Active", "True") for one in obj.get("status", {}).get("conditions", ())
    )


def answer(cluster: KueueCluster, job: str) -> Any:
    """The entry of our check in the Workload of a job; empty if it has none."""
    checks = cluster.workload(job).get("status", {}).get("admissionChecks") or ()
    return next((one for one in checks if one["name"] == CHECK), {})


def said(cluster: KueueCluster, job: str) -> str:
    """What we have said about a job, also in a condition or in an earlier answer."""
    status = cluster.workload(job).get("status", {})
    return " ".join(one["message"] for one in (*status.get("conditions", ()), *status.get("admissionChecks", ())))


def test_the_check_of_the_sample_is_active(cluster: KueueCluster) -> None:
    assert active(cluster.api.get(KUEUE_ADMISSION_CHECKS, CHECK))


def test_a_job_whose_pods_fit_is_admitted_and_runs(cluster: KueueCluster, unique: str) -> None:
    cluster.add_job(unique, "card", pods=2)
    eventually(lambda: cluster.runs(unique), 60)
    assert answer(cluster, unique)["state"] == "Ready"
    cluster.remove_job(unique)
    eventually(lambda: cluster.used("gpu-cards") == "0", 30)


def test_a_pod_of_the_queue_is_asked_about_as_well(cluster: KueueCluster, unique: str) -> None:
    cluster.add_pod(unique, "card")
    eventually(lambda: cluster.pod(unique)["spec"].get("nodeName"), 60)
    assert answer(cluster, unique)["state"] == "Ready"
    cluster.api.delete(PODS, unique, "default", grace_period_seconds=0)
    eventually(lambda: cluster.used("gpu-cards") == "0", 30)


def test_a_job_whose_pods_do_not_fit_keeps_no_quota_from_others_and_runs_when_they_do(
    cluster: KueueCluster, unique: str
) -> None:
    outside, large, small = f"{unique}-pod", f"{unique}-large", f"{unique}-small"
    cluster.add_pod(outside, "card", queue="")
    eventually(lambda: cluster.pod(outside)["spec"].get("nodeName"), 60)
    cluster.add_job(large, "card", pods=2)
    eventually(lambda: "1 of 2 pods fit now" in said(cluster, large), 60)
    assert "1 of 2 such devices are in use, by" in said(cluster, large)
    eventually(lambda: cluster.used("gpu-cards") == "0", 60)
    cluster.add_job(small, "card")
    eventually(lambda: cluster.runs(small), 60)
    assert cluster.is_suspended(large)
    cluster.remove_job(small)
    cluster.api.delete(PODS, outside, "default", grace_period_seconds=0)
    eventually(lambda: cluster.runs(large), 120)
    cluster.remove_job(large)
    eventually(lambda: cluster.used("gpu-cards") == "0", 30)


def test_a_job_that_cannot_be_understood_is_told_so(cluster: KueueCluster, unique: str) -> None:
    cluster.add_template(unique, "gpu.lode.dev", config=[BAD_CONFIG])
    cluster.add_job(unique, unique)
    eventually(lambda: f"ResourceClaimTemplate default/{unique}" in said(cluster, unique), 60)
    assert cluster.is_suspended(unique)
    cluster.remove_job(unique)


def test_the_controller_may_answer_its_own_checks_and_nothing_else(cluster: KueueCluster, unique: str) -> None:
    """Not even with its token can a job be admitted."""
    other = {"metadata": {"name": unique}, "spec": {"controllerName": "example.com/other"}}
    cluster.api.create(KUEUE_ADMISSION_CHECKS, other)
    cluster.add_template(unique, "gpu.lode.dev", count=3)
    cluster.add_job(unique, unique)
    eventually(lambda: said(cluster, unique), 60)
    name, own = cluster.workload(unique)["metadata"]["name"], answer(cluster, unique)
    controller = KubeClient.from_environment(str(cluster.plane.kubeconfig(CONTROLLER)))
    condition = {"type": "Admitted", "status": "True", "reason": "Said", "message": "", **TIME}
    foreign = {"name": unique, "state": "Ready", "message": "", **TIME}
    for status in ({"conditions": [condition]}, {"admissionChecks": [own, foreign]}, {"requeueState": {"count": 9}}):
        with pytest.raises(Forbidden, match="lode-controller may answer AdmissionChecks"):
            controller.patch(KUEUE_WORKLOADS, name, {"status": status}, namespace="default", subresource="status")
    with pytest.raises(Forbidden, match="lode-controller may write the status of AdmissionChecks"):
        controller.patch(KUEUE_ADMISSION_CHECKS, unique, {"status": {"conditions": [condition]}}, subresource="status")
    controller.close()
    cluster.remove_job(unique)
    eventually(lambda: cluster.used("gpu-cards") == "0", 30)
