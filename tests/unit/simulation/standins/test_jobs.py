"""The stand-ins for the Job controller and the garbage collector."""

import pytest

from driver.kube.api import PODS
from memoryapi import JOBS
from simulation.standins.claims import ResourceClaimController
from simulation.standins.jobs import GarbageCollector, JobController
from tests.unit.simulation.standins.rig import Rig


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.parts = [
        JobController(rig.as_user("job-controller"), rig.clock),
        GarbageCollector(rig.as_user("garbage-collector"), rig.clock),
        ResourceClaimController(rig.as_user("resource-claim-controller"), rig.clock),
    ]
    rig.template()
    entries = [{"name": "device", "resourceClaimTemplateName": "t"}]
    spec = {"containers": [{"name": "c", "image": "i:1"}], "resourceClaims": entries, "restartPolicy": "Never"}
    job = {"completions": 4, "parallelism": 4, "template": {"spec": spec}}
    rig.api.create(JOBS, {"metadata": {"name": "j", "namespace": "default"}, "spec": job})
    return rig


def test_a_job_of_four_has_four_gated_pods_with_a_claim_each(rig: Rig) -> None:
    rig.settle()
    pods = rig.api.list(PODS).items
    assert len(pods) == 4
    assert all(pod["spec"]["schedulingGates"] for pod in pods)
    assert len(rig.claims()) == 4


def test_a_job_goes_on_until_all_have_succeeded(rig: Rig) -> None:
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


def test_what_belongs_to_a_deleted_job_goes_with_it(rig: Rig) -> None:
    rig.settle()
    rig.api.delete(JOBS, "j", "default")
    rig.settle()
    assert rig.api.list(PODS).items == []
    assert rig.claims() == []
