"""The fake controller of JobSets makes Jobs in order, anew after a failure, and deletes those of a set that is gone."""

from typing import Any

from driver.kube.api import JOB_SETS, JOBS, PODS, Object
from memoryapi import MemoryApi
from simulation.kubernetes.garbage_collector import GarbageCollector
from simulation.kubernetes.job_controller import INDEX, JobController
from tests.simulation.jobset_controller import PREFIX, JobSetController
from tests.unit.simulation.kubernetes.fake_kubernetes import FakeKubernetes

IN_ORDER = {"startupPolicyOrder": "InOrder"}


class FakeKubernetesWithJobSets(FakeKubernetes):
    """The JobSet ``train``: a leader of one pod, and two Jobs of two workers."""

    def __init__(self, *, status: str = "", **spec: Any):
        super().__init__()
        self.api = MemoryApi(self.clock, custom=(JOB_SETS,))
        self.components = [
            JobSetController(self.as_user("jobset-controller"), self.clock),
            JobController(self.as_user("job-controller"), self.clock),
            GarbageCollector(self.as_user("garbage-collector"), self.clock),
        ]
        workers = _part("workers", 2, 2)
        if status:
            workers["dependsOn"] = [{"name": "leader", "status": status}]
        spec = {"replicatedJobs": [_part("leader", 1, 1), workers], **spec}
        self.api.create(JOB_SETS, {"metadata": {"name": "train", "namespace": "default"}, "spec": spec})
        self.settle()

    def pods(self, part: str = "") -> list[Object]:
        pods = self.api.list(PODS).items
        return [pod for pod in pods if part in ("", pod["metadata"]["labels"][f"{PREFIX}/replicatedjob-name"])]

    def put(self, pod: Object, phase: str) -> None:
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        status = {"status": {"phase": phase, "conditions": [ready]}}
        self.api.patch(PODS, pod["metadata"]["name"], status, namespace="default", subresource="status")
        self.advance(2)

    def fail(self, job: str) -> None:
        status = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
        self.api.patch(JOBS, job, status, namespace="default", subresource="status")
        self.advance(5)


def _part(name: str, jobs: int, pods: int) -> Object:
    template = {"spec": {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"name": name, "replicas": jobs, "template": {"spec": spec}}


def test_without_an_order_all_jobs_are_made_at_once_with_the_labels_of_a_jobset() -> None:
    rig = FakeKubernetesWithJobSets()
    assert len(rig.pods("leader")) == 1
    jobs = sorted(
        tuple(pod["metadata"]["labels"][key] for key in (f"{PREFIX}/job-index", f"{PREFIX}/job-global-index", INDEX))
        for pod in rig.pods("workers")
    )
    assert jobs == [("0", "1", "0"), ("0", "1", "1"), ("1", "2", "0"), ("1", "2", "1")]
    assert {pod["metadata"]["labels"][f"{PREFIX}/global-replicas"] for pod in rig.pods()} == {"3"}


def test_in_order_workers_come_when_the_leader_is_ready() -> None:
    rig = FakeKubernetesWithJobSets(startupPolicy=IN_ORDER)
    assert not rig.pods("workers")
    rig.put(rig.pods("leader")[0], "Running")
    assert len(rig.pods("workers")) == 4


def test_a_part_may_wait_until_another_is_ready_or_complete() -> None:
    for status, phases in (("Ready", ("Running",)), ("Complete", ("Running", "Succeeded"))):
        rig = FakeKubernetesWithJobSets(status=status)
        for phase in phases:
            assert not rig.pods("workers")
            rig.put(rig.pods("leader")[0], phase)
        assert len(rig.pods("workers")) == 4


def test_a_failed_job_starts_the_whole_set_anew_in_its_order() -> None:
    rig = FakeKubernetesWithJobSets(startupPolicy=IN_ORDER)
    rig.put(rig.pods("leader")[0], "Running")
    before = {pod["metadata"]["uid"] for pod in rig.pods()}
    rig.fail("train-workers-1")
    assert [pod["metadata"]["uid"] in before for pod in rig.pods()] == [False], "the workers come later again"
    assert rig.api.get(JOB_SETS, "train", "default")["status"]["restarts"] == 1
    rig.put(rig.pods("leader")[0], "Running")
    assert len(rig.pods("workers")) == 4


def test_jobs_and_pods_go_with_their_jobset() -> None:
    rig = FakeKubernetesWithJobSets()
    rig.api.delete(JOB_SETS, "train", "default")
    rig.advance(5)
    assert not rig.pods()
    assert not rig.api.list(JOBS).items
