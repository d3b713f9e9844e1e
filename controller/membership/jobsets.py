"""JobSets as values: the number and order of their pods, and the pods that are still to come. Pure.

A JobSet may make the Jobs of a replicated job when others are ready (``dependsOn``, or ``startupPolicy`` with
``InOrder``). Then some pods do not exist yet when the first ones must start. Their requests are read from the spec.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from controller.placement import Needs, needs_of
from driver.adoption import SOURCES
from driver.errors import Fault, InvalidInput
from driver.wire import Json
from driver.wire.fields import integer, text

PART: Final = "jobset.sigs.k8s.io/replicatedjob-name"
"""Label of Jobs and pods: the name of their replicated job."""
INDEX: Final = "jobset.sigs.k8s.io/job-index"
"""Label of Jobs and pods: the index of the Job in its replicated job."""
MOST_IN_ORDER: Final = 256
"""Most replicated jobs of a JobSet with an order. Each member that comes or goes costs a look at all of them."""


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """An entry of ``spec.resourceClaims``: a claim of the namespace, or the template of one."""

    entry: str
    claim: str
    template: str


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """The requests of pods that are made from a template."""

    needs: Needs
    claims: tuple[ClaimUse, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A replicated job.

    Attributes:
        jobs: number of Jobs that it makes.
        size: number of pods that each Job keeps at a time.
        goal: number of pods of each Job that have to succeed; at least ``size``. Each Job takes as many ranks.
        joins: whether its pods can be in a gang: they have claims for devices, or the label for gangs.
        first_rank: rank of the first pod of its first Job.
        after_ready: parts that have to be ready before it is made.
        after_end: parts that have to be complete before it is made.
        template: the requests of its pods; None in a JobSet that makes all Jobs at once.
    """

    name: str
    jobs: int
    size: int
    goal: int
    joins: bool
    first_rank: int = 0
    after_ready: tuple[str, ...] = ()
    after_end: tuple[str, ...] = ()
    template: PodTemplate | None = None

    @property
    def members(self) -> int:
        """Number of members that it makes."""
        return self.jobs * self.size if self.joins else 0

    def ranks(self) -> Iterator[tuple[int, int, int]]:
        """The rank of each member, the index of its Job, and its own index in the Job."""
        for job in range(self.jobs):
            for index in range(self.size):
                yield self.first_rank + job * self.goal + index, job, index


@dataclass(frozen=True, slots=True)
class JobSet:
    """A JobSet.

    Attributes:
        key: ``namespace/name``.
        parts: parts by name, in the order of the spec and of their ranks.
        members: number of members of its gang.
        is_in_order: whether some Jobs are made only when others are ready or complete.
    """

    key: str
    uid: str
    parts: Mapping[str, Part]
    members: int
    is_in_order: bool

    @property
    def namespace(self) -> str:
        """Of the object."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """Of the object."""
        return self.key.partition("/")[2]

    def first_rank(self, part: str, job: int) -> int:
        """The rank of the first pod of a Job of the part; 0 if there is no such part."""
        of_job = self.parts.get(part)
        return of_job.first_rank + job * of_job.goal if of_job is not None else 0


@dataclass(frozen=True, slots=True)
class LaterPart:
    """A part with members that do not exist yet.

    Attributes:
        count: number of these members.
    """

    part: Part
    count: int


@dataclass(frozen=True, slots=True)
class Coming:
    """The members that are still to come, if a gang is made one part after another.

    Attributes:
        missing: number of members that must exist before the gang starts, and do not: members of parts that wait for
            no other part, and of parts that have begun.
        later: parts that are made when members run. Parts that are made only when members have ended are left out
            until then: they can use the devices of these.
    """

    missing: int
    later: tuple[LaterPart, ...]

    @property
    def count(self) -> int:
        """Number of members that are made later."""
        return sum(part.count for part in self.later)


def coming(job_set: JobSet, there: Mapping[str, int], ended: Mapping[str, int]) -> Coming:
    """The members of the JobSet that are still to come.

    Args:
        there: number of existing members of each part.
        ended: number of members of each part that have succeeded.
    """
    missing, later = 0, list[LaterPart]()
    waiting, blocked = set[str](), set[str]()
    """The parts that wait for members to be ready, and those that wait for members to end."""
    parts = job_set.parts
    # A part depends on earlier ones only (``job_set_from``), so one pass knows everything about those it waits for.
    for part in parts.values():
        before = (*part.after_ready, *part.after_end)
        unfinished = [
            name
            for name in part.after_end
            if parts[name].joins and ended.get(name, 0) < parts[name].jobs * parts[name].goal
        ]
        # A part whose pods are in no gang runs without us: who waits for it alone has to exist before the gang starts.
        if any(parts[name].joins or name in waiting for name in before):
            waiting.add(part.name)
        if unfinished or any(name in blocked for name in before):
            blocked.add(part.name)
        exist, done = there.get(part.name, 0), ended.get(part.name, 0)
        left = max(0, part.members - exist - done)
        if part.name not in waiting or exist or done:
            missing += left
        if left and part.name in waiting and part.name not in blocked:
            later.append(LaterPart(part, left))
    return Coming(missing, tuple(later))


class JobSets:
    """The JobSets that are known."""

    def __init__(self) -> None:
        self._sets: dict[str, JobSet] = {}
        self._uids: dict[str, str] = {}
        self._in_order: dict[str, dict[str, None]] = {}
        """Uids of JobSets with an order, by namespace."""

    def add(self, job_set: JobSet) -> Collection[str]:
        """Add or replace a JobSet. Returns uids of the owners whose pods are affected."""
        if self._sets.get(job_set.uid) == job_set:
            return ()
        changed = self.remove(job_set.key)
        self._sets[job_set.uid], self._uids[job_set.key] = job_set, job_set.uid
        if job_set.is_in_order:
            self._in_order.setdefault(job_set.namespace, {})[job_set.uid] = None
        return {*changed, job_set.uid}

    def remove(self, key: str) -> Collection[str]:
        """Remove a JobSet. Returns uids of the owners whose pods are affected."""
        job_set = self._sets.pop(self._uids.pop(key, ""), None)
        if job_set is None:
            return ()
        if job_set.is_in_order:
            others = self._in_order[job_set.namespace]
            del others[job_set.uid]
            if not others:
                del self._in_order[job_set.namespace]
        return (job_set.uid,)

    def find(self, namespace: str, uid: str) -> JobSet | None:
        """The JobSet with the uid in the namespace; None if it is not known."""
        job_set = self._sets.get(uid)
        # The uid is from a label, which anybody may write: a pod does not join the gang of another namespace.
        return job_set if job_set is not None and job_set.namespace == namespace else None

    def in_order(self, namespace: str) -> Collection[str]:
        """Uids of the JobSets in the namespace that make their Jobs one after another."""
        return tuple(self._in_order.get(namespace, ()))


def job_set_from(obj: Json, label: str) -> JobSet:
    """The value of a JobSet object. ``label`` is the key of the driver's label for gangs.

    Raises:
        InvalidInput: it has an order and too many parts.
    """
    metadata, spec = obj["metadata"], obj["spec"]
    one_by_one = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    parts, ranks, last = dict[str, Part](), 0, ""
    raws = {text(raw["name"]): raw for raw in spec.get("replicatedJobs") or ()}
    for name, raw in raws.items():
        part = replace(_part(raw, label), first_rank=ranks)
        ranks += part.jobs * part.goal if part.joins else 0
        # A part can depend only on those that stand before it.
        needed = [other for other in raw.get("dependsOn") or () if text(other["name"]) in parts]
        ready = [other["name"] for other in needed if other.get("status") != "Complete"]
        ready += [last] if one_by_one and last else []
        ended = tuple(other["name"] for other in needed if other.get("status") == "Complete")
        parts[name], last = replace(part, after_ready=tuple(ready), after_end=ended), name
    namespace, in_order = metadata["namespace"], any(part.after_ready or part.after_end for part in parts.values())
    if in_order and len(parts) > MOST_IN_ORDER:
        message = f"more than {MOST_IN_ORDER} that are made one after another are not supported; put pods into fewer"
        raise InvalidInput(f"JobSet {namespace}/{metadata['name']}", [Fault("spec.replicatedJobs", message)])
    if in_order:
        templates = {name: raw["template"]["spec"]["template"] for name, raw in raws.items()}
        parts = {
            name: replace(part, template=pod_template_from(templates[name], namespace)) for name, part in parts.items()
        }
    members = sum(part.members for part in parts.values())
    return JobSet(f"{namespace}/{metadata['name']}", text(metadata["uid"]), parts, members, in_order)


def size_of(job: Json) -> int:
    """Number of pods that a Job with this spec keeps at a time."""
    parallelism, completions = job.get("parallelism"), job.get("completions")
    most = 1 if parallelism is None else integer(parallelism)
    return most if completions is None else min(most, integer(completions))


def can_join(template: Json, label: str) -> bool:
    """Whether pods of this template can be in a gang: they have claims for devices, or the label for gangs."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    return bool(template["spec"].get("resourceClaims")) or label in labels


def _part(raw: Json, label: str) -> Part:
    job, jobs = raw["template"]["spec"], raw.get("replicas")
    size = size_of(job)
    return Part(
        name=text(raw["name"]),
        jobs=1 if jobs is None else integer(jobs),
        size=size,
        # Pods that succeed are followed by others with the next indexes, up to the completions.
        goal=max(size, integer(job.get("completions"))),
        joins=can_join(job["template"], label),
    )


def pod_template_from(raw: Json, namespace: str) -> PodTemplate:
    """The requests of pods that are made in a namespace from a template: ``metadata`` and ``spec`` of a pod.

    Resources of other systems do not count. If the pods will be adopted, they ask for none of them, and it may be that
    no node offers any.

    Raises:
        LodeError, KeyError, TypeError, ValueError: it cannot be decoded.
    """
    metadata = {**(raw.get("metadata") or {}), "namespace": namespace, "name": "", "uid": "made later"}
    needs = needs_of({"metadata": metadata, "spec": raw["spec"]})
    of_others = {name for source in SOURCES.values() for name in source.taken(needs.requests)}
    entries = raw["spec"].get("resourceClaims") or ()
    return PodTemplate(
        replace(
            needs,
            requests={name: amount for name, amount in needs.requests.items() if name not in of_others},
            # A volume that is made for the pod does not exist yet either.
            volumes=tuple(volume for volume in needs.volumes if not volume.owner),
        ),
        tuple(
            ClaimUse(
                text(entry["name"]),
                text(entry.get("resourceClaimName")),
                text(entry.get("resourceClaimTemplateName")),
            )
            for entry in entries
            if entry.get("resourceClaimName") or entry.get("resourceClaimTemplateName")
        ),
    )
