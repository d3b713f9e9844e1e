"""Finds the gang of a pod, and the pod's terms for it: the first source that is found counts. Pure."""

from dataclasses import dataclass, replace

from controller.gangs.config import ConfiguredGang
from controller.gangs.groups import VERSIONS, GroupObjects
from controller.gangs.hints import GangHints, GroupName, Owner
from controller.gangs.terms import Membership, MemberTerms, Source
from driver.errors import Fault

_ORDERED = "StatefulSet {} makes a pod only when the one before it is ready; set podManagementPolicy: Parallel in it"

_SET_MINIMUM = "set it in the PlacementConfig of a member's claim, to the number of pods that have to start together"
_ONE_AFTER_ANOTHER = (
    "if they are made one after another (startupPolicy, dependsOn), their number has to be read from the JobSet: have "
    "an operator let this program list and watch jobsets.jobset.x-k8s.io"
)


@dataclass(frozen=True, slots=True)
class MembershipInput:
    """The parts of a pod that determine its gang.

    Attributes:
        rank: the rank from a label; None if there is none.
    """

    namespace: str
    hints: GangHints | None
    rank: int | None
    config: ConfiguredGang


def membership_of(pod: MembershipInput, objects: GroupObjects) -> Membership | None:
    """The gang of the pod; None if it is in none."""
    hints, config = pod.hints or GangHints(), _config_of(pod)
    found = _named(config) or _grouped(pod, hints, objects) or _owned(pod, hints, config, objects)
    if found is None:
        if config.levels is None:
            return None
        message = "has no meaning for a pod alone; add gang: {} to the same PlacementConfig"
        found = "", MemberTerms(Source.CLAIM, problems=(Fault("topology", message),))
    name, said = found
    terms = replace(
        said,
        minimum=config.minimum or said.minimum,
        levels=next((levels for levels in (config.levels, said.levels, hints.levels) if levels is not None), None),
        policy=config.policy,
        moves=config.moves,
        sub_groups=config.sub_groups if config.sub_groups is not None else said.sub_groups,
        problems=(*said.problems, *config.faults, *hints.faults),
    )
    return Membership(
        gang=f"{pod.namespace}/{name}" if name else "",
        terms=terms,
        rank=_rank(pod, hints, objects),
        leader=hints.leader,
        run=hints.run,
        task=hints.task,
    )


def dependencies_of(pod: MembershipInput) -> tuple[str, ...]:
    """Objects that determine the membership besides pod and claims: groups by ``group_id``, owners by uid."""
    if pod.hints is None:
        return ()
    owner = pod.hints.owner if _config_of(pod).gang else None
    groups = [group_id(group.source, f"{pod.namespace}/{group.name}") for group in pod.hints.groups]
    return (*groups, *({owner.uid, owner.job} - {""} if owner else ()))


def group_id(source: Source, key: str) -> str:
    """An id of a group for ``dependencies_of``."""
    return f"{source.name} {key}"


def _config_of(pod: MembershipInput) -> ConfiguredGang:
    """Merge the gang label into the config of the claims."""
    config, label = pod.config, pod.hints.label if pod.hints else None
    return config if label is None else replace(config, gang=True, name=config.name or label or None)


def _named(config: ConfiguredGang) -> tuple[str, MemberTerms] | None:
    if config.name is None:
        return None
    return config.name, MemberTerms(Source.CLAIM, origin="gang.name")


def _grouped(pod: MembershipInput, hints: GangHints, objects: GroupObjects) -> tuple[str, MemberTerms] | None:
    """The first group that the pod names and that is a gang, with its terms."""
    for named in hints.groups:
        terms = _of_group(named, f"{pod.namespace}/{named.name}", objects)
        if terms is not None:
            return named.name, terms
    return None


def _of_group(named: GroupName, key: str, objects: GroupObjects) -> MemberTerms | None:
    versions = VERSIONS.get(named.source)
    if versions is None:
        problems = () if named.size else (_total_count_missing(key),)
        return MemberTerms(named.source, origin=f"{named.source.value} {key}", size=named.size, problems=problems)
    group, origin = objects.group(versions, key), f"{named.source.value} {key}"
    if group is None:
        message = f"{origin} does not exist, or this program may not read it; create it, or correct its name in the pod"
        return MemberTerms(named.source, origin=origin, problems=(Fault("", message),))
    if group.minimum is None:
        return None
    return MemberTerms(
        named.source,
        group.uid,
        origin,
        minimum=group.minimum,
        task_minimums=group.task_minimums or None,
        sub_groups=group.sub_groups or None,
        levels=group.levels,
        problems=group.faults,
    )


def _total_count_missing(key: str) -> Fault:
    field = "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]"
    return Fault(field, f"pod group {key} of Kueue needs the number of its pods; set it on every pod")


def _owned(
    pod: MembershipInput, hints: GangHints, config: ConfiguredGang, objects: GroupObjects
) -> tuple[str, MemberTerms] | None:
    if not config.gang:
        return None
    owner = hints.owner
    if owner is None:
        message = "the pod has no owner that says which pods belong together; set gang.name and gang.minAvailable"
        return "", MemberTerms(Source.OWNER, problems=(Fault("gang", message),))
    # Owners of two kinds may have one name.
    return f"{owner.kind}/{owner.name}", _of_owner(pod.namespace, owner, objects)


def _of_owner(namespace: str, owner: Owner, objects: GroupObjects) -> MemberTerms:
    """The terms of a gang with this owner: the number of pods, or the reason why it is not known."""
    said = MemberTerms(Source.OWNER, owner.uid, f"{owner.kind} {owner.name}")
    if owner.size is not None:
        return replace(said, size=owner.size)
    if owner.kind == "JobSet":
        if job_set := objects.job_sets.of(namespace, owner.uid):
            return replace(said, size=job_set.members)
        jobs = objects.jobs_of(owner.uid)
        if owner.jobs and jobs.count >= owner.jobs:
            return replace(said, size=jobs.members)
        known = f"{jobs.count} of {owner.jobs or 'an unknown number of'} Jobs of JobSet {owner.name} exist"
        return replace(said, awaited=f"{known}; {_ONE_AFTER_ANOTHER}")
    workload = objects.workload(owner.uid)
    if workload is None:
        message = f"{owner.kind} {owner.name} does not say how many pods it makes; {_SET_MINIMUM}"
        return replace(said, needs_minimum=(Fault("gang.minAvailable", message),))
    faults = (Fault("gang", _ORDERED.format(owner.name)),) if workload.ordered and workload.size > 1 else ()
    return replace(said, size=workload.size, needs_minimum=faults)


def _rank(pod: MembershipInput, hints: GangHints, objects: GroupObjects) -> int:
    owner, rank = hints.owner, pod.rank or 0
    if owner is None or owner.kind != "JobSet":
        return rank
    if job_set := objects.job_sets.of(pod.namespace, owner.uid):
        return job_set.first_rank(hints.task, owner.index) + rank
    return objects.jobs_of(owner.uid).first_rank.get(owner.job, 0) + rank
