"""Objects with hostile values, which programs read beside those that the API in memory stores.

The API in memory refuses what an API server refuses. What is nested deeply, is no Unicode or makes no sense in a field
that nobody checks is stored by an API server, and is kept here as the bytes that it would send.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, cast

from driver.kube.api import LEASES, NAMESPACES, Api, ApiCall, NotFound, Page, Resource, WatchEvent
from driver.kube.codec import decode_event, decode_page, encode_object
from driver.kube.decorator import ApiDecorator
from memoryapi import MemoryApi
from tests.simulation.event_log import EventLog

T = TypeVar("T")

NAMESPACE: Final = "hostile"
"""Where the hostile objects are whose kind has namespaces. Nothing else is there."""
Encode = Callable[[str], bytes]
"""Returns the JSON text of an object with this resource version."""


@dataclass(frozen=True, slots=True)
class _Change:
    """An object is added or deleted."""

    version: int
    type: Literal["ADDED", "DELETED"]
    key: str
    raw: bytes


class HostileObjects:
    """The hostile objects of a cluster. Their versions are of one series with those of all other objects.

    Args:
        api: what stores the other objects.
        log: each change counts there as a write of its kind.
    """

    def __init__(self, api: MemoryApi, log: EventLog):
        self._api = api
        self._log = log
        self._changes: dict[Resource, list[_Change]] = defaultdict(list)

    def put(self, resource: Resource, name: str, encode: Encode) -> None:
        """Add an object, in place of the one of this name."""
        key = key_of(resource, name)
        if key in self.at(resource):
            self.remove(resource, name)
        version = self._next_version()
        self._note(resource, _Change(version, "ADDED", key, encode(str(version))))

    def remove(self, resource: Resource, name: str) -> None:
        """Delete an object."""
        key = key_of(resource, name)
        last = self.at(resource)[key]
        self._note(resource, _Change(self._next_version(), "DELETED", key, last))

    def _note(self, resource: Resource, change: _Change) -> None:
        self._changes[resource].append(change)
        self._log.count_write(resource)
        self._log.note("somebody", f"{change.type} hostile {resource.kind} {change.key}: {change.raw[:300]!r}")

    def at(self, resource: Resource, version: int | None = None) -> dict[str, bytes]:
        """The objects of a kind by key; ``version`` for those that were there then."""
        found: dict[str, bytes] = {}
        for change in self._changes[resource]:
            if version is None or change.version <= version:
                found.pop(change.key, None)
                if change.type != "DELETED":
                    found[change.key] = change.raw
        return found

    def has_had(self, resource: Resource) -> bool:
        """Whether there has ever been an object of the kind."""
        return bool(self._changes.get(resource))

    def all(self) -> list[tuple[Resource, str]]:
        """Kind and name of each object."""
        return [(kind, key.rpartition("/")[2]) for kind in list(self._changes) for key in self.at(kind)]

    def since(self, resource: Resource, version: int) -> list[tuple[int, WatchEvent]]:
        """The changes of a kind after ``version``, each with its own."""
        return [(change.version, _event(change)) for change in self._changes[resource] if change.version > version]

    def restore(self, version: int) -> None:
        """Forget the changes after this version: the API was restored from a backup of then."""
        for kind, changes in self._changes.items():
            self._changes[kind] = [one for one in changes if one.version <= version]

    def _next_version(self) -> int:
        """Have something else written, of which nobody reads."""
        name, mark = "hostile", {"metadata": {"annotations": {"after": self._api.resource_version}}}
        try:
            lease = self._api.patch(LEASES, name, mark, namespace=NAMESPACE)
        except NotFound:
            self._api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            lease = self._api.create(LEASES, {"metadata": {"name": name, "namespace": NAMESPACE}})
        return int(lease["metadata"]["resourceVersion"])


class HostileApi(ApiDecorator):
    """The API with hostile objects in what is read.

    Who writes to one of them is too late: its owner has deleted it.
    """

    def __init__(self, api: Api, objects: HostileObjects):
        super().__init__(api)
        self._objects = objects

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        """The answer, unless the call is a write to a hostile object."""
        if call.is_write and call.verb != "create" and self._found(call.resource, call.namespace, call.name):
            self._objects.remove(call.resource, call.name)
            raise NotFound(f"{call}: not found", status=404, reason="NotFound")
        return proceed()

    def call(self, call: ApiCall) -> Any:
        """See ``Api``; in a list, hostile objects come last."""
        resource = call.resource
        if not self._objects.has_had(resource):
            return self._api.call(call)
        match call.verb:
            case "get" if raw := self._found(resource, call.namespace, call.name):
                return _page(resource, [raw], "1").items[0]
            case "list":
                return self._with_hostile(resource, super().call(call))
            case "watch":
                # What is wrong with the version is an error of this call, not of the first change.
                return self._merged(resource, int(call.resource_version), super().call(call))
        return super().call(call)

    def _with_hostile(self, resource: Resource, page: Page) -> Page:
        raws = self._objects.at(resource, int(page.resource_version))
        if page.continue_token or not raws:
            return page
        others = [encode_object(obj) for obj in page.items]
        return _page(resource, [*others, *raws.values()], page.resource_version)

    def _merged(self, resource: Resource, position: int, events: Iterator[WatchEvent]) -> Iterator[WatchEvent]:
        for event in events:
            version = int(event.object["metadata"]["resourceVersion"])
            for number, hostile in self._objects.since(resource, position):
                if number <= version:
                    position = number
                    yield hostile
            yield event

    def _found(self, resource: Resource, namespace: str, name: str) -> bytes | None:
        known = self._objects.at(resource)
        return known.get(f"{namespace}/{name}" if resource.namespaced else name) if known else None


def key_of(resource: Resource, name: str) -> str:
    """The key of a hostile object."""
    return f"{NAMESPACE}/{name}" if resource.namespaced else name


def _event(change: _Change) -> WatchEvent:
    kind, obj = decode_event(b'{"type":"%s","object":%s}' % (change.type.encode(), change.raw))
    return WatchEvent(cast("Literal['ADDED']", kind), obj)


def _page(resource: Resource, raws: Sequence[bytes], version: str) -> Page:
    text = b'{"metadata":{"resourceVersion":"%s"},"items":[%s]}' % (version.encode(), b",".join(raws))
    return decode_page(text, {"apiVersion": resource.api_version, "kind": resource.kind})
