"""Objects that determine the size of a gang, as values: PodGroups of three APIs, Jobs and StatefulSets. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controller.gangs.gang import Level, TaskMinimums
from controller.gangs.jobsets import PART, JobSets, can_join, size_of
from controller.gangs.terms import Source, SubGroupPolicy
from driver.errors import Fault
from driver.wire import Json
from driver.wire.fields import integer, text


@dataclass(frozen=True, slots=True)
class Group:
    """An object that stands for a gang.

    Attributes:
        key: ``namespace/name``.
        minimum: number of members that have to start together; None if the group is no gang.
        levels: None if the object has no topology.
        task_minimums: the same as ``minimum`` for single tasks.
        sub_groups: policies that form sub-groups.
        faults: fields that are not supported.
        claims: claims that its pods share, each as the names of the entry and of the ResourceClaim or
            ResourceClaimTemplate.
    """

    key: str
    uid: str
    minimum: int | None
    levels: tuple[Level, ...] | None = None
    task_minimums: TaskMinimums = ()
    sub_groups: tuple[SubGroupPolicy, ...] = ()
    faults: tuple[Fault, ...] = ()
    claims: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Workload:
    """A Job or StatefulSet, with the number of its pods.

    Attributes:
        size: number of pods that it keeps at a time.
        completions: number of indexes of a Job; 0 if its pods have none.
        set_uid: uid of the JobSet that owns the Job, or "".
        part: the replicated job of that JobSet, or "".
        index: place of the Job among those of its JobSet.
        joins: whether its pods can be in a gang: they have claims for devices, or the label for gangs.
        ordered: whether it makes a pod only when the one before it is ready.
        succeeded: number of pods of a Job that have succeeded, including deleted ones.
    """

    uid: str
    size: int
    completions: int = 0
    set_uid: str = ""
    part: str = ""
    index: int = 0
    joins: bool = False
    ordered: bool = False
    succeeded: int = 0


@dataclass(frozen=True, slots=True)
class JobsOfSet:
    """The Jobs of a JobSet that exist.

    Attributes:
        count: number of Jobs.
        members: number of pods that Jobs with ``joins`` keep at a time.
        first_rank: the rank of the first pod of each of these Jobs, by uid. Jobs are in the order of their index.
    """

    count: int
    members: int
    first_rank: Mapping[str, int]


class GroupObjects:
    """The groups and workloads that are known.

    Attributes:
        job_sets: the JobSets.
    """

    def __init__(self) -> None:
        self.job_sets = JobSets()
        self._groups: dict[tuple[str, str], Group] = {}
        """Groups by API version and key: an API server offers one object in several versions."""
        self._workloads: dict[str, Workload] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._sets: dict[str, dict[str, None]] = {}
        self._jobs_of_set: dict[str, JobsOfSet] = {}
        """Results for JobSets that have not changed since."""

    def put_group(self, version: str, group: Group) -> bool:
        """Add or replace a group that was read in ``version`` (group/version). Returns whether anything changes."""
        known = self._groups.get((version, group.key))
        self._groups[version, group.key] = group
        return known != group

    def remove_group(self, version: str, key: str) -> bool:
        """Remove a group. Returns whether it was known."""
        return self._groups.pop((version, key), None) is not None

    def group(self, versions: Iterable[str], key: str) -> Group | None:
        """The group in the first of the versions in which it is known."""
        return next((group for one in versions if (group := self._groups.get((one, key)))), None)

    def put_workload(self, kind: str, key: str, workload: Workload) -> Collection[str]:
        """Add or replace a workload. Returns uids of the owners whose pods are affected."""
        changed = self.remove_workload(kind, key) if self._workloads.get(workload.uid) != workload else ()
        self._uids[kind, key] = workload.uid
        known = self._workloads.get(workload.uid)
        self._workloads[workload.uid] = workload
        if workload.set_uid:
            self._sets.setdefault(workload.set_uid, {})[workload.uid] = None
            self._jobs_of_set.pop(workload.set_uid, None)
        return () if known == workload else {*changed, workload.uid, workload.set_uid} - {""}

    def remove_workload(self, kind: str, key: str) -> Collection[str]:
        """Remove a workload. Returns uids of the owners whose pods are affected."""
        workload = self._workloads.pop(self._uids.pop((kind, key), ""), None)
        if workload is None:
            return ()
        self._jobs_of_set.pop(workload.set_uid, None)
        if jobs := self._sets.get(workload.set_uid):
            jobs.pop(workload.uid, None)
            if not jobs:
                del self._sets[workload.set_uid]
        return {workload.uid, workload.set_uid} - {""}

    def workload(self, uid: str) -> Workload | None:
        """The Job or StatefulSet with the uid; None if it is not known."""
        return self._workloads.get(uid)

    def succeeded(self, run: str) -> int:
        """Number of pods of a Job, or of the Jobs of a JobSet, that have succeeded according to their status."""
        jobs = [job] if (job := self._workloads.get(run)) else self._jobs_of(run)
        return sum(one.succeeded for one in jobs)

    def succeeded_of_parts(self, set_uid: str) -> Mapping[str, int]:
        """The same for each part of a JobSet."""
        found = Counter[str]()
        for job in self._jobs_of(set_uid):
            found[job.part] += job.succeeded
        return found

    def jobs_of(self, set_uid: str) -> JobsOfSet:
        """The Jobs of a JobSet that exist."""
        found = self._jobs_of_set.get(set_uid)
        if found is None:
            jobs = self._jobs_of(set_uid)
            first_rank, members, ranks = dict[str, int](), 0, 0
            for job in sorted((job for job in jobs if job.joins), key=lambda job: (job.index, job.uid)):
                first_rank[job.uid] = ranks
                members += job.size
                ranks += max(job.size, job.completions)
            found = self._jobs_of_set[set_uid] = JobsOfSet(len(jobs), members, first_rank)
        return found

    def _jobs_of(self, set_uid: str) -> list[Workload]:
        return [self._workloads[uid] for uid in self._sets.get(set_uid, ())]


VERSIONS: Mapping[Source, tuple[str, ...]] = {
    Source.POD_GROUP: ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2"),
    Source.VOLCANO: ("scheduling.volcano.sh/v1beta1",),
    Source.COSCHEDULING: ("scheduling.x-k8s.io/v1alpha1",),
}
"""API versions of each source's groups, the best first."""


def job_index_of(labels: Json) -> int:
    """The index of a Job in its JobSet, from the labels of the Job or of its pods."""
    said = text(labels.get("jobset.sigs.k8s.io/job-global-index") or labels.get("jobset.sigs.k8s.io/job-index"))
    return int(said) if said.isdecimal() and len(said) < 10 else 0


def job_from(obj: Json, label: str) -> tuple[str, Workload]:
    """Key and value of a Job object. ``label`` is the key of the driver's label for gangs."""
    metadata, spec = obj["metadata"], obj["spec"]
    template, own = spec["template"], metadata.get("labels") or {}
    completions = integer(spec.get("completions"))
    return (
        f"{metadata['namespace']}/{metadata['name']}",
        Workload(
            uid=text(metadata["uid"]),
            size=size_of(spec),
            completions=completions if spec.get("completionMode") == "Indexed" else 0,
            set_uid=text(own.get("jobset.sigs.k8s.io/jobset-uid")),
            part=text(own.get(PART)),
            index=job_index_of(own),
            succeeded=integer((obj.get("status") or {}).get("succeeded")),
            joins=can_join(template, label),
        ),
    )


def stateful_set_from(obj: Json) -> tuple[str, Workload]:
    """Key and value of a StatefulSet object."""
    metadata, spec = obj["metadata"], obj["spec"]
    ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    key, replicas = f"{metadata['namespace']}/{metadata['name']}", spec.get("replicas")
    return key, Workload(text(metadata["uid"]), 1 if replicas is None else integer(replicas), ordered=ordered)
