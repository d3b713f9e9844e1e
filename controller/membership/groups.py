"""Objects that determine the size of a gang, as values: groups of five kinds, Jobs and StatefulSets. Pure.

Fields of groups that are not supported are refused by name: a gang that starts in another way than its author asks
is worse than one that waits.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from controller.gangs import Level
from controller.membership.jobsets import PART, JobSets, can_join, size_of
from controller.membership.nested import IN_A_CLAIM, NestedGang, NestedGroups, nested_levels
from controller.membership.terms import Group, Source, SubGroupPolicy, group_id
from driver.errors import Fault
from driver.kube.api import (
    COMPOSITE_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    GROVE_POD_GANGS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Resource,
)
from driver.label_selectors import label_selector_from
from driver.limits import first_of
from driver.wire import Json
from driver.wire.fields import integer, text, texts


@dataclass(frozen=True, slots=True)
class Workload:
    """A Job or StatefulSet, with the number of its pods.

    Attributes:
        size: number of pods that it keeps at a time.
        completions: number of indexes of a Job; 0 if its pods have none.
        set_uid: uid of the JobSet that owns the Job, or "".
        part: the replicated job of that JobSet, or "".
        index: index of the Job among those of its JobSet.
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
        self._groups: dict[tuple[Resource, str], Group] = {}
        """Groups by kind and key: an API server offers one object in several versions."""
        self._nested = NestedGroups()
        self._workloads: dict[str, Workload] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._sets: dict[str, dict[str, None]] = {}
        self._jobs_of_set: dict[str, JobsOfSet] = {}
        """Results for JobSets that have not changed since."""

    def put_group(self, kind: Resource, group: Group) -> Collection[str]:
        """Add or replace a group that was read as this kind. Returns ids of the groups whose pods are affected."""
        return self._set_group(kind, group.key, group) if self._groups.get((kind, group.key)) != group else ()

    def remove_group(self, kind: Resource, key: str) -> Collection[str]:
        """Remove a group. Returns ids of the groups whose pods are affected."""
        return self._set_group(kind, key, None) if (kind, key) in self._groups else ()

    def _set_group(self, kind: Resource, key: str, group: Group | None) -> Collection[str]:
        source = GROUP_SOURCES[kind]
        affected = {group_id(source, key)}
        self._groups.pop((kind, key), None)
        if group is not None:
            self._groups[kind, key] = group
        if source in (Source.POD_GROUP, Source.COMPOSITE):
            of_tree = self._nested.set_group(source, key, self.group(source, key))
            affected |= {group_id(Source.POD_GROUP, one) for one in of_tree}
        return affected

    def group(self, source: Source, key: str) -> Group | None:
        """The group of the source in the best version in which it is known."""
        known = (self._groups.get((kind, key)) for kind in GROUP_KINDS[source].versions)
        return next((group for group in known if group), None)

    def nested_gang(self, pod_group: str) -> NestedGang | None:
        """The gang of a PodGroup of ``scheduling.k8s.io`` that names a CompositePodGroup; None if it names none."""
        return self._nested.gang_of(pod_group)

    def put_workload(self, kind: str, key: str, workload: Workload) -> Collection[str]:
        """Add or replace a workload. Returns uids of the owners whose pods are affected."""
        # An object of this name may have been made anew: then pods of the one before are affected, too.
        changed = self.remove_workload(kind, key) if self._workloads.get(workload.uid) != workload else ()
        self._uids[kind, key] = workload.uid
        before = self._workloads.get(workload.uid)
        self._workloads[workload.uid] = workload
        if workload.set_uid:
            self._sets.setdefault(workload.set_uid, {})[workload.uid] = None
            self._jobs_of_set.pop(workload.set_uid, None)
        return () if before == workload else {*changed, workload.uid, workload.set_uid} - {""}

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
        return sum(job.succeeded for job in jobs)

    def succeeded_of_parts(self, set_uid: str) -> Mapping[str, int]:
        """The same for each part of a JobSet."""
        succeeded = Counter[str]()
        for job in self._jobs_of(set_uid):
            succeeded[job.part] += job.succeeded
        return succeeded

    def jobs_of(self, set_uid: str) -> JobsOfSet:
        """The Jobs of a JobSet that exist."""
        cached = self._jobs_of_set.get(set_uid)
        if cached is None:
            jobs = self._jobs_of(set_uid)
            first_rank, members, ranks = dict[str, int](), 0, 0
            for job in sorted((job for job in jobs if job.joins), key=lambda job: (job.index, job.uid)):
                first_rank[job.uid] = ranks
                members += job.size
                # An indexed Job with more completions than pods gives later pods the ranks that follow.
                ranks += max(job.size, job.completions)
            cached = self._jobs_of_set[set_uid] = JobsOfSet(len(jobs), members, first_rank)
        return cached

    def _jobs_of(self, set_uid: str) -> list[Workload]:
        return [self._workloads[uid] for uid in self._sets.get(set_uid, ())]


def _job_index(labels: Json) -> int:
    """The index of a Job in its JobSet, from the labels of the Job or of its pods."""
    index = text(labels.get("jobset.sigs.k8s.io/job-global-index") or labels.get("jobset.sigs.k8s.io/job-index"))
    return int(index) if index.isdecimal() and len(index) < 10 else 0


def job_from(obj: Json, label: str) -> tuple[str, Workload]:
    """Key and value of a Job object. ``label`` is the key of the driver's label for gangs."""
    metadata, spec = obj["metadata"], obj["spec"]
    template, labels = spec["template"], metadata.get("labels") or {}
    completions = integer(spec.get("completions"))
    return (
        f"{metadata['namespace']}/{metadata['name']}",
        Workload(
            uid=text(metadata["uid"]),
            size=size_of(spec),
            completions=completions if spec.get("completionMode") == "Indexed" else 0,
            set_uid=text(labels.get("jobset.sigs.k8s.io/jobset-uid")),
            part=text(labels.get(PART)),
            index=_job_index(labels),
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


Tiers = Mapping[str, Level]
"""Levels of Volcano's tiers, by number or name of the tier (setting ``controller.volcanoTiers``)."""
_MOST_NAMED: Final = 3
"""Most groups that a message names."""


class TierName(Protocol):
    """The level of a tier: one of the two fields is not ""."""

    @property
    def attribute(self) -> str:
        """Qualified name of a device attribute."""
        ...

    @property
    def node_label(self) -> str:
        """Key of a node label."""
        ...


def tiers_from(setting: Mapping[int | str, TierName]) -> Tiers:
    """The tiers of the setting ``controller.volcanoTiers``."""
    return {
        str(name): Level(tier.attribute or tier.node_label, "attribute" if tier.attribute else "nodeLabel")
        for name, tier in setting.items()
    }


def group_from(obj: Json, source: Source, tiers: Tiers) -> Group:
    """The value of an object of the source's kind."""
    kind = GROUP_KINDS[source]
    group = kind.read(obj["metadata"], obj.get("spec") or {}, tiers)
    named = f"{kind.versions[0].kind} {group.key}"

    def of_group(faults: Iterable[Fault]) -> tuple[Fault, ...]:
        return tuple([Fault(f"{named}: {fault.field}", fault.message) for fault in faults])

    return replace(group, faults=of_group(group.faults), level_faults=of_group(group.level_faults))


def _group(
    metadata: Json,
    minimum: int | None,
    levels: Sequence[Level] = (),
    faults: Iterable[Fault] = (),
    level_faults: Iterable[Fault] = (),
) -> Group:
    key, uid = f"{metadata['namespace']}/{metadata['name']}", text(metadata["uid"])
    of_levels = tuple(level_faults)
    known = None if of_levels else tuple(levels) or None
    return Group(key, uid, minimum or None, known, faults=tuple(faults), level_faults=of_levels)


def _composite(metadata: Json, spec: Json, _: Tiers) -> Group:
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    return _in_tree(metadata, spec, integer(gang["minGroupCount"]) if gang else None)


def _in_tree(metadata: Json, spec: Json, minimum: int | None) -> Group:
    keys = [text(level["key"]) for level in (spec.get("schedulingConstraints") or {}).get("topology") or ()]
    parent = text(spec.get("parentCompositePodGroupName"))
    group = _group(metadata, minimum, [Level(key, "nodeLabel") for key in keys])
    return replace(group, parent=f"{metadata['namespace']}/{parent}" if parent else "")


def _kubernetes(metadata: Json, spec: Json, _: Tiers) -> Group:
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    group = _in_tree(metadata, spec, integer(gang["minCount"]) if gang else None)
    entries = spec.get("resourceClaims") or ()
    claims = [
        (entry["name"], entry.get("resourceClaimTemplateName") or entry.get("resourceClaimName")) for entry in entries
    ]
    return replace(group, claims=frozenset((text(name), text(source)) for name, source in claims if source))


def _coscheduling(metadata: Json, spec: Json, _: Tiers) -> Group:
    return _group(metadata, integer(spec.get("minMember")))


def _volcano(metadata: Json, spec: Json, tiers: Tiers) -> Group:
    levels, level_faults = _tier(spec.get("networkTopology"), "spec.networkTopology", tiers)
    policies: Sequence[Json] = spec.get("subGroupPolicy") or ()
    # Volcano groups no pod by a policy without label keys.
    sub_groups = tuple([_sub_groups(policy) for policy in policies if policy.get("matchLabelKeys")])
    inner, inner_faults = _tier_of_sub_groups(policies, tiers)
    minimum = max(integer(spec.get("minMember")), sum(policy.members for policy in sub_groups))
    group = _group(metadata, minimum, [*levels, *inner], _without_keys(policies), [*level_faults, *inner_faults])
    group = replace(group, sub_groups=sub_groups)
    minimums = {task: integer(least) for task, least in (spec.get("minTaskMember") or {}).items()}
    tasks = tuple(sorted((task, least) for task, least in minimums.items() if least > 0))
    # Volcano's gang plugin looks at tasks only if their minimums do not exceed that of the group.
    return replace(group, task_minimums=tasks) if sum(least for _, least in tasks) <= (group.minimum or 0) else group


def _sub_groups(policy: Json) -> SubGroupPolicy:
    return SubGroupPolicy(
        keys=texts(policy["matchLabelKeys"]),
        size=integer(policy.get("subGroupSize")) or 1,
        minimum=integer(policy.get("minSubGroups")),
        selector=label_selector_from(policy.get("labelSelector")),
    )


def _without_keys(policies: Sequence[Json]) -> list[Fault]:
    """Faults for policies that have effects but no label keys, so that they group no pods."""
    message = "missing, so the policy groups no pods; set it to the label that says a pod's sub-group"
    return [
        Fault(f"spec.subGroupPolicy[{number}].matchLabelKeys", message)
        for number, policy in enumerate(policies)
        if not policy.get("matchLabelKeys") and (policy.get("minSubGroups") or policy.get("networkTopology"))
    ]


def _tier_of_sub_groups(policies: Sequence[Json], tiers: Tiers) -> tuple[list[Level], list[Fault]]:
    """The level that keeps each sub-group in one domain, with faults."""
    topologies = [policy.get("networkTopology") or {} for policy in policies]
    if any(topology != topologies[0] for topology in topologies):
        message = "policies with different networkTopology are not supported; let all say the same, or use PodGroups"
        return [], [Fault("spec.subGroupPolicy", message)]
    levels, faults = _tier(topologies[0] if topologies else None, "spec.subGroupPolicy[0].networkTopology", tiers)
    return [replace(level, per_sub_group=True) for level in levels], faults


def _tier(topology: Json | None, field: str, tiers: Tiers) -> tuple[list[Level], list[Fault]]:
    """The level of the highest tier that members may cross, with faults."""
    if not topology:
        return [], []
    name, number = text(topology.get("highestTierName")), topology.get("highestTierAllowed")
    if not name and number is None:
        return [], []
    tier = name or str(integer(number))
    level = tiers.get(tier)
    if level is None:
        message = (
            f"tier {tier} stands for no attribute or node label; have an operator add it to the setting "
            "controller.volcanoTiers, or ask for topology in the PlacementConfig of a claim"
        )
        return [], [Fault(f"{field}.{'highestTierName' if name else 'highestTierAllowed'}", message)]
    required = topology.get("mode", "hard") == "hard"
    return [Level(level.key, level.kind, required=required)], []


def _grove(metadata: Json, spec: Json, _: Tiers) -> Group:
    minimums = {text(one["name"]): integer(one.get("minReplicas")) for one in spec.get("podgroups") or ()}
    tasks = tuple(sorted((task, least) for task, least in minimums.items() if least > 0))
    levels, fault = _levels_of_groups(spec)
    # Grove takes minimums back once the first pods have their places; those that come later are of this gang still.
    minimum = max(1, sum(least for _, least in tasks))
    group = _group(metadata, minimum, levels, level_faults=(fault,) if fault else ())
    return replace(group, task_minimums=tasks, groups=tuple(sorted(minimums)))


def _levels_of_groups(spec: Json) -> tuple[Sequence[Level], Fault | None]:
    """The levels of a PodGang, or why there are none: of the gang, of groups of PodCliques, and of each PodClique."""
    chains = {text(one["name"]): [("", _packed(spec))] for one in spec.get("podgroups") or ()}
    again = dict[str, None]()
    for config in spec.get("topologyConstraintGroupConfigs") or ():
        packed = _packed(config)
        for name in dict.fromkeys(texts(config.get("podGroupNames"))) if packed else ():
            if name in chains:
                again |= {name: None} if len(chains[name]) > 1 else {}
                chains[name].append((f"group {text(config.get('name'))}", packed))
    for one in spec.get("podgroups") or ():
        chains[text(one["name"])].append((f"PodClique {text(one['name'])}", _packed(one)))
    if again:
        message = f"{first_of(sorted(again), _MOST_NAMED)}: in more than one of them, which is not supported"
        return (), Fault("spec.topologyConstraintGroupConfigs", f"{message}; {IN_A_CLAIM}")
    levels = nested_levels(chains)
    if isinstance(levels, str):
        return (), Fault("spec.topologyConstraint", f"{levels}; {IN_A_CLAIM}")
    return levels, None


def _packed(spec: Json) -> list[Level]:
    """The levels that a PodGang, or a group of it, asks for."""
    packed = (spec.get("topologyConstraint") or {}).get("packConstraint") or {}
    keys = ((text(packed.get("required")), True), (text(packed.get("preferred")), False))
    return [Level(key, "nodeLabel", required=required) for key, required in keys if key]


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A kind of object of which each stands for a gang.

    Attributes:
        versions: the kind in each version of its API that is read, the best first.
        read: reads the metadata and the spec of an object. Its faults name the field alone.
    """

    versions: tuple[Resource, ...]
    read: Callable[[Json, Json, Tiers], Group]


GROUP_KINDS: Final[Mapping[Source, GroupKind]] = {
    Source.POD_GROUP: GroupKind(POD_GROUPS, _kubernetes),
    Source.COMPOSITE: GroupKind(COMPOSITE_POD_GROUPS, _composite),
    Source.VOLCANO: GroupKind((VOLCANO_POD_GROUPS,), _volcano),
    Source.COSCHEDULING: GroupKind((COSCHEDULING_POD_GROUPS,), _coscheduling),
    Source.GROVE: GroupKind((GROVE_POD_GANGS,), _grove),
}
"""The kinds of objects that sources name. Each of them is watched."""
GROUP_SOURCES: Final[Mapping[Resource, Source]] = {
    version: source for source, kind in GROUP_KINDS.items() for version in kind.versions
}
"""The same kinds, in each version that is read."""
