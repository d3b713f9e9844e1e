"""The Job controller: as many pods at once as parallelism and completions ask for."""

from itertools import count

from driver.clock import Clock
from driver.kube.api import PODS, Api, Object
from driver.kube.objects import controller_of, is_deleting, is_terminal, name_key, pod_phase
from memoryapi import JOBS
from simulation.kubernetes.component import FakeComponent, WorkKey, mutable_copy

INDEX = "batch.kubernetes.io/job-completion-index"
"""Label with the index of a pod of an Indexed Job."""


class JobController(FakeComponent):
    """Keeps ``parallelism`` pods of a Job running until ``completions`` have succeeded."""

    def __init__(self, api: Api, clock: Clock):
        super().__init__(api, clock)
        self._expected: dict[tuple[str, str], set[str]] = {}
        self._jobs = self.watch(JOBS, lambda job: self.queue.add(("job", *name_key(job))))
        self._pods = self.watch(PODS, self._pod_changed)

    def _pod_changed(self, pod: Object) -> None:
        if owner := controller_of(pod, "Job"):
            key = (pod["metadata"]["namespace"], owner["name"])
            self._expected.get(key, set()).discard(pod["metadata"]["uid"])
            self.queue.add(("job", *key))

    def reconcile(self, key: WorkKey) -> None:
        """Create the missing pods of a Job and update its status."""
        job = self._jobs.get(key[1], key[2])
        expected = self._expected.setdefault((key[1], key[2]), set())
        if job is None or is_deleting(job) or expected:
            return
        uid, spec = job["metadata"]["uid"], job["spec"]
        pods = [p for p in self._pods.all() if (o := controller_of(p, "Job")) and o["uid"] == uid]
        succeeded = sum(pod_phase(pod) == "Succeeded" for pod in pods)
        active = sum(not is_terminal(pod) and not is_deleting(pod) for pod in pods)
        status = {"active": active, "succeeded": max(succeeded, (job.get("status") or {}).get("succeeded") or 0)}
        if status != {"active": -1, "succeeded": 0} | (job.get("status") or {}):
            self.api.patch(JOBS, key[2], {"status": status}, namespace=key[1], subresource="status")
        completions = spec.get("completions", 1)
        missing = min(spec.get("parallelism", 1), completions - status["succeeded"]) - active
        taken = {_index_of(pod) for pod in pods if pod_phase(pod) != "Failed" and not is_deleting(pod)}
        free = (index for index in count() if str(index) not in taken)
        for _ in range(missing):
            made = _pod_for(job)
            if spec.get("completionMode") == "Indexed":
                made["metadata"]["labels"][INDEX] = str(next(free))
            expected.add(self.api.create(PODS, made, key[1])["metadata"]["uid"])


def _index_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(INDEX, ""))


def _pod_for(job: Object) -> Object:
    name, template = job["metadata"]["name"], mutable_copy(job["spec"]["template"])
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": job["metadata"]["namespace"],
            "labels": {**(metadata.get("labels") or {}), "batch.kubernetes.io/job-name": name},
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [
                {
                    "apiVersion": JOBS.api_version,
                    "kind": "Job",
                    "name": name,
                    "uid": job["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": template["spec"],
    }
