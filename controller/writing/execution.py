"""Carries out one sequence, call by call: each step is one call of the API."""

from dataclasses import dataclass
from typing import Any, Protocol

from controller.election import Deposed
from controller.writing.steps import (
    AddFinalizer,
    AnnotateNode,
    AnnotatePod,
    Answer,
    CreateObject,
    DeleteObject,
    EvictPod,
    ExpectUnbound,
    Lane,
    NotEvicted,
    ObjectKey,
    Obstacle,
    PatchClaimStatus,
    PatchPodStatus,
    PatchStatus,
    ReadObject,
    ReadPage,
    RecordEvent,
    RemoveGate,
    Step,
    Target,
    WriteResult,
    WriteSequence,
    at_version,
)
from driver.errors import SENSELESS, LodeError, OperatorFault
from driver.kube.api import (
    PODS,
    AlreadyExists,
    Api,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    Object,
    OverBudget,
    Unavailable,
)
from driver.kube.objects import object_key
from driver.wire import allocation_from

_REMEDY = (
    "if it has opaque parameters, make the claim or its template again with kubectl: the API server compares the bytes "
    "in which they were written first, spaces and escapes too"
)

_UNAUTHORIZED = 401
_INTERNAL_ERROR = 500
"""What the API server answers if a webhook fails that has to allow an eviction. If the pod was evicted all the same, it
is seen to end."""
_NO_RIGHT = 'cannot create resource "pods/eviction"'
"""What the API server says if nobody has granted the right, in the words of every authorizer."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The pods and claims that the API answered with, and the start of the next page of a list."""

    answers: tuple[Answer, ...]
    next_page: str = ""


def carry_out(api: Api, step: Step) -> Answered:
    """Make the call that the step stands for.

    Raises:
        ApiError: the step was not made, or (Unavailable) it is not known whether it was.
        OperatorFault: the API server does not store all fields of an allocation.
    """
    try:
        return _answered(api, step)
    except SENSELESS as error:
        what = f"{step.target.resource.kind} {step.target.key}"
        raise Unavailable(f"{what}: the answer of the API server makes no sense: {error!r}") from error


def _answered(api: Api, step: Step) -> Answered:
    match step:
        case ReadPage(target, token):
            page = api.list(target.resource, continue_token=token)
            found = tuple(_answer(target, obj, page.resource_version) for obj in page.items)
            return Answered(found, page.continue_token)
        case EvictPod(target, dry_run):
            return _evict(api, target, dry_run)
        case DeleteObject(target):
            api.delete(target.resource, target.name, target.namespace, uid=target.uid, resource_version=target.version)
            return Answered((Answer(target.resource, target.key, None, target.uid),))
        case ReadObject(target):
            return Answered((Answer(target.resource, target.key, _read(api, target), target.uid),))
        case RecordEvent():
            _record_event(api, step)
            return Answered(())
    return Answered((_answer(step.target, _change(api, step)),))


def _change(api: Api, step: Step) -> Object:
    match step:
        case AddFinalizer():
            return add_finalizer(api, step)
        case PatchClaimStatus():
            return _patch_claim_status(api, step)
        case PatchPodStatus():
            return _patch_pod_status(api, step)
        case PatchStatus():
            return _patch_status(api, step)
        case AnnotateNode():
            return _annotate(api, step)
        case AnnotatePod():
            return _annotate_pod(api, step)
        case CreateObject(target, created):
            return api.create(target.resource, created, target.namespace)
        case RemoveGate():
            return _remove_gate(api, step)
        case ExpectUnbound():
            return _expect_unbound(api, step)
    raise TypeError(f"not a step: {step!r}")


def add_finalizer(api: Api, step: AddFinalizer) -> Object:
    """The claim as stored with the finalizers, if it is still in the version of the step.

    A claim's spec cannot be changed, and its opaque parameters are compared as bytes. A patch has the server write them
    as Go does, which is how kubectl and Kubernetes' own controllers wrote them; an update writes them as Python does,
    which is how Python's clients did.

    Raises:
        Conflict: the claim has changed; decide again.
        Invalid: the parameters were written in yet another way; the claim's author must act.
    """
    target, finalizers = step.target, [*step.finalizers]
    patch = {"metadata": {**target.preconditions, "finalizers": finalizers}}
    try:
        return api.patch(target.resource, target.name, patch, namespace=target.namespace)
    except Invalid:
        claim = api.get(target.resource, target.name, target.namespace)
        if not claim["spec"].get("devices", {}).get("config"):
            raise
    metadata = {**claim["metadata"], **target.preconditions, "finalizers": finalizers}
    try:
        return api.update(target.resource, {**claim, "metadata": metadata})
    except Invalid as error:
        raise Invalid(f"{error}; {_REMEDY}", status=error.status, reason=error.reason) from error


def _patch_claim_status(api: Api, step: PatchClaimStatus) -> Object:
    target = step.target
    patch = {"metadata": target.preconditions, "status": step.status}
    stored = api.patch(target.resource, target.name, patch, namespace=target.namespace, subresource="status")
    if step.allocation is not None and allocation_from(stored["status"]["allocation"]) != step.allocation:
        raise OperatorFault(
            f"ResourceClaim {target.key}: the API server does not store all fields of the allocation; enable the "
            "feature gates DRAConsumableCapacity, DRAPartitionableDevices and DRADeviceTaints on it"
        )
    return stored


def _patch_pod_status(api: Api, step: PatchPodStatus) -> Object:
    target = step.target
    patch = {"metadata": target.preconditions, "status": step.status}
    try:
        return api.patch(
            target.resource,
            target.name,
            patch,
            namespace=target.namespace,
            subresource="status",
            patch_type="strategic",
        )
    except Invalid as error:
        # If another pod has the name now, the API server answers 422 to the other uid, not 409.
        current = _read(api, target)
        if current is not None and current["metadata"]["uid"] == target.uid:
            raise
        raise Conflict(str(error), status=error.status, reason=error.reason) from error


def _patch_status(api: Api, step: PatchStatus) -> Object:
    target = step.target
    patch = {"metadata": target.preconditions, "status": step.status}
    return api.patch(target.resource, target.name, patch, namespace=target.namespace, subresource="status")


def _annotate(api: Api, step: AnnotateNode | AnnotatePod) -> Object:
    target = step.target
    patch = {"metadata": {**target.preconditions, "annotations": {**step.annotations}}}
    return api.patch(target.resource, target.name, patch, namespace=target.namespace)


def _annotate_pod(api: Api, step: AnnotatePod) -> Object:
    try:
        return _annotate(api, step)
    except Invalid as error:
        # As above: another pod has the name now.
        raise Conflict(str(error), status=error.status, reason=error.reason) from error


def _remove_gate(api: Api, step: RemoveGate) -> Object:
    target, path = step.target, f"/spec/schedulingGates/{step.position}"
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": target.uid},
        {"op": "test", "path": f"{path}/name", "value": step.gate},
        {"op": "remove", "path": path},
    ]
    try:
        return api.patch(target.resource, target.name, patch, namespace=target.namespace, patch_type="json")
    except Invalid as error:
        # A test of the patch failed: the gates have changed.
        raise Conflict(str(error), status=error.status, reason=error.reason) from error


def _expect_unbound(api: Api, step: ExpectUnbound) -> Object:
    pod = api.get(PODS, step.target.name, step.target.namespace)
    spec, conditions = pod["spec"], (pod.get("status") or {}).get("conditions") or ()
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    refused = any(
        condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable" for condition in conditions
    )
    held = step.gate in gates if step.gate else refused or step.silent
    if pod["metadata"]["uid"] != step.target.uid or spec.get("nodeName") or not held:
        raise Conflict(f"Pod {step.target.key}: kube-scheduler may bind it now", status=409, reason="Conflict")
    return pod


def _evict(api: Api, target: Target, dry_run: bool) -> Answered:
    answer: ApiError = Conflict(f"Pod {target.key}: it was evicted and does not end", status=409, reason="Conflict")
    try:
        api.evict(target.name, target.namespace, uid=target.uid, dry_run=dry_run)
        if dry_run:
            return Answered(())
    except (NotFound, Conflict) as error:
        # It is gone, or another pod has its name, if that is how it is: anybody on the way can answer so.
        answer = error
    except ApiError as error:
        if isinstance(error, Unavailable) and error.status != _INTERNAL_ERROR:
            raise
        raise NotEvicted(target, _obstacle(error), error) from error
    pod = _read(api, target)
    if pod and pod["metadata"]["uid"] == target.uid and not pod["metadata"].get("deletionTimestamp"):
        raise NotEvicted(target, Obstacle.OTHER, answer)
    return Answered((Answer(target.resource, target.key, pod, target.uid),))


def _obstacle(error: ApiError) -> Obstacle:
    if isinstance(error, OverBudget):
        return Obstacle.BUDGET
    if error.status == _UNAUTHORIZED or _NO_RIGHT in str(error):
        return Obstacle.RIGHTS
    return Obstacle.OTHER


def _record_event(api: Api, step: RecordEvent) -> None:
    target, event = step.target, step.event
    try:
        api.create(target.resource, event, target.namespace)
    except AlreadyExists:
        count = api.get(target.resource, target.name, target.namespace).get("count") or 1
        patch = {name: event[name] for name in ("message", "lastTimestamp", "reportingInstance")}
        api.patch(target.resource, target.name, {**patch, "count": count + 1}, namespace=target.namespace)


def _read(api: Api, target: Target) -> Object | None:
    try:
        return api.get(target.resource, target.name, target.namespace)
    except NotFound:
        return None


def _answer(target: Target, obj: Object, listed: str = "") -> Answer:
    return Answer(target.resource, object_key(obj), obj, listed=listed)


class Terms(Protocol):
    """The present term of leadership: without one, nothing may be written."""

    @property
    def term(self) -> int | None:
        """The number of the present term, which differs from every earlier one; None while nothing may be written."""
        ...


class Execution:
    """Carries out the steps of one sequence in order, as long as the term lasts in which they were decided."""

    def __init__(self, sequence: WriteSequence, terms: Terms):
        self.sequence = sequence
        self._terms = terms
        self._rest = sequence.steps
        self._answers: dict[ObjectKey, Answer] = {}
        self._versions: dict[ObjectKey, str] = {}
        self._failure: Exception | None = None

    def step(self, api: Api) -> WriteResult | None:
        """Make the next call; returns the result of the sequence if that was the last.

        Errors of the API and of the election are not raised: they are part of the result.
        """
        try:
            self._check(self._rest[0])
            answered = carry_out(api, self._rest[0])
        except (Deposed, Unavailable) as error:
            return self._result(error, rest=self._rest, failure=self._failure)
        except LodeError as error:
            if self._failure is None and self.sequence.lane is Lane.PLACING:
                self._failure = error
                self._rest = self.sequence.reads
                return None
            return self._result(error)
        self._take(answered)
        return None if self._rest else self._result(self._failure, next_page=answered.next_page)

    def _take(self, answered: Answered) -> None:
        for answer in answered.answers:
            self._answers[answer.resource, answer.key] = answer
            if answer.object is not None:
                self._versions[answer.resource, answer.key] = answer.object["metadata"]["resourceVersion"]
        self._rest = tuple(at_version(step, self._versions) for step in self._rest[1:])

    def _result(self, error: Exception | None, **more: Any) -> WriteResult:
        return WriteResult(self.sequence, tuple(self._answers.values()), error, term=self.sequence.term, **more)

    def _check(self, step: Step) -> None:
        if self._terms.term != self.sequence.term:
            target = step.target
            raise Deposed(f"{target.resource.kind} {target.key}: not written: the term of leadership is over")
