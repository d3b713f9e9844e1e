"""The base of every fake component: objects from watches, a work queue, and one piece of work per step."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from driver.clock import Clock
from driver.kube.api import PODS, Api, ApiError, Conflict, NotFound, Object, Resource
from driver.kube.objects import name_key, object_key
from driver.kube.reflector import Delta, Reflector, Removed, Synced, Upserted

WorkKey = tuple[str, ...]
"""The subject of one piece of work; the first item is the kind of work."""

RETRY_SECONDS = 1.0


class ObjectCache:
    """The objects of one kind as last seen, by namespace and name. They are shared: read, never change.

    Args:
        changed: called with each object that was added, changed or removed.
    """

    def __init__(self, changed: Callable[[Object], None]):
        self._objects: dict[tuple[str, str], Object] = {}
        self._changed = changed

    def apply(self, delta: Delta) -> None:
        """Sink of a reflector."""
        if isinstance(delta, Synced):
            for obj in [obj for obj in self._objects.values() if object_key(obj) not in delta.keys]:
                del self._objects[name_key(obj)]
                self._changed(obj)
        elif isinstance(delta, Removed):
            self._objects.pop(name_key(delta.object), None)
            self._changed(delta.object)
        elif isinstance(delta, Upserted):
            before = self._objects.get(name_key(delta.object))
            self._objects[name_key(delta.object)] = delta.object
            self._changed(delta.object)
            if before is not None and before["metadata"]["uid"] != delta.object["metadata"]["uid"]:
                # The watch missed that the earlier object of the name was deleted.
                self._changed(before)

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as last seen."""
        return self._objects.get((namespace, name))

    def all(self) -> Iterable[Object]:
        """All objects, in the order in which they were first seen."""
        return self._objects.values()


class WorkQueue:
    """Keys and when each is due, in virtual seconds. A key is queued at most once."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._due: dict[WorkKey, float] = {}

    def __iter__(self) -> Iterator[WorkKey]:
        return iter(self._due)

    def add(self, key: WorkKey, delay: float = 0.0) -> None:
        """Make ``key`` due after ``delay`` seconds, unless it is due sooner already."""
        due = self._clock.monotonic() + delay
        self._due[key] = min(due, self._due.get(key, due))

    def pop(self) -> WorkKey | None:
        """Remove and return the key that has been due longest; None if nothing is due."""
        if not self._due:
            return None
        key = min(self._due, key=lambda k: self._due[k])
        if self._due[key] > self._clock.monotonic():
            return None
        del self._due[key]
        return key

    def next_due(self) -> float | None:
        """Time at which the next key is due, in seconds of ``Clock.monotonic``."""
        return min(self._due.values()) if self._due else None


class FakeComponent(ABC):
    """A steppable component of Kubernetes. It may be dropped between any two calls and rebuilt on the same API."""

    def __init__(self, api: Api, clock: Clock):
        self.api = api
        self.clock = clock
        self.queue = WorkQueue(clock)
        self.reflectors: list[Reflector] = []
        self._unsynced: list[Reflector] = []

    def watch(self, resource: Resource, changed: Callable[[Object], None], **options: Any) -> ObjectCache:
        """A cache that a reflector of this component keeps up to date."""
        cache = ObjectCache(changed)
        reflector = Reflector(self.api, resource, cache.apply, **options)
        self.reflectors.append(reflector)
        self._unsynced.append(reflector)
        return cache

    def step(self) -> bool:
        """Do the next piece of work that is due; False if there is none."""
        if not self._synced:
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
        """Time of the next work, if nothing changes."""
        return self.queue.next_due() if self._synced else None

    @property
    def _synced(self) -> bool:
        # Once a reflector is synced, it remains so.
        if self._unsynced:
            self._unsynced = [reflector for reflector in self._unsynced if not reflector.synced]
        return not self._unsynced

    @abstractmethod
    def reconcile(self, key: WorkKey) -> None:
        """Do the work for ``key``. After an ApiError it is retried following a pause."""


def get_or_none(api: Api, resource: Resource, namespace: str, name: str) -> Object | None:
    """The object as the API has it now, or None if it does not exist."""
    try:
        return api.get(resource, name, namespace)
    except NotFound:
        return None


def delete_by_uid(api: Api, resource: Resource, obj: Object, **options: Any) -> None:
    """Delete ``obj`` if it is still the same object; it is a success if it was deleted or replaced before."""
    namespace, name = name_key(obj)
    try:
        api.delete(resource, name, namespace, uid=obj["metadata"]["uid"], **options)
    except (NotFound, Conflict):
        return


def mutable_copy(obj: Object) -> Object:
    """A copy that may be changed and sent back."""
    return copy.deepcopy(obj)


def patch_conditions(api: Api, pod: Object, conditions: list[Object], **status: object) -> None:
    """Merge conditions by type, and other fields, into the pod's status."""
    namespace, name = name_key(pod)
    patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": conditions, **status}}
    api.patch(PODS, name, patch, namespace=namespace, subresource="status", patch_type="strategic")
