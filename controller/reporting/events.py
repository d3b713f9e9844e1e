"""Events as ``kubectl describe`` shows them. Pure."""

from dataclasses import dataclass
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
