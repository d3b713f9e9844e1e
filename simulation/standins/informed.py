"""What every stand-in is made of: objects as last seen, a queue of what to look at, one piece of work per step."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from driver.clock import Clock
from driver.kube.api import Api, ApiError, Conflict, NotFound, Object, Resource
from driver.kube.reflector import Delta, Reflector, Removed, Synced

Key = tuple[str, ...]
"""What one piece of work is about; the first part says which kind of work."""

RETRY_SECONDS = 1.0


def name_key(obj: Object) -> tuple[str, str]:
    """Namespace and name of an object; the namespace is "" for cluster-scoped kinds."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def owner_of(obj: Object, kind: str) -> Object | None:
    """The controlling owner reference of ``obj`` if it is of ``kind``."""
    owners: list[Object] = obj["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller") and owner["kind"] == kind), None)


def is_terminal(pod: Object) -> bool:
    """Whether the pod's containers have ended for good."""
    return phase(pod) in ("Succeeded", "Failed")


def phase(pod: Object) -> str:
    """``status.phase``, "Pending" where it is not set yet."""
    return (pod.get("status") or {}).get("phase") or "Pending"


def is_deleting(obj: Object) -> bool:
    """Whether deletion has been asked for."""
    return bool(obj["metadata"].get("deletionTimestamp"))


class Store:
    """The objects of one kind as last seen, by namespace and name. They are shared: read, never change."""

    def __init__(self, changed: Callable[[Object], None]):
        self._objects: dict[tuple[str, str], Object] = {}
        self._changed = changed

    def take(self, delta: Delta) -> None:
        """Sink of a reflector."""
        if isinstance(delta, Synced):
            before, self._objects = self._objects, {name_key(obj): obj for obj in delta.objects}
            for key, obj in {**before, **self._objects}.items():
                self._changed(self._objects.get(key, obj))
        elif isinstance(delta, Removed):
            self._objects.pop(name_key(delta.object), None)
            self._changed(delta.object)
        else:
            self._objects[name_key(delta.object)] = delta.object
            self._changed(delta.object)

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as last seen."""
        return self._objects.get((namespace, name))

    def all(self) -> Iterable[Object]:
        """All objects, oldest knowledge first."""
        return self._objects.values()


class Queue:
    """Keys and when each is due, in virtual seconds; a key waits only once."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._due: dict[Key, float] = {}

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Look at ``key`` after ``delay`` seconds, or sooner if that was planned already."""
        due = self._clock.monotonic() + delay
        self._due[key] = min(due, self._due.get(key, due))

    def pop(self) -> Key | None:
        """The key that has been due longest, taken out; None if nothing is due."""
        if not self._due:
            return None
        key = min(self._due, key=lambda k: self._due[k])
        if self._due[key] > self._clock.monotonic():
            return None
        del self._due[key]
        return key

    def next_due(self) -> float | None:
        """When the next key is due, in seconds of ``Clock.monotonic``."""
        return min(self._due.values(), default=None)


class StandIn(ABC):
    """A steppable part of a cluster. It may be thrown away between any two calls and built anew on the same API."""

    def __init__(self, api: Api, clock: Clock):
        self.api = api
        self.clock = clock
        self.queue = Queue(clock)
        self.reflectors: list[Reflector] = []

    def watch(self, resource: Resource, changed: Callable[[Object], None], **options: Any) -> Store:
        """A store kept up to date by a reflector of this stand-in."""
        store = Store(changed)
        self.reflectors.append(Reflector(self.api, resource, store.take, **options))
        return store

    def step(self) -> bool:
        """Do the next piece of work that is due; False if there is none."""
        if not all(reflector.synced for reflector in self.reflectors):
            return False
        key = self.queue.pop()
        if key is None:
            return False
        try:
            self.reconcile(key)
        except ApiError:
            self.queue.add(key, RETRY_SECONDS)
        return True

    def next_due(self) -> float | None:
        """When there is work again, if nothing changes."""
        return self.queue.next_due()

    @abstractmethod
    def reconcile(self, key: Key) -> None:
        """Make true what ``key`` is about. An ApiError means: again after a pause."""


def fresh(api: Api, resource: Resource, namespace: str, name: str) -> Object | None:
    """The object as the API has it now, or None."""
    try:
        return api.get(resource, name, namespace)
    except NotFound:
        return None


def delete_exactly(api: Api, resource: Resource, obj: Object, **options: Any) -> None:
    """Delete ``obj`` if it is still the same object; gone or replaced is success."""
    namespace, name = name_key(obj)
    try:
        api.delete(resource, name, namespace, uid=obj["metadata"]["uid"], **options)
    except (NotFound, Conflict):
        return


def changed_copy(obj: Object) -> Object:
    """A copy that may be changed and sent back."""
    return copy.deepcopy(obj)
