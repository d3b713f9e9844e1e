"""Writes as values: sequences of steps, each of which changes one object. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Protocol

from controller.state import Changes
from driver.kube.api import ApiError, Object, Resource
from driver.model import Allocation


class Obstacle(StrEnum):
    """Why a pod was not evicted."""

    BUDGET = "budget"
    """A PodDisruptionBudget does not allow it."""
    RIGHTS = "rights"
    """This program may evict no pods, or none of this namespace."""
    OTHER = "other"
    """Something else that concerns this pod: a webhook or a policy of the cluster."""


ObjectKey = tuple[Resource, str]
"""One object: its kind and its key (``namespace/name``, or ``name``)."""
Subject = tuple[Literal["pod", "claim", "list", "reported", "template"], str]
"""The reason of a sequence: a pod, claim or template that was decided about, a list that is read, or a report."""


class Lane(StrEnum):
    """The bound of writes in flight that a sequence counts against; a label value of metrics."""

    PLACING = "placing"
    """Writes that give devices to pods and take them back."""
    REPORTING = "telling"
    """Conditions and Events of pods that wait. Placing never waits for it. Metrics call it as they did in 0.1.0."""


@dataclass(frozen=True, slots=True)
class Target:
    """The object that a step is about, in the version that was decided on."""

    resource: Resource
    key: str
    """``namespace/name``, or ``name``."""
    uid: str
    version: str = ""
    """``metadata.resourceVersion``, the precondition of the write; "" if it may be made to any version."""

    @property
    def namespace(self) -> str:
        """The object's namespace; "" if it has none."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The object's name."""
        return self.key.rpartition("/")[2]

    @property
    def preconditions(self) -> dict[str, str]:
        """``metadata`` of a patch that is refused for any other object, and for any other version if one is given."""
        return {"uid": self.uid, **({"resourceVersion": self.version} if self.version else {})}


class NotEvicted(ApiError):
    """The API server does not let this program evict a pod.

    Attributes:
        answer: the error that it answered with.
    """

    def __init__(self, victim: Target, why: Obstacle, error: ApiError):
        super().__init__(str(error), status=error.status, reason=error.reason, retry_after=error.retry_after)
        self.victim = victim
        self.why = why
        self.answer = error


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Set the finalizers of a claim, which has to be done before it is allocated."""

    target: Target
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PatchClaimStatus:
    """Change a claim's status by a merge patch."""

    target: Target
    status: Object
    allocation: Allocation | None = None
    """The allocation that must be stored afterwards; None if that is not checked."""


@dataclass(frozen=True, slots=True)
class PatchPodStatus:
    """Change a pod's status by a strategic merge patch."""

    target: Target
    status: Object


@dataclass(frozen=True, slots=True)
class RemoveGate:
    """Remove one scheduling gate of a pod, and nothing else."""

    target: Target
    gate: str
    position: int
    """Index of the gate in ``spec.schedulingGates``."""


@dataclass(frozen=True, slots=True)
class ExpectUnbound:
    """Read a pod; the sequence ends here with a Conflict if the pod can be running, or be bound, by now."""

    target: Target
    gate: str
    """The pod has to have this gate; "" if it has to be one that kube-scheduler finds unschedulable."""
    silent: bool = False
    """True if nobody has said anything about the pod for long, so that no refusal is asked for."""


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Change the status of an object of another kind by a merge patch, which replaces lists as a whole."""

    target: Target
    status: Object


@dataclass(frozen=True, slots=True)
class AnnotateNode:
    """Set annotations of a node; None removes one."""

    target: Target
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Set annotations of a pod."""

    target: Target
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create an object."""

    target: Target
    object: Object


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete exactly this object, in this version."""

    target: Target


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict a pod if it is still there, and read it. It may be forbidden (``NotEvicted``)."""

    target: Target
    dry_run: bool = False
    """True if it is only asked whether it is forbidden."""


@dataclass(frozen=True, slots=True)
class ReadObject:
    """Read an object as it is now."""

    target: Target


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Read a page of all objects of a kind."""

    target: Target
    token: str = ""
    """Token of the page before; "" for the first page."""


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Create a core/v1 Event; if it exists, count it up, with the new message and time."""

    target: Target
    event: Object


Step = (
    AddFinalizer
    | PatchClaimStatus
    | PatchPodStatus
    | PatchStatus
    | AnnotateNode
    | AnnotatePod
    | CreateObject
    | DeleteObject
    | RemoveGate
    | ExpectUnbound
    | EvictPod
    | ReadObject
    | ReadPage
    | RecordEvent
)


def only_reads(step: Step) -> bool:
    """Return whether the step changes nothing."""
    return isinstance(step, ExpectUnbound | ReadObject | ReadPage)


def at_version(step: Step, versions: Mapping[ObjectKey, str]) -> Step:
    """Return the step with the version of its object that an earlier step of the sequence left, if there is one."""
    target = step.target
    version = versions.get((target.resource, target.key), target.version)
    if not target.version or version == target.version:
        return step
    return replace(step, target=replace(target, version=version))


class Author(Protocol):
    """Has sequences carried out, and is given the result of each."""

    def written(self, result: "WriteResult", changes: Changes) -> None:
        """Take in the result of a sequence, once its answers are in the state.

        Args:
            changes: what these answers change; takes in the objects that have to be looked at again.
        """
        ...


@dataclass(frozen=True, slots=True)
class WriteSequence:
    """Steps that are carried out in order, up to the first that fails.

    If a step of the placing lane fails, all objects of the sequence are read again: its result says how they are now.
    """

    subject: Subject
    steps: tuple[Step, ...]
    lane: Lane = Lane.PLACING
    term: int = 0
    """The term in which it was decided; 0 for none. No step is made in another one."""
    author: Author | None = field(default=None, compare=False, repr=False)
    """Who is given its result; None if nobody asks for it."""

    @property
    def objects(self) -> frozenset[ObjectKey]:
        """The objects that the sequence is about."""
        return frozenset((step.target.resource, step.target.key) for step in self.steps)

    @property
    def reads(self) -> tuple[ReadObject, ...]:
        """The steps that read each of these objects."""
        targets = {(step.target.resource, step.target.key): step.target for step in self.steps}
        return tuple(map(ReadObject, targets.values()))


@dataclass(frozen=True, slots=True)
class Answer:
    """An object as the API answered; None if it does not exist."""

    resource: Resource
    key: str
    object: Object | None
    """None: it does not exist."""
    uid: str = ""
    """Uid of the object that was looked for and does not exist."""
    listed: str = ""
    """The version of the list that it is in; "" if it was not listed."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a sequence."""

    sequence: WriteSequence
    answers: tuple[Answer, ...]
    """The objects as the steps left them."""
    error: Exception | None = None
    """The error that ended the sequence: an ``ApiError``, an ``OperatorFault`` or ``Deposed``; None if all succeeded.

    After ``Unavailable`` nobody knows whether the first step of ``rest`` was made. After every other error it was not.
    """
    rest: tuple[Step, ...] = ()
    """The step that failed and those after it, with the versions that earlier steps left."""
    failure: Exception | None = None
    """With ``Unavailable``: the error of an earlier step, if it was its objects that could not be read again."""
    next_page: str = ""
    """After ``ReadPage``: where the next page begins; "" if there is none."""
    term: int | None = None
    """The term of leadership in which the sequence was submitted."""
