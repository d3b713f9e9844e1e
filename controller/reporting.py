"""Reports why pods wait: a condition on the pod, an Event on the pod and on claims that have a fault."""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from controller.quotas import Quota, refusal_by, render
from controller.reconcile.claims import DoubleUse, SickDevices
from controller.reconcile.decisions import Reason, Victim, Wait
from controller.reconcile.othernames import named_within
from controller.state import PodView, State
from controller.state.versions import UndecodedObject
from controller.writing import Author, Lane, WriteResult, Writes, WriteSequence
from controller.writing.sequences import condition, is_about_wish, is_wish, no_wish, pod_target
from controller.writing.sequences import wish as asking
from controller.writing.steps import ObjectKey, PatchPodStatus, ReadObject, RecordEvent, Step, Target
from driver.clock import Clock, rfc3339
from driver.kube.api import EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS, Object, Resource, Unavailable
from driver.limits import bounded
from driver.observe import Logger

_NAME_LIMIT: Final = 200
"""Characters of the object's name in an Event's name, which has to fit into 253 with its suffix."""
_DIGEST_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Note:
    """The content of one Event."""

    resource: Resource
    key: str
    """Key of the object that the Event is about, ``namespace/name``."""
    uid: str
    reason: str
    message: str
    type: str = "Warning"
    """``Warning`` or ``Normal``."""

    @property
    def event(self) -> str:
        """Key of the Event, ``namespace/name``."""
        return event_key(self.key, self.uid, self.reason)


def event_key(key: str, uid: str, reason: str) -> str:
    """Return the key (``namespace/name``) of the Event about the object ``key`` with this uid, for a reason."""
    namespace, name = key.split("/")
    digest = sha256(f"{uid} {reason}".encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{namespace}/{name[:_NAME_LIMIT]}.{digest}"


def event_of(note: Note, *, reporter: str, instance: str, timestamp: str) -> RecordEvent:
    """Return the write of an Event. There is one Event for an object and a reason, and it is counted up.

    The Event's name follows from the object's uid and the reason, so a new run of the program counts up the Event of
    an earlier one. It is a core/v1 Event with ``count``, which ``kubectl describe`` shows as ``x5 over 10m``.

    Args:
        reporter: the reporting component, ``<driver>/controller``.
        instance: of this run of the program.
        timestamp: RFC 3339 in whole seconds.
    """
    namespace, name = note.key.split("/")
    target = Target(EVENTS, note.event, "")
    event: Object = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": target.name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": note.resource.api_version,
            "kind": note.resource.kind,
            "namespace": namespace,
            "name": name,
            "uid": note.uid,
        },
        "type": note.type,
        "reason": note.reason,
        "message": bounded(note.message),
        "source": {"component": "lode-controller"},
        "reportingComponent": reporter,
        "reportingInstance": instance[:128],
        "firstTimestamp": timestamp,
        "lastTimestamp": timestamp,
        "count": 1,
    }
    return RecordEvent(target, event)


REMIND_SECONDS: Final = 3000.0
"""Least time between two repetitions of one Event. kube-apiserver keeps an Event for an hour after its last write
(``--event-ttl``)."""
PACE_SECONDS: Final = 0.1
"""Least time between any two repetitions. Thousands of pods that began to wait at one moment are no burst: 5,000 Events
are written in the ten minutes that are left of the hour."""
_ASK_AGAIN_SECONDS: Final = 600.0
"""Time after which the Event of an earlier run is looked for again, if no answer came."""
_STALE: Final = 1024
"""Entries of the heap that may be out of date, besides as many as there are Events."""


@dataclass(slots=True)
class _Kept:
    note: Note
    due: float
    said: bool
    """True if this run knows the time of the last write."""
    pods: set[str] = field(default_factory=set)
    """The pods that wait because of it."""


class Reminders:
    """The Events that are repeated, each once however many pods wait because of it.

    An Event that an earlier run of the program may have written is looked for before it is repeated.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._of: dict[str, tuple[str, ...]] = {}
        """The Events of each pod."""
        self._later: list[tuple[float, str]] = []
        """A heap of due times and Events; one that is not the Event's is out of date."""
        self._free_at = 0.0
        """Time at which the next Event may be written or looked for."""

    def keep(self, pod: str, notes: Iterable[Note], now: float, *, said: bool) -> None:
        """Keep the Events of a pod that waits, and no other Events of the pod.

        Args:
            said: whether the Events are written now; if not, unknown ones are looked for.
        """
        events = {note.event: note for note in notes}
        self._release(pod, [event for event in self._of.get(pod, ()) if event not in events])
        for event, note in events.items():
            kept = self._kept.get(event)
            if kept is None:
                kept = self._kept[event] = _Kept(note, now, said)
                self._put_off(event, now + REMIND_SECONDS if said else now)
            elif said:
                kept.note, kept.said = note, True
                self._put_off(event, now + REMIND_SECONDS)
            kept.pods.add(pod)
        self._of[pod] = tuple(events)

    def forget(self, pod: str) -> None:
        """Forget the pod, which waits no longer or has no Event."""
        self._release(pod, self._of.pop(pod, ()))

    def next_due(self) -> float | None:
        """Return when ``pop`` has an answer (monotonic seconds); None if there is no Event to repeat."""
        self._drop_stale()
        return max(self._later[0][0], self._free_at) if self._later else None

    def pop(self, now: float) -> tuple[Note, bool] | None:
        """Return the next Event, and True if it is to be written or False if it is to be looked for; None if none is
        due."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, event = self._later[0]
        kept = self._kept[event]
        self._free_at = now + PACE_SECONDS
        self._put_off(event, now + (REMIND_SECONDS if kept.said else _ASK_AGAIN_SECONDS))
        return kept.note, kept.said

    def found(self, event: str, said_at: float | None, now: float) -> None:
        """Note the answer of the API server that was asked for the Event.

        Args:
            said_at: the time of its last write (monotonic seconds); None if there is none, so that it is written now.
        """
        kept = self._kept.get(event)
        if kept is not None and not kept.said:
            kept.said = True
            self._put_off(event, now if said_at is None else max(now, said_at + REMIND_SECONDS))

    def _put_off(self, event: str, due: float) -> None:
        self._kept[event].due = due
        heapq.heappush(self._later, (due, event))
        if len(self._later) > _STALE + 2 * len(self._kept):
            self._later = [(kept.due, event) for event, kept in self._kept.items()]
            heapq.heapify(self._later)

    def _release(self, pod: str, events: Iterable[str]) -> None:
        for event in events:
            pods = self._kept[event].pods
            pods.discard(pod)
            if not pods:
                del self._kept[event]

    def _drop_stale(self) -> None:
        while self._later and ((kept := self._kept.get(self._later[0][1])) is None or kept.due != self._later[0][0]):
            heapq.heappop(self._later)


REWORD_SECONDS: Final = 600.0
"""Time that a message stays while only its words change: in a busy cluster its numbers change all the time."""


@dataclass(frozen=True, slots=True)
class Report:
    """The last message about a pod that waits."""

    uid: str
    reason: str
    message: str
    at: float
    """Time at which the words were reported, or looked at again (monotonic seconds)."""


class LastReports:
    """The last reports about pods that wait.

    After a start, the pod's own condition has the report of an earlier run.
    """

    def __init__(self) -> None:
        self._reports: dict[str, Report] = {}

    def reword_at(self, pod: PodView, reason: str, now: float) -> float | None:
        """Return when (monotonic seconds) other words of the reason become news; None if any words are news now."""
        last = self._last(pod, now)
        return last.at + REWORD_SECONDS if last is not None and last.reason == reason else None

    def report(self, pod: PodView, reason: str, message: str, now: float) -> bool:
        """Remember a message that is to be reported; return whether it is news."""
        last, reword = self._last(pod, now), self.reword_at(pod, reason, now)
        if last is not None and reword is not None and (last.message == message or now < reword):
            if now >= reword:
                self._reports[pod.key] = replace(last, at=now)
            return False
        self._reports[pod.key] = Report(pod.uid, reason, message, now)
        return True

    def words(self, pod: PodView) -> str:
        """Return the last words about the pod; "" if there are none."""
        last = self._reports.get(pod.key)
        return last.message if last is not None else ""

    def forget(self, pod: str) -> None:
        """Forget the pod, which waits no longer or whose write failed: whatever comes next is news."""
        self._reports.pop(pod, None)

    def _last(self, pod: PodView, now: float) -> Report | None:
        last = self._reports.get(pod.key)
        if last is not None and last.uid == pod.uid:
            return last
        if pod.allocated is None or pod.allocated.status != "False":
            return None
        last = self._reports[pod.key] = Report(pod.uid, pod.allocated.reason, pod.allocated.message, now)
        return last


_CONDITION: Final = "condition"
_WISH: Final = "wish"
_FAILED_SCHEDULING: Final = "FailedScheduling"
"""kube-scheduler's reason of an Event about a pod that it finds no node for."""


class Reporter:
    """Has conditions and Events written in the reporting lane, so placing never waits for Events.

    Only news is written: another reason at once, other words for the same reason after ``REWORD_SECONDS``. As long as a
    reason lasts, its Event is repeated before the API server forgets it (``Reminders``).

    Args:
        author: is given the results of reports, and passes them on (``on_result``).
        identity: of this run of the program.
    """

    def __init__(self, writes: Writes, clock: Clock, state: State, log: Logger, *, author: Author, identity: str):
        self._writes = writes
        self._clock = clock
        self._state = state
        self._author = author
        self._identity = identity
        self._last = LastReports()
        self._reminders = Reminders()
        self._wishing: set[str] = set()
        """Pods whose wish for a node was submitted, and may not be known to be written."""
        self._unanswered: set[str] = set()
        """Those of them whose wish has no result yet, so that it is not written twice."""
        self._log = log

    def shows(self, pod: PodView, reason: Reason) -> bool:
        """Return whether the pod's condition has the reason. It may not: a write that places the pod drops waiting
        reports."""
        known = pod.allocated
        return known is not None and (known.status, known.reason) == ("False", reason.value)

    def reword_at(self, pod: PodView, reason: Reason) -> float | None:
        """Return from when on (monotonic seconds) other words of the reason are reported; None if any words are now."""
        return self._last.reword_at(pod, reason.value, self._clock.monotonic())

    def report_wait(self, pod: PodView, wait: Wait, *, event: bool = True, wish: str = "") -> float | None:
        """Report why the pod waits if that is news; return when other words may be reported, if these are not yet.

        Args:
            event: whether there is an Event, too; not if another pod has it, because the wait is about several pods.
            wish: as of ``set_wish``.
        """
        now, reason = self._clock.monotonic(), wait.reason.value
        if not self._last.report(pod, reason, wait.message, now):
            if event:
                self.keep_said(pod, wait.reason, wait.claims, wait.unschedulable)
            else:
                self._reminders.forget(pod.key)
            if not self.shows(pod, wait.reason):
                self._set_condition(pod, wait, wish)
            else:
                self.set_wish(pod, wish)
            return None if self._last.words(pod) == wait.message else self._last.reword_at(pod, reason, now)
        self._log.info("pod waits", pod=pod.key, reason=reason, message=wait.message)
        known = pod.allocated
        if known is None or (known.status, known.reason, known.message) != ("False", reason, wait.message):
            self._set_condition(pod, wait, wish)
        else:
            self.set_wish(pod, wish)
        notes = [*self._notes(pod, wait.claims, reason, wait.message, wait.unschedulable)] if event else []
        for note in notes:
            self._say(note)
        self._reminders.keep(pod.key, notes, now, said=True)
        return None

    def keep_said(self, pod: PodView, reason: Reason, claims: Collection[str] = (), unschedulable: str = "") -> None:
        """Repeat the Events of a pod that still waits for a reported reason before they expire."""
        notes = self._notes(pod, claims, reason.value, self._last.words(pod), unschedulable)
        self._reminders.keep(pod.key, notes, self._clock.monotonic(), said=False)

    def _notes(
        self, pod: PodView, claims: Collection[str], reason: str, message: str, unschedulable: str
    ) -> Iterator[Note]:
        yield Note(PODS, pod.key, pod.uid, reason, message)
        if unschedulable:
            yield Note(PODS, pod.key, pod.uid, _FAILED_SCHEDULING, unschedulable)
        for key in claims:
            if record := self._state.claims.get(key):
                yield Note(RESOURCE_CLAIMS, key, record.claim.uid, reason, message)

    def remind(self) -> bool:
        """Repeat one Event, or look for the Event of an earlier run; return False if nothing is due."""
        due = self._reminders.pop(self._clock.monotonic())
        if due is None:
            return False
        note, said = due
        if said:
            self._say(note)
        else:
            self._write((note.resource, note.key), note.reason, ReadObject(Target(EVENTS, note.event, "")))
        return True

    def next_due(self) -> float | None:
        """Return when ``remind`` has something to do (monotonic seconds); None if there is no Event to repeat."""
        return self._reminders.next_due()

    def on_result(self, result: WriteResult) -> bool:
        """Take in the result of a report; return False if it was not written.

        An Event of an earlier run is looked for again later, if no answer came.
        """
        for answer in result.answers:
            if answer.resource == EVENTS:
                said_at = self._state.at(answer.object.get("lastTimestamp") or "") if answer.object else None
                self._reminders.found(answer.key, said_at, self._clock.monotonic())
        step = result.sequence.steps[0]
        if is_wish(step):
            self._unanswered.discard(step.target.key)
            if not isinstance(result.error, Unavailable):  # Without an answer, it may yet be written.
                self._wishing.discard(step.target.key)
        elif result.error is None and is_about_wish(step):
            self._wishing.discard(step.target.key)
        return result.error is None or isinstance(result.sequence.steps[0], ReadObject)

    def report_taken_back(self, pod: PodView, node: str, message: str) -> None:
        """Report that the pod lost its devices on a node. A condition follows when it is placed anew or waits."""
        text = f"took back the devices on node {node}: {message}"
        self._say(Note(PODS, pod.key, pod.uid, "AllocationTakenBack", text))

    def report_eviction(self, victim: Victim, preemptor: PodView, node: str) -> None:
        """Report on a pod that was evicted, in the words of kube-scheduler, and on the pod that it was evicted for."""
        text = f"Preempted by pod {preemptor.uid} on node {node}"
        self._say(Note(PODS, victim.pod, victim.uid, "Preempted", text, type="Normal"))
        (who,) = named_within([victim.pod], {preemptor.namespace}, "pod")
        text = f"evicted {who if who != victim.pod else f'pod {who}'} from node {node}"
        self._say(Note(PODS, preemptor.key, preemptor.uid, Reason.PREEMPTING.value, text, type="Normal"))

    def report_double_use(self, double: DoubleUse) -> None:
        """Report on every claim of a double use that more is held than there is."""
        for key in (double.claim, *double.rivals):
            if record := self._state.claims.get(key):
                reason = Reason.DOUBLE_USE.value
                self._say(Note(RESOURCE_CLAIMS, key, record.claim.uid, reason, double.message(key)))

    def report_unhealthy(self, use: SickDevices, pods: Collection[str]) -> None:
        """Report on these pods, which use it, that a device does not work."""
        for key in pods:
            if pod := self._state.pods.get(key):
                self._say(Note(PODS, key, pod.uid, Reason.DEVICE_UNHEALTHY.value, use.message))

    def report_unreadable(self, found: UndecodedObject) -> None:
        """Report on an object in a namespace, where its author may look, that it cannot be decoded."""
        if found.resource.namespaced and found.uid:
            message = (
                f"cannot be decoded, and counts as it was before: {found.fault.message}; write it anew without that"
            )
            self._say(Note(found.resource, found.fault.key, found.uid, Reason.UNREADABLE.value, message))

    def report_invalid_quota(self, quota: Quota) -> None:
        """Report on a quota that it cannot be understood, if that is so."""
        if (refusal := refusal_by([quota])) is not None:
            self._log.warning("quota allows nothing", quota=quota.key, faults=[str(fault) for fault in quota.faults])
            self._say(Note(RESOURCE_QUOTAS, quota.key, quota.uid, Reason.QUOTA_INVALID.value, render(refusal)))

    def stop_reminding(self, pod: str) -> None:
        """Stop repeating Events about a pod that does not wait now."""
        self._reminders.forget(pod)

    def forget(self, pod: str) -> None:
        """Forget the pod, which has its devices or whose write failed: the next report is news."""
        self._last.forget(pod)
        self._reminders.forget(pod)

    # What autoscalers read

    def may_wish(self, pod: PodView) -> bool:
        """Return whether the pod asks autoscalers for a node, or may do so once what was submitted is written."""
        return pod.wishes_node or pod.key in self._wishing

    def set_wish(self, pod: PodView, wish: str) -> None:
        """Have the pod ask autoscalers for a node with these words; with "", have it ask no more.

        A pod that asks already keeps its words, until its condition has another reason.
        """
        asks = pod.wishes_node or pod.key in self._unanswered
        if (not asks) if wish else self.may_wish(pod):
            self._write((PODS, pod.key), _WISH, self._status_step(pod, [], wish))

    def end_wish(self, pod: str) -> None:
        """Take in that a placing write that is submitted ends the wish of the pod (key)."""
        self._wishing.discard(pod)
        self._unanswered.discard(pod)

    def _status_step(
        self, pod: PodView, conditions: Sequence[Object], wish: str, *, anew: bool = False
    ) -> PatchPodStatus:
        """Return the write of these conditions, and of the wish if it has to be written.

        Args:
            anew: whether a pod that asks already gets these words instead of its own.
        """
        timestamp, version, written = rfc3339(self._clock.now()), "", [*conditions]
        if wish and (anew or not pod.wishes_node):
            # It is refused once anything else was written about the pod: it may be late.
            version = self._state.version_of(PODS, pod.key)
            written.append(asking(wish, timestamp))
            self._wishing.add(pod.key)
            self._unanswered.add(pod.key)
        elif not wish and self.may_wish(pod):
            written.append(no_wish(timestamp))
            self._unanswered.discard(pod.key)
        return PatchPodStatus(pod_target(pod, version), {"conditions": written})

    def _set_condition(self, pod: PodView, wait: Wait, wish: str) -> None:
        timestamp = rfc3339(self._clock.now())
        own = condition(self._state, pod, timestamp, status="False", reason=wait.reason.value, message=wait.message)
        anew = bool(wait.unschedulable) or not self.shows(pod, wait.reason)
        step = self._status_step(pod, [own], wish, anew=anew)
        if pod.nominated:
            step.status["nominatedNodeName"] = None
        self._write((PODS, pod.key), _CONDITION, step)

    def _say(self, note: Note) -> None:
        step = event_of(
            note,
            reporter=f"{self._state.names.driver}/controller",
            instance=self._identity,
            timestamp=rfc3339(self._clock.now()),
        )
        self._write((note.resource, note.key), note.reason, step)

    def _write(self, about: ObjectKey, what: str, step: Step) -> None:
        sequence = WriteSequence(("reported", about[1]), (step,), Lane.REPORTING, author=self._author)
        self._writes.report((about, what), sequence)
