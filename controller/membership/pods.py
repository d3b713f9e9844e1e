"""Finds the gang of a pod: what the pod says about it (hints), and the first source that names one counts. Pure.

Hints are read when the pod is decoded; which source counts also depends on its claims and on groups and owners, which
come and go, so that is asked again when one of them changes (``dependencies_of``).

The names of labels and annotations are those of JobSet, LeaderWorkerSet, Kueue, Volcano, coscheduling, Grove, Kubeflow
and Kubernetes itself. None of these has to be installed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.gangs import Level
from controller.membership.groups import GROUP_KINDS, GroupObjects
from controller.membership.jobsets import INDEX, PART
from controller.membership.nested import NestedGang
from controller.membership.terms import ConfiguredGang, Membership, MemberTerms, Source, group_id
from driver.errors import Fault
from driver.wire import Json
from driver.wire.fields import integer, text

_VOLCANO_GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations with the name of a Volcano PodGroup."""
_COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io/pod-group"
_GROVE_GANG: Final = "grove.io/podgang"
_GROVE_GROUP: Final = "grove.io/podclique"
"""The PodClique of a pod, which is a group in the PodGang."""
_KUEUE: Final = "kueue.x-k8s.io/"
_KUEUE_GROUP: Final = f"{_KUEUE}pod-group-name"
"""A label, or an annotation in newer versions of Kueue."""
_SIZES: Final[Mapping[Source, str]] = {Source.KUEUE: f"{_KUEUE}pod-group-total-count"}
"""Annotations with the number of members, of sources that name no object."""
_TASK: Final = "volcano.sh/task-spec"
"""Label or annotation with the task of a pod of a Volcano Job."""
_JOBSET: Final = "jobset.sigs.k8s.io/"
_LWS: Final = "leaderworkerset.sigs.k8s.io/"
_RANKS: Final = (
    "batch.kubernetes.io/job-completion-index",
    f"{_LWS}worker-index",
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
    "kueue.x-k8s.io/pod-group-pod-index",
)
"""Labels or annotations with the rank of a member, in the order in which they count."""
_LAYERS: Final = f"{_KUEUE}podset-slice-required-topology-constraints"
_SLICE_SIZE: Final = f"{_KUEUE}podset-slice-size"
_SLICE_TOPOLOGY: Final = f"{_KUEUE}podset-slice-required-topology"
_EXCLUSIVE: Final = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
)
_LONGEST: Final = 100
"""Characters of a value that a fault quotes."""
_NODE_SELECTOR_STRATEGY: Final = "alpha.jobset.sigs.k8s.io/node-selector"

_ORDERED: Final = (
    "StatefulSet {} makes a pod only when the one before it is ready; set podManagementPolicy: Parallel in it"
)
_SET_MINIMUM: Final = (
    "set it in the PlacementConfig of a member's claim, to the number of pods that have to start together"
)
_SIZE_MISSING: Final = "needs the number of its pods; set it on every pod"
_ONE_AFTER_ANOTHER: Final = (
    "if they are made one after another (startupPolicy, dependsOn), their number has to be read from the JobSet: have "
    "an operator let this program list and watch jobsets.jobset.x-k8s.io"
)


@dataclass(frozen=True, slots=True)
class GroupName:
    """A group that the pod names.

    Attributes:
        size: number of members according to the pod; None if the group object has it.
        task: the task of the pod, if the gang is one of groups.
    """

    source: Source
    name: str
    size: int | None = None
    task: str = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that makes all pods of a gang.

    Attributes:
        name: name of the gang.
        job: uid of the Job that owns the pod, or "".
        index: index of that Job in its part of a JobSet.
        jobs: number of Jobs of the JobSet; 0 if the pod is not of a JobSet.
        size: number of pods that it makes, if the pod has it.
    """

    kind: str
    name: str
    uid: str
    job: str = ""
    index: int = 0
    jobs: int = 0
    size: int | None = None


@dataclass(frozen=True, slots=True)
class GangHints:
    """Hints of a pod about its gang. Pods of one owner mostly have equal hints, so they can share the value.

    Attributes:
        groups: groups that the pod names; the first that is a gang counts.
        run: equal for pods that replace each other; "" if nothing replaces the pod.
        label: value of the driver's label for gangs: the name of a gang, or "" for the group or owner; None without
            the label.
        task: the part of the gang, such as the replicated job of a JobSet; "" for none.
        levels: topology levels from its annotations; None if there are none.
        faults: annotations that are not supported in a gang.
    """

    groups: tuple[GroupName, ...] = ()
    owner: Owner | None = None
    run: str = ""
    label: str | None = None
    task: str = ""
    levels: tuple[Level, ...] | None = None
    leader: bool = False
    faults: tuple[Fault, ...] = ()


def hints_of(pod: Json, label: str) -> GangHints | None:
    """The hints of a pod; None if it can be in no gang: it names none, and has no claims that could.

    Args:
        label: key of the driver's own label, ``driver.names.Names.gang``.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    groups = tuple(_groups(metadata, spec))
    if not groups and label not in labels and not spec.get("resourceClaims"):
        return None
    controller = next((owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), None)
    levels, faults = _kueue_levels(pod)
    return GangHints(
        groups=groups,
        owner=_owner(labels, annotations, controller),
        run=text(labels.get(f"{_JOBSET}jobset-uid") or (controller["uid"] if controller else "")),
        label=text(labels[label]) if label in labels else None,
        task=text(labels.get(_TASK) or annotations.get(_TASK) or labels.get(PART)),
        levels=levels,
        leader=labels.get(f"{_LWS}worker-index") == "0" or labels.get("training.kubeflow.org/job-role") == "master",
        faults=(*faults, *_exclusive_faults(annotations)),
    )


def rank_of_pod(pod: Json) -> int | None:
    """The rank from a label or annotation of the pod; None if there is none."""
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    ranks = (_number(labels.get(name) or annotations.get(name)) for name in _RANKS)
    return next((rank for rank in ranks if rank is not None), None)


def _number(label: str | None) -> int | None:
    """The number in the text of a label; None if it is none."""
    digits = text(label)
    # Longer ones are no ranks, and int() raises an error for thousands of digits.
    return int(digits) if digits.isdecimal() and len(digits) < 10 else None


def _groups(metadata: Json, spec: Json) -> Iterable[GroupName]:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if name := text((spec.get("schedulingGroup") or {}).get("podGroupName")):
        yield GroupName(Source.POD_GROUP, name, task=name)
    if name := text(next((annotations[key] for key in _VOLCANO_GROUPS if annotations.get(key)), "")):
        yield GroupName(Source.VOLCANO, name)
    if name := text(labels.get(_COSCHEDULING_GROUP)):
        yield GroupName(Source.COSCHEDULING, name)
    if name := text(labels.get(_GROVE_GANG)):
        yield GroupName(Source.GROVE, name, task=text(labels.get(_GROVE_GROUP)))
    if name := text(labels.get(_KUEUE_GROUP) or annotations.get(_KUEUE_GROUP)):
        yield GroupName(Source.KUEUE, name, _number(annotations.get(_SIZES[Source.KUEUE])))


def _owner(labels: Json, annotations: Json, controller: Json | None) -> Owner | None:
    if uid := text(labels.get(f"{_JOBSET}jobset-uid")):
        return Owner(
            "JobSet",
            text(labels.get(f"{_JOBSET}jobset-name")) or uid,
            uid,
            job=text(controller["uid"]) if controller and controller["kind"] == "Job" else "",
            index=_number(labels.get(INDEX)) or 0,
            jobs=_number(labels.get(f"{_JOBSET}global-replicas")) or 0,
        )
    if uid := text(labels.get(f"{_LWS}group-key")):
        name = f"{labels.get(f'{_LWS}name', '')}-{labels.get(f'{_LWS}group-index', '')}"
        return Owner("LeaderWorkerSet", name, uid, size=_number(annotations.get(f"{_LWS}size")))
    if controller is None:
        return None
    kind, name, uid = text(controller["kind"]), text(controller["name"]), text(controller["uid"])
    return Owner(kind, name, uid, job=uid if kind == "Job" else "")


def _kueue_levels(pod: Json) -> tuple[tuple[Level, ...] | None, tuple[Fault, ...]]:
    """The levels that Kueue's annotations ask for, outermost first, and the faults of the annotations.

    The levels are None if Kueue itself chooses the domain, which its gate and its annotation with the name of the
    workload tell. Kueue then writes its choice into the pod's node selector, and that is obeyed like any other.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = metadata.get("annotations") or {}
    gated = any(gate["name"] == f"{_KUEUE}topology" for gate in spec.get("schedulingGates") or ())
    if gated or f"{_KUEUE}workload" in annotations:
        return None, ()
    levels = []
    if key := text(annotations.get(f"{_KUEUE}podset-required-topology")):
        levels.append(Level(key, "nodeLabel"))
    elif key := text(annotations.get(f"{_KUEUE}podset-preferred-topology")):
        levels.append(Level(key, "nodeLabel", required=False))
    slices, faults = _slices(annotations)
    selected = spec.get("nodeSelector") or {}
    # All nodes that the selector allows are in one domain of such a level, so it holds anyway.
    levels = [level for level in (*levels, *slices) if level.key not in selected]
    return tuple(levels) or None, faults


def _slices(annotations: Json) -> tuple[tuple[Level, ...], tuple[Fault, ...]]:
    """The levels that keep groups of members together, which Kueue calls slices."""
    layers, key = annotations.get(_LAYERS), annotations.get(_SLICE_TOPOLOGY)
    if layers is None and key is None:
        return (), ()
    name, written = (_LAYERS, layers) if layers is not None else (_SLICE_SIZE, annotations.get(_SLICE_SIZE))
    try:
        single: Sequence[Json] = [{"topology": key, "size": written}]
        asked = [(layer["topology"], layer["size"]) for layer in (json.loads(layers) if layers is not None else single)]
        return tuple(Level(text(key), "nodeLabel", group_size=_size(size)) for key, size in asked), ()
    except (KeyError, RecursionError, TypeError, ValueError):
        remedy = "correct it, or ask for topology in the PlacementConfig of a claim"
        message = f"{str(written)[:_LONGEST]}: not what Kueue reads; {remedy}"
        if written is None:
            message = f"is missing, beside {_SLICE_TOPOLOGY}; add the size, or ask for topology in the PlacementConfig"
        return (), (Fault(f"metadata.annotations[{name}]", message),)


def _size(written: int | str) -> int:
    if (size := int(written) if isinstance(written, str) else integer(written)) < 1:
        raise ValueError(written)
    return size


def _exclusive_faults(annotations: Json) -> Iterable[Fault]:
    """Faults for annotations that reserve a domain for one group.

    Their controllers make the other pods only when the first one is on a node, so the gang would never be complete.
    JobSet's strategy with node selectors does not wait for a pod.
    """
    if _NODE_SELECTOR_STRATEGY in annotations:
        return
    for name in _EXCLUSIVE:
        if key := text(annotations.get(name)):
            remedy = "remove it, and ask for topology in the PlacementConfig of a claim"
            message = f"{key}: a domain for one group alone is not supported in a gang; {remedy}"
            yield Fault(f"metadata.annotations[{name}]", message)


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
    # The order of ``Source``: what a user wrote into a claim counts before what some controller wrote on the pod.
    grouped = None if config.name is not None else _grouped(pod, hints, objects)
    gang = _named(config) or (grouped and grouped[:2]) or _owned(pod, hints, config, objects)
    if gang is None:
        if config.levels is None:
            return None
        message = "has no meaning for a pod alone; add gang: {} to the same PlacementConfig"
        gang = "", MemberTerms(Source.CLAIM, problems=(Fault("topology", message),))
    name, of_source = gang
    terms = replace(
        of_source,
        minimum=config.minimum or of_source.minimum,
        levels=next((levels for levels in (config.levels, of_source.levels, hints.levels) if levels is not None), None),
        constraints=config.constraints,
        policy=config.policy,
        moves=config.moves,
        sub_groups=config.sub_groups if config.sub_groups is not None else of_source.sub_groups,
        problems=(*of_source.problems, *config.faults, *hints.faults),
    )
    return Membership(
        gang=f"{pod.namespace}/{name}" if name else "",
        terms=terms,
        rank=_rank(pod, hints, objects),
        leader=hints.leader,
        run=hints.run,
        task=grouped[2] if grouped else hints.task,
    )


def dependencies_of(pod: MembershipInput) -> tuple[str, ...]:
    """Objects that determine the membership besides pod and claims: groups by ``group_id``, owners by uid."""
    if pod.hints is None:
        return ()
    owner = pod.hints.owner if _config_of(pod).gang else None
    groups = [group_id(group.source, f"{pod.namespace}/{group.name}") for group in pod.hints.groups]
    return (*groups, *({owner.uid, owner.job} - {""} if owner else ()))


def _config_of(pod: MembershipInput) -> ConfiguredGang:
    """Merge the gang label into the config of the claims."""
    config, label = pod.config, pod.hints.label if pod.hints else None
    return config if label is None else replace(config, gang=True, name=config.name or label or None)


def _named(config: ConfiguredGang) -> tuple[str, MemberTerms] | None:
    if config.name is None:
        return None
    return config.name, MemberTerms(Source.CLAIM, origin="gang.name")


def _grouped(pod: MembershipInput, hints: GangHints, objects: GroupObjects) -> tuple[str, MemberTerms, str] | None:
    """The gang of the first group that the pod names and that is one, with its terms and the pod's task."""
    for named in hints.groups:
        key = f"{pod.namespace}/{named.name}"
        if named.source is Source.POD_GROUP and (nested := objects.nested_gang(key)):
            return nested.name, _terms_of_nested(nested), named.task
        terms = _terms_of_group(named, key, objects)
        if terms is not None:
            return named.name, terms, named.task if named.source is Source.GROVE else hints.task
    return None


def _terms_of_nested(gang: NestedGang) -> MemberTerms:
    return MemberTerms(
        Source.COMPOSITE,
        gang.uid,
        f"{Source.COMPOSITE.value} {gang.root}",
        minimum=gang.minimum,
        groups=gang.groups or None,
        quorum=gang.quorum,
        levels=gang.levels,
        problems=gang.faults,
        needs_levels=gang.level_faults,
    )


def _terms_of_group(named: GroupName, key: str, objects: GroupObjects) -> MemberTerms | None:
    origin = f"{named.source.value} {key}"
    if named.source not in GROUP_KINDS:
        missing = Fault(f"metadata.annotations[{_SIZES[named.source]}]", f"{origin}: {_SIZE_MISSING}")
        return MemberTerms(named.source, origin=origin, size=named.size, problems=() if named.size else (missing,))
    group = objects.group(named.source, key)
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
        groups=group.groups or None,
        levels=group.levels,
        problems=group.faults,
        needs_levels=group.level_faults,
    )


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
    return f"{owner.kind}/{owner.name}", _terms_of_owner(pod.namespace, owner, objects)


def _terms_of_owner(namespace: str, owner: Owner, objects: GroupObjects) -> MemberTerms:
    """The terms of a gang with this owner: the number of pods, or the reason why it is not known."""
    terms = MemberTerms(Source.OWNER, owner.uid, f"{owner.kind} {owner.name}")
    if owner.size is not None:
        return replace(terms, size=owner.size)
    if owner.kind == "JobSet":
        if job_set := objects.job_sets.find(namespace, owner.uid):
            return replace(terms, size=job_set.members)
        # The JobSet itself may not be read. Its Jobs say the size, but only when the last of them exists.
        jobs = objects.jobs_of(owner.uid)
        if owner.jobs and jobs.count >= owner.jobs:
            return replace(terms, size=jobs.members)
        exist = f"{jobs.count} of {owner.jobs or 'an unknown number of'} Jobs of JobSet {owner.name} exist"
        return replace(terms, awaited=f"{exist}; {_ONE_AFTER_ANOTHER}")
    workload = objects.workload(owner.uid)
    if workload is None:
        message = f"{owner.kind} {owner.name} does not say how many pods it makes; {_SET_MINIMUM}"
        return replace(terms, needs_minimum=(Fault("gang.minAvailable", message),))
    # Its second pod comes when the first one is ready, and that waits for the second one.
    faults = (Fault("gang", _ORDERED.format(owner.name)),) if workload.ordered and workload.size > 1 else ()
    return replace(terms, size=workload.size, needs_minimum=faults)


def _rank(pod: MembershipInput, hints: GangHints, objects: GroupObjects) -> int:
    owner, rank = hints.owner, pod.rank or 0
    if owner is None or owner.kind != "JobSet":
        return rank
    if job_set := objects.job_sets.find(pod.namespace, owner.uid):
        return job_set.first_rank(hints.task, owner.index) + rank
    return objects.jobs_of(owner.uid).first_rank.get(owner.job, 0) + rank
