"""Answers the AdmissionChecks of Kueue that are ours: whether the pods of a Workload would get their devices now.

A Workload for which quota is reserved is answered in the reporting lane, and when no pod or claim has to be decided
about. ``Ready`` lets its pods be made. ``Retry`` has Kueue give the quota back, and reserve it again.

Kueue 0.19 gives the quota back at once only if the answer asks for no pause (``requeueAfterSeconds``): otherwise it
keeps the quota for the whole pause. Without one, it reserves the quota again within the same second, before others have
their turn. So the pause is asked for after the eviction: ``Retry`` without a pause, then, as soon as the Workload is
evicted, ``Retry`` with one, and ``Pending`` when Kueue has noted when it tries again.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from controller.kueue.fitsnow import FitsNow, fits_now
from controller.kueue.queued import ACTIVE, PAUSED, PENDING, READY, RETRY, CheckState, Queued, QueuedWorkload
from controller.refusal import Refusal
from controller.state import Changes
from controller.worker import KeyedQueue, RetryTimes, Shared, Worker
from controller.writing import Lane, WriteResult, WriteSequence
from controller.writing.steps import PatchStatus, Target
from driver.clock import rfc3339
from driver.kube.api import KUEUE_ADMISSION_CHECKS, KUEUE_WORKLOADS, NotFound, Object, Resource

PAUSE_SECONDS: Final = 30
"""The first pause before Kueue tries a Workload again. Each further one is twice as long."""
MOST_PAUSE_SECONDS: Final = 600
PLACED_WITHIN_SECONDS: Final = 30.0
"""Time in which the pods of a Workload that was let go most likely have their devices."""
_AGAIN_SECONDS: Final = 1.0
"""Pause after a write without an answer, or if the object has changed."""
_ACTIVE_MESSAGE: Final = "the controller answers whether the pods of a Workload would get their devices now"


class FitChecks(Worker):
    """Answers Workloads, one at a time, and says of our AdmissionChecks that they are active.

    Args:
        queued: the Workloads and AdmissionChecks that the state follows.
        closed: returns the nodes that are held back for pods and gangs that wait: no Workload is let go to them.
    """

    def __init__(self, shared: Shared, queued: Queued, closed: Callable[[], Collection[str]]):
        super().__init__(shared)
        self._queued = queued
        self._closed = closed
        self._asking: KeyedQueue[tuple[Resource, str]] = KeyedQueue()
        """The Workloads, and those of our AdmissionChecks, that are looked at."""
        self._retries: RetryTimes[tuple[Resource, str]] = RetryTimes(changed=_AGAIN_SECONDS, unanswered=_AGAIN_SECONDS)
        self._answers: dict[str, str] = {}
        """The answers that are being written, by Workload."""

    def note(self, changes: Changes) -> None:
        """Note the Workloads and AdmissionChecks that have changed."""
        for resource in (KUEUE_ADMISSION_CHECKS, KUEUE_WORKLOADS):
            self._look_at(resource, changes.keys_of(resource))

    def restore(self) -> None:
        """Look at everything, at the start of a term."""
        self._look_at(KUEUE_ADMISSION_CHECKS, self._queued.checks)
        self._look_at(KUEUE_WORKLOADS, self._queued.workloads)

    def _look_at(self, resource: Resource, keys: Iterable[str], after: float = 0.0) -> None:
        for key in keys:
            self._asking.add((resource, key), self._clock.monotonic() + after)

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._asking.next_due()

    def work(self) -> bool:
        """Answer one Workload, or say that a check is active; return False if nothing is due."""
        found = self._asking.pop(self._clock.monotonic())
        if found is None:
            return False
        resource, key = found
        if resource == KUEUE_ADMISSION_CHECKS:
            self._activate(key)
        else:
            self._decide(key)
        return True

    def _activate(self, name: str) -> None:
        check = self._queued.checks.get(name)
        if check is None or check.active:
            return
        now = rfc3339(self._clock.now())
        own = {
            "type": ACTIVE,
            "status": "True",
            "reason": ACTIVE,
            "message": _ACTIVE_MESSAGE,
            "lastTransitionTime": now,
        }
        self._write(KUEUE_ADMISSION_CHECKS, name, check.uid, {"conditions": [*check.other_conditions, own]})

    def _decide(self, key: str) -> None:
        workload = self._queued.workloads.get(key)
        if workload is None or key in self._answers:
            return
        if pausing := self._queued.pausing(workload):
            self._write_checks(workload, [(one, PENDING, one.message, None) for one in pausing])
        elif given_back := self._queued.given_back(workload):
            answer = fits_now(self._state, workload, (), self._closed())
            if isinstance(answer, Refusal) and answer.after is None:
                why = f"{PAUSED}{answer.why}"
                self._write_checks(workload, [(one, RETRY, why, _pause(one.retries)) for one in given_back])
        elif self._queued.is_asking(workload):
            self._judge(workload, workload.in_state(PENDING, self._queued.checks))

    def _judge(self, workload: QueuedWorkload, checks: Sequence[CheckState]) -> None:
        match fits_now(self._state, workload, self._ahead(), self._closed()):
            case Refusal(why=why, after=float(after)):
                self._log.info("workload not answered yet", workload=workload.key, reason=why)
                self._look_at(KUEUE_WORKLOADS, [workload.key], after)
            case FitsNow():
                state, why = READY, "the pods would get their devices now"
                self._log.info("workload answered", workload=workload.key, answer=state, reason=why)
                self._write_checks(workload, [(one, state, why, None) for one in checks])
            case Refusal(why=why):
                self._log.info("workload answered", workload=workload.key, answer=RETRY, reason=why)
                self._write_checks(workload, [(one, RETRY, why, None) for one in checks])

    def _ahead(self) -> list[QueuedWorkload]:
        """Return the Workloads that were let go so short a time ago that their pods may have no devices yet."""
        since = self._clock.monotonic() - PLACED_WITHIN_SECONDS
        return [
            one
            for key, one in self._queued.workloads.items()
            if self._answers.get(key) == READY
            or any(self._state.at(check.since) > since for check in one.in_state(READY, self._queued.checks))
        ]

    def _write_checks(
        self, workload: QueuedWorkload, answers: Sequence[tuple[CheckState, str, str, int | None]]
    ) -> None:
        """Write state, message and pause of some checks of a Workload; its other checks stay as they are."""
        now = rfc3339(self._clock.now())
        changed = {one.name: _entry(one.raw, state, message, now, pause) for one, state, message, pause in answers}
        self._answers[workload.key] = answers[0][1]
        entries = [changed.get(one.name, one.raw) for one in workload.checks]
        self._write(KUEUE_WORKLOADS, workload.key, workload.uid, {"admissionChecks": entries})

    def _write(self, resource: Resource, key: str, uid: str, status: Object) -> None:
        target = Target(resource, key if resource.namespaced else f"/{key}", uid, self._state.version_of(resource, key))
        sequence = WriteSequence(("reported", key), (PatchStatus(target, status),), Lane.REPORTING, author=self)
        self._writes.report(((resource, key), "status"), sequence)

    def written(self, result: WriteResult, _: Changes) -> None:
        """Take in the result of a write; after a failure, the object is looked at once more."""
        (step,) = result.sequence.steps
        key, error = result.sequence.subject[1], result.error
        self._answers.pop(key, None)
        if error is None or isinstance(error, NotFound):
            return
        asking = step.target.resource, key
        if self._retries.end(asking, error, self._clock.monotonic()):
            self._log.warning("status not written", kind=step.target.resource.kind, key=key, error=str(error))
        self._asking.add(asking, self._retries.at(asking))


def _pause(retries: int) -> int:
    return min(MOST_PAUSE_SECONDS, PAUSE_SECONDS << min(retries - 1, 8))


def _entry(raw: Object, state: str, message: str, timestamp: str, pause: int | None) -> Object:
    entry = {**raw, "state": state, "message": message, "lastTransitionTime": timestamp, "requeueAfterSeconds": pause}
    return {name: value for name, value in entry.items() if value is not None}
