"""The controller of JobSets: the Jobs of a replicated job are made when those that it depends on are ready or complete.

It does what the controller of kubernetes-sigs/jobset does to API objects. Each Job that fails starts the whole JobSet
anew, as often as it fails. Jobs of a JobSet that is gone are deleted here, not by the garbage collector.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from driver.clock import Clock
from driver.kube.api import JOB_SETS, JOBS, PODS, Api, Object
from driver.kube.objects import controller_of, is_deleting, is_terminal, name_key
from simulation.kubernetes.component import FakeComponent, WorkKey, delete_by_uid, mutable_copy

PREFIX: Final = "jobset.sigs.k8s.io"
_ATTEMPT: Final = f"{PREFIX}/restart-attempt"
_PART: Final = f"{PREFIX}/replicatedjob-name"
_NAME: Final = f"{PREFIX}/jobset-name"


class JobSetController(FakeComponent):
    """Makes the Jobs of each JobSet, in the order that its ``startupPolicy`` and ``dependsOn`` ask for."""

    def __init__(self, api: Api, clock: Clock):
        super().__init__(api, clock)
        self._sets = self.watch(JOB_SETS, lambda found: self.queue.add(("set", *name_key(found))))
        self._jobs = self.watch(JOBS, self._part_changed)
        self._pods = self.watch(PODS, self._part_changed)

    def _part_changed(self, obj: Object) -> None:
        if name := _label(obj, _NAME):
            self.queue.add(("set", obj["metadata"]["namespace"], name))

    def reconcile(self, key: WorkKey) -> None:
        """Create the Jobs whose turn it is, and delete those of an earlier attempt or of a JobSet that is gone."""
        namespace, name = key[1:]
        found = self._sets.get(namespace, name)
        there = None if found is None or is_deleting(found) else found
        uid = there["metadata"]["uid"] if there else ""
        attempt = str(_restarts(there)) if there else ""
        jobs = [job for job in self._jobs.all() if name_key(job)[0] == namespace and _label(job, _NAME) == name]
        current = [job for job in jobs if _owner(job) == uid and _label(job, _ATTEMPT) == attempt]
        for job in jobs:
            if job not in current:
                delete_by_uid(self.api, JOBS, job)
        if there is None:
            return
        if any(map(_failed, current)):
            restarted = {"status": {"restarts": _restarts(there) + 1}}
            self.api.patch(JOB_SETS, name, restarted, namespace=namespace, subresource="status")
        elif len(current) == len(jobs) and not self._leftovers(namespace, name, uid, attempt):
            for job in self._wanted(there, current):
                self.api.create(JOBS, job, namespace)

    def _leftovers(self, namespace: str, name: str, uid: str, attempt: str) -> bool:
        """Whether pods of an earlier attempt exist: Jobs are deleted in the foreground, and made again after that."""
        pods = (pod for pod in self._pods.all() if name_key(pod)[0] == namespace and _label(pod, _NAME) == name)
        return any((_label(pod, f"{PREFIX}/jobset-uid"), _label(pod, _ATTEMPT)) != (uid, attempt) for pod in pods)

    def _wanted(self, job_set: Object, jobs: Sequence[Object]) -> Iterator[Object]:
        """The Jobs that do not exist, and whose turn it is."""
        spec = job_set["spec"]
        by_name = {part["name"]: part for part in spec["replicatedJobs"]}
        in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
        names = {job["metadata"]["name"] for job in jobs}
        for part in by_name.values():
            of_part = {one: [job for job in jobs if _label(job, _PART) == one] for one in by_name}
            if not all(
                self._has_reached(by_name[one["name"]], of_part[one["name"]], one.get("status", "Ready"))
                for one in part.get("dependsOn") or ()
            ):
                continue
            made = [_job(job_set, part, index) for index in range(part.get("replicas", 1))]
            yield from (job for job in made if job["metadata"]["name"] not in names)
            if in_order and not self._has_reached(part, of_part[part["name"]], "Ready"):
                return

    def _has_reached(self, part: Object, jobs: Sequence[Object], status: str) -> bool:
        """Whether all Jobs of a part are ready, or have ended, or all are complete if that is the status."""
        spec = part["template"]["spec"]
        goals = {"Complete": spec["completions"], "Ready": min(spec["parallelism"], spec["completions"])}
        done: list[int] = [(job.get("status") or {}).get("succeeded") or 0 for job in jobs]
        if status == "Ready":
            done = [ended + self._ready_pods(job) for ended, job in zip(done, jobs, strict=True)]
        return sum(bool(count >= goals[status]) for count in done) == int(part.get("replicas", 1))

    def _ready_pods(self, job: Object) -> int:
        """What a Job says in ``status.ready``."""
        pods = (pod for pod in self._pods.all() if _owner(pod) == job["metadata"]["uid"])
        return sum(not is_terminal(pod) and not is_deleting(pod) and _is_ready(pod) for pod in pods)


def _job(job_set: Object, part: Object, index: int) -> Object:
    metadata, parts = job_set["metadata"], job_set["spec"]["replicatedJobs"]
    before = [one.get("replicas", 1) for one in parts[: parts.index(part)]]
    labels = {
        _NAME: metadata["name"],
        f"{PREFIX}/jobset-uid": metadata["uid"],
        _PART: part["name"],
        f"{PREFIX}/replicatedjob-replicas": str(part.get("replicas", 1)),
        f"{PREFIX}/job-index": str(index),
        f"{PREFIX}/job-global-index": str(sum(before) + index),
        f"{PREFIX}/global-replicas": str(sum(one.get("replicas", 1) for one in parts)),
        _ATTEMPT: str(_restarts(job_set)),
    }
    spec = mutable_copy(part["template"]["spec"])
    pod = spec["template"].setdefault("metadata", {})
    pod["labels"] = {**(pod.get("labels") or {}), **labels}
    owner = {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    name = f"{metadata['name']}-{part['name']}-{index}"
    made = {"name": name, "namespace": metadata["namespace"], "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": made, "spec": {**spec, **_INDEXED}}


_INDEXED: Final = {"completionMode": "Indexed"}
"""What admission of JobSets sets."""


def _label(obj: Object, key: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(key, ""))


def _owner(obj: Object) -> str:
    owners = (controller_of(obj, kind) for kind in ("JobSet", "Job"))
    return next((str(owner["uid"]) for owner in owners if owner), "")


def _restarts(job_set: Object) -> int:
    return int((job_set.get("status") or {}).get("restarts") or 0)


def _failed(job: Object) -> bool:
    return any(_is_true(one, "Failed") for one in (job.get("status") or {}).get("conditions") or ())


def _is_ready(pod: Object) -> bool:
    return any(_is_true(one, "Ready") for one in (pod.get("status") or {}).get("conditions") or ())


def _is_true(condition: Object, kind: str) -> bool:
    return (condition["type"], condition["status"]) == (kind, "True")
