"""Decodes objects that reflectors report to values. Pure.

Decoding is apart from ``State.apply``, so that it can be done in the thread that reads: the raw objects of a list never
exist all at once, and the thread that decides does not spend its time on them.
"""

from dataclasses import dataclass
from typing import Any

from controller.quotas import Quota, unreadable_quota
from controller.state.changes import Kinds
from controller.state.claims import ClaimRecord, held_record_from
from driver.kube.api import (
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    Object,
    Resource,
    Undecoded,
)
from driver.kube.objects import object_key
from driver.kube.reflector import Delta, Missing, Removed, Restored, Synced, Unreadable


@dataclass(frozen=True, slots=True)
class Decoded:
    """A version of an object as a value."""

    resource: Resource
    key: str
    """``namespace/name``, or ``name``."""
    uid: str
    version: int
    """``metadata.resourceVersion``: versions of one kind are integers that grow with every write (KEP-5504)."""
    value: Any
    """Value for the handler of this kind; None if nothing of the object can be decoded."""
    problem: str = ""
    """Reason why the object, or the part of it that others write, cannot be decoded."""
    listed: int = 0
    """The version of the list that it is in; 0 if it is in none."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object was deleted."""

    resource: Resource
    key: str
    uid: str
    version: int


StateDelta = Decoded | Deleted | Synced | Missing | Unreadable | Restored
"""The changes that ``State.apply`` takes in."""


class Decoder:
    """Decodes objects of every kind that the state keeps. Safe in any thread.

    Args:
        kinds: more may be added before anything is decoded.
    """

    def __init__(self, kinds: Kinds):
        self._kinds = kinds

    def delta(self, delta: Delta) -> StateDelta:
        """Decode a report of a reflector. Never fails: an object that cannot be decoded carries the reason."""
        if isinstance(delta, Synced | Missing | Unreadable | Restored):
            return delta
        if isinstance(delta, Removed):
            metadata = delta.object["metadata"]
            return Deleted(delta.resource, object_key(delta.object), metadata.get("uid", ""), version_of(metadata))
        return self.object(delta.resource, delta.object, number_of(delta.listed))

    def object(self, resource: Resource, obj: Object, listed: int = 0) -> Decoded:
        """Decode an object that was read or written. Never fails, as ``delta``."""
        metadata, problem = obj["metadata"], ""
        value: Any = None
        if isinstance(obj, Undecoded):
            problem = obj.problem
            value = unreadable_quota(obj, problem) if resource == RESOURCE_QUOTAS else None
        else:
            try:
                value = self._kinds[resource].decode(obj)
            except Exception as error:  # noqa: BLE001 - whatever it is, no object keeps others from being served
                problem = repr(error)
                value = self._salvaged(resource, obj, problem)
        key, uid = object_key(obj), metadata.get("uid", "")
        return Decoded(resource, key, uid, version_of(metadata), value, problem=problem, listed=listed)

    def _salvaged(self, resource: Resource, obj: Object, problem: str) -> ClaimRecord | Quota | None:
        """Return what still counts of an object that cannot be decoded; None if nothing does.

        That is a claim with its devices, and a quota that allows nothing.
        """
        if resource == RESOURCE_QUOTAS:
            return unreadable_quota(obj, problem)
        if resource != RESOURCE_CLAIMS:
            return None
        try:
            return held_record_from(obj, problem)
        except Exception:  # noqa: BLE001 - as above; the last known version of the claim goes on counting
            return None


def version_of(metadata: Object) -> int:
    """Return the resource version in an object's metadata; 0 if it has none."""
    return number_of(metadata.get("resourceVersion", ""))


def number_of(version: str) -> int:
    """Return a resource version as a number; 0 if it is none."""
    return int(version) if version.isdecimal() else 0
