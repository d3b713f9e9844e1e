"""Kueue's Workloads and AdmissionChecks: the pods that are to come, and who asks whether they fit. Pure.

Kueue keeps a Workload for each job that waits in its queues. When it has reserved quota for one, it asks each
AdmissionCheck of the queue. The check's controller answers in ``status.admissionChecks`` of the Workload.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.membership import PodTemplate, pod_template_from
from controller.state import Changes, Followed, Kinds
from driver.errors import LodeError
from driver.kube.api import KUEUE_ADMISSION_CHECKS, KUEUE_WORKLOADS, Object
from driver.wire.fields import integer, text

PENDING: Final = "Pending"
READY: Final = "Ready"
RETRY: Final = "Retry"
PAUSED: Final = "tried again after a pause: "
"""Begins the message of a check after an answer ``RETRY``."""
ACTIVE: Final = "Active"
"""The condition by which an AdmissionCheck says that its controller works."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods that are made from one template.

    Attributes:
        count: number of pods that Kueue has reserved quota for.
    """

    name: str
    count: int
    template: PodTemplate


@dataclass(frozen=True, slots=True)
class CheckState:
    """An entry of ``status.admissionChecks``.

    Attributes:
        state: one of ``PENDING``, ``READY``, ``RETRY`` and others of Kueue.
        message: of the last answer, or of Kueue when it took the answer back.
        since: ``lastTransitionTime``.
        retries: how often the answer was ``RETRY`` before.
        raw: the entry as the API has it.
    """

    name: str
    state: str
    message: str
    since: str
    retries: int
    raw: Object


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A Workload.

    The pod sets and checks of one that has finished are left out.

    Attributes:
        key: ``namespace/name``.
        owners: uids of the objects that it is for.
        pod_sets: none if ``problem`` says why they cannot be decoded.
        reserved: whether quota is reserved for it, and not about to be given back.
        admitted: whether its pods may start.
        evicted: whether it was evicted, and has no quota again.
        requeue_at: when Kueue tries to reserve quota again after a pause (RFC 3339); "" if there is none.
        finished: whether its pods have ended.
    """

    key: str
    uid: str
    owners: frozenset[str]
    pod_sets: tuple[PodSet, ...]
    problem: str
    reserved: bool
    admitted: bool
    evicted: bool
    requeue_at: str
    finished: bool
    checks: tuple[CheckState, ...]

    @property
    def namespace(self) -> str:
        """Of the object."""
        return self.key.partition("/")[0]

    def in_state(self, state: str, names: Collection[str]) -> Sequence[CheckState]:
        """Return its checks that have one of these names, and this state."""
        return [one for one in self.checks if one.name in names and one.state == state]


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """An AdmissionCheck.

    Attributes:
        controller: the name of the controller that answers it.
        active: whether it says that its controller works.
        other_conditions: the entries of ``status.conditions`` that say something else.
    """

    name: str
    uid: str
    controller: str
    active: bool
    other_conditions: tuple[Object, ...]


def queued_from(obj: Object) -> QueuedWorkload:
    """Return the value of a Workload.

    Raises:
        KeyError, TypeError, ValueError: its metadata or its status cannot be decoded.
    """
    metadata, status = obj["metadata"], obj.get("status") or {}
    conditions = {one["type"]: one["status"] == "True" for one in status.get("conditions") or ()}
    finished = conditions.get("Finished", False)
    pod_sets, problem = list[PodSet](), ""
    try:
        pod_sets += () if finished else _pod_sets(obj["spec"], status, metadata["namespace"])
    except (LodeError, AttributeError, LookupError, TypeError, ValueError) as error:
        problem = f"spec.podSets cannot be decoded: {error!r}"
    return QueuedWorkload(
        key=f"{metadata['namespace']}/{metadata['name']}",
        uid=text(metadata["uid"]),
        owners=frozenset(text(owner["uid"]) for owner in metadata.get("ownerReferences") or ()),
        pod_sets=() if problem else tuple(pod_sets),
        problem=problem,
        reserved=conditions.get("QuotaReserved", False) and not conditions.get("Evicted", False),
        admitted=conditions.get("Admitted", False),
        evicted=conditions.get("Evicted", False),
        requeue_at=text((status.get("requeueState") or {}).get("requeueAt")),
        finished=finished,
        checks=() if finished else tuple(map(_check, status.get("admissionChecks") or ())),
    )


def _check(raw: Object) -> CheckState:
    return CheckState(
        name=text(raw["name"]),
        state=text(raw["state"]),
        message=text(raw.get("message")),
        since=text(raw.get("lastTransitionTime")),
        retries=max(0, integer(raw.get("retryCount"))),
        raw=raw,
    )


def _pod_sets(spec: Object, status: Object, namespace: str) -> Iterator[PodSet]:
    # Kueue may have reserved quota for fewer pods than the spec asks for.
    assigned = (status.get("admission") or {}).get("podSetAssignments") or ()
    counts = {one["name"]: one["count"] for one in assigned if one.get("count") is not None}
    for raw in spec.get("podSets") or ():
        name = text(raw["name"])
        count = counts.get(name, raw.get("count", 1))
        yield PodSet(name, integer(count), pod_template_from(raw["template"], namespace))


def admission_check_from(obj: Object) -> AdmissionCheck:
    """Return the value of an AdmissionCheck.

    Raises:
        KeyError, TypeError: the object cannot be decoded.
    """
    metadata, conditions = obj["metadata"], (obj.get("status") or {}).get("conditions") or ()
    return AdmissionCheck(
        text(metadata["name"]),
        text(metadata["uid"]),
        text(obj["spec"]["controllerName"]),
        active=any((one["type"], one["status"]) == (ACTIVE, "True") for one in conditions),
        other_conditions=tuple([one for one in conditions if one["type"] != ACTIVE]),
    )


class Queued:
    """All Workloads that have not finished, and the AdmissionChecks that one controller answers.

    Args:
        controller: its name.
    """

    def __init__(self, controller: str):
        self._controller = controller
        self.workloads: dict[str, QueuedWorkload] = {}
        """By key."""
        self._checks: dict[str, AdmissionCheck] = {}

    @property
    def kinds(self) -> Kinds:
        """What keeps this up to date, for ``State.follow``."""
        return {
            KUEUE_ADMISSION_CHECKS: Followed(admission_check_from, AdmissionCheckHandler(self)),
            KUEUE_WORKLOADS: Followed(queued_from, QueuedHandler(self)),
        }

    @property
    def checks(self) -> Mapping[str, AdmissionCheck]:
        """The AdmissionChecks that the controller answers, by name."""
        return self._checks

    def put_check(self, check: AdmissionCheck) -> None:
        """Add or replace an AdmissionCheck."""
        if check.controller == self._controller:
            self._checks[check.name] = check

    def remove_check(self, name: str) -> None:
        """Remove an AdmissionCheck, if it is known."""
        self._checks.pop(name, None)

    def asking(self) -> Iterator[str]:
        """Yield the keys of the Workloads that wait for an answer."""
        return (key for key, one in self.workloads.items() if self.is_asking(one))

    def given_back(self, workload: QueuedWorkload) -> Sequence[CheckState]:
        """Return our checks of a Workload that was evicted because of them, and has no pause yet."""
        if not workload.evicted or workload.admitted:
            return ()
        pending = workload.in_state(PENDING, self._checks)
        return [one for one in pending if one.retries and not one.message.startswith(PAUSED)]

    def pausing(self, workload: QueuedWorkload) -> Sequence[CheckState]:
        """Return our checks of an evicted Workload that asked Kueue for a pause, which Kueue has noted."""
        if not workload.evicted or workload.admitted:
            return ()
        # An older pause may still be noted. Both times are as Go writes them.
        return [one for one in workload.in_state(RETRY, self._checks) if workload.requeue_at > one.since]

    def is_asking(self, workload: QueuedWorkload) -> bool:
        """Return whether the Workload waits for an answer."""
        return workload.reserved and not workload.admitted and bool(workload.in_state(PENDING, self._checks))


class QueuedHandler:
    """Workloads of Kueue."""

    def __init__(self, queued: Queued):
        self._queued = queued

    def on_update(self, workload: QueuedWorkload, changes: Changes) -> None:
        """See ``Handler``."""
        if workload.finished:
            self.on_delete(workload.key, changes)
            return
        self._queued.workloads[workload.key] = workload
        queued = self._queued
        if queued.is_asking(workload) or queued.given_back(workload) or queued.pausing(workload):
            changes.others[KUEUE_WORKLOADS, workload.key] = None

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._queued.workloads.pop(key, None)


class AdmissionCheckHandler:
    """AdmissionChecks of Kueue."""

    def __init__(self, queued: Queued):
        self._queued = queued

    def on_update(self, check: AdmissionCheck, changes: Changes) -> None:
        """See ``Handler``. A check that is new may have been asked for before it was known."""
        known = check.name in self._queued.checks
        self._queued.put_check(check)
        if check.name in self._queued.checks:
            changes.others[KUEUE_ADMISSION_CHECKS, check.name] = None
            if not known:
                changes.others.update(dict.fromkeys((KUEUE_WORKLOADS, key) for key in self._queued.asking()))

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._queued.remove_check(key)
