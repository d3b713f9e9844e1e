"""The fake Job controller keeps as many pods running as a Job asks for."""

import pytest

from driver.kube.api import PODS
from memoryapi import JOBS
from simulation.kubernetes.job_controller import INDEX
from tests.unit.simulation.kubernetes.fake_kubernetes import FakeKubernetes, kubernetes_with_a_job


@pytest.fixture
def rig() -> FakeKubernetes:
    return kubernetes_with_a_job()


def test_a_job_of_four_has_four_gated_pods_with_a_claim_each(rig: FakeKubernetes) -> None:
    rig.settle()
    pods = rig.api.list(PODS).items
    assert len(pods) == 4
    assert all(pod["spec"]["schedulingGates"] for pod in pods)
    assert len(rig.claims()) == 4


def test_a_job_goes_on_until_all_have_succeeded(rig: FakeKubernetes) -> None:
    rig.settle()
    done = {"status": {"phase": "Succeeded"}}
    lost, *others = [pod["metadata"]["name"] for pod in rig.api.list(PODS).items]
    rig.api.delete(PODS, lost, "default")
    for name in others:
        rig.api.patch(PODS, name, done, namespace="default", subresource="status")
    rig.settle()
    pods = rig.api.list(PODS).items
    assert len(pods) == 4
    (last,) = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Pending"]
    rig.api.patch(PODS, last, done, namespace="default", subresource="status")
    rig.settle()
    assert rig.api.get(JOBS, "j", "default")["status"]["succeeded"] == 4
    assert len(rig.api.list(PODS).items) == 4


def test_a_lost_pod_of_an_indexed_job_is_replaced_by_one_of_its_index() -> None:
    rig = kubernetes_with_a_job("Indexed")
    rig.settle()
    lost = next(pod for pod in rig.api.list(PODS).items if pod["metadata"]["labels"][INDEX] == "1")
    rig.api.delete(PODS, lost["metadata"]["name"], "default")
    rig.settle()
    assert sorted(pod["metadata"]["labels"][INDEX] for pod in rig.api.list(PODS).items) == ["0", "1", "2", "3"]
