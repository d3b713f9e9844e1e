"""Events as ``kubectl describe`` shows them, repeated while a wait lasts: the API server forgets them. Pure."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from controller.writing.steps import RecordEvent, Target
from driver.kube.api import EVENTS, Object, Resource
from driver.limits import bounded

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
