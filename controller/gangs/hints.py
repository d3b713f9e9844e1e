"""Reads hints about a gang from a pod: labels, annotations, owner and scheduling group. Pure.

The names are those of JobSet, LeaderWorkerSet, Kueue, Volcano, coscheduling, Kubeflow and Kubernetes itself. None of
these has to be installed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from controller.gangs.annotations import exclusive_faults, topology_asked
from controller.gangs.gang import Level
from controller.gangs.jobsets import INDEX, PART
from controller.gangs.terms import Source
from driver.errors import Fault
from driver.wire import Json
from driver.wire.fields import text

_VOLCANO_GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Annotations with the name of a Volcano PodGroup."""
_COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io/pod-group"
_KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
"""A label, or an annotation in newer versions of Kueue."""
_KUEUE_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
TASK: Final = "volcano.sh/task-spec"
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


@dataclass(frozen=True, slots=True)
class GroupName:
    """A group that the pod names.

    Attributes:
        size: number of members according to the pod; None if the group object has it.
    """

    source: Source
    name: str
    size: int | None = None


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
    levels, faults = topology_asked(pod)
    return GangHints(
        groups=groups,
        owner=_owner(labels, annotations, controller),
        run=text(labels.get(f"{_JOBSET}jobset-uid") or (controller["uid"] if controller else "")),
        label=text(labels[label]) if label in labels else None,
        task=text(labels.get(TASK) or annotations.get(TASK) or labels.get(PART)),
        levels=levels,
        leader=labels.get(f"{_LWS}worker-index") == "0" or labels.get("training.kubeflow.org/job-role") == "master",
        faults=(*faults, *exclusive_faults(annotations)),
    )


def rank_of_pod(pod: Json) -> int | None:
    """The rank from a label or annotation of the pod; None if there is none."""
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    said = (number(labels.get(name) or annotations.get(name)) for name in _RANKS)
    return next((rank for rank in said if rank is not None), None)


def number(value: str | None) -> int | None:
    """The number in the text of a label; None if it is none."""
    said = text(value)
    return int(said) if said.isdecimal() and len(said) < 10 else None


def _groups(metadata: Json, spec: Json) -> Iterable[GroupName]:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if name := text((spec.get("schedulingGroup") or {}).get("podGroupName")):
        yield GroupName(Source.POD_GROUP, name)
    if name := text(next((annotations[key] for key in _VOLCANO_GROUPS if annotations.get(key)), "")):
        yield GroupName(Source.VOLCANO, name)
    if name := text(labels.get(_COSCHEDULING_GROUP)):
        yield GroupName(Source.COSCHEDULING, name)
    if name := text(labels.get(_KUEUE_GROUP) or annotations.get(_KUEUE_GROUP)):
        yield GroupName(Source.KUEUE, name, number(annotations.get(_KUEUE_COUNT)))


def _owner(labels: Json, annotations: Json, controller: Json | None) -> Owner | None:
    if uid := text(labels.get(f"{_JOBSET}jobset-uid")):
        return Owner(
            "JobSet",
            text(labels.get(f"{_JOBSET}jobset-name")) or uid,
            uid,
            job=text(controller["uid"]) if controller and controller["kind"] == "Job" else "",
            index=number(labels.get(INDEX)) or 0,
            jobs=number(labels.get(f"{_JOBSET}global-replicas")) or 0,
        )
    if uid := text(labels.get(f"{_LWS}group-key")):
        name = f"{labels.get(f'{_LWS}name', '')}-{labels.get(f'{_LWS}group-index', '')}"
        return Owner("LeaderWorkerSet", name, uid, size=number(annotations.get(f"{_LWS}size")))
    if controller is None:
        return None
    kind, name, uid = text(controller["kind"]), text(controller["name"]), text(controller["uid"])
    return Owner(kind, name, uid, job=uid if kind == "Job" else "")
