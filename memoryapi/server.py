"""The calls of ``driver.kube.api.Api``, answered from a store in memory."""

import random
import threading
from collections.abc import Collection, Iterator
from typing import Any

from driver.clock import Clock
from driver.kube.api import (
    NAMESPACES,
    PODS,
    Conflict,
    Invalid,
    NotFound,
    Object,
    Page,
    PatchType,
    Resource,
    WatchEvent,
)
from memoryapi import applying, claims, plain, pods, slices
from memoryapi.kinds import Kind, at
from memoryapi.patches import json_patch, merge, strategic
from memoryapi.schema import kind as type_of
from memoryapi.selectors import Matches, everything, matcher
from memoryapi.store import Change, Entry, Store
from memoryapi.writing import Writer, key_of

_KINDS = (
    plain.NODES_KIND,
    plain.NAMESPACES_KIND,
    pods.PODS_KIND,
    plain.EVENTS_KIND,
    plain.LEASES_KIND,
    plain.JOBS_KIND,
    claims.CLAIMS_KIND,
    claims.TEMPLATES_KIND,
    slices.SLICES_KIND,
    slices.CLASSES_KIND,
    slices.TAINT_RULES_KIND,
)
Entries = list[Entry]
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class MemoryApi:
    """Implements ``driver.kube.api.Api`` without a server. Thread-safe.

    Controllers are not part of it: nobody makes claims from templates, binds pods or collects garbage here.

    Args:
        clock: where timestamps come from.
        seed: of uids and generated names; the same calls give the same objects.
        history: how many changes of each kind a watch may go back.
        blocking: a watch waits for changes until its timeout, as on a real server. Without it a watch ends, after a
            bookmark, as soon as it has delivered all there is, so that a single thread can step a whole system.
        unserved: kinds this API does not have, such as DeviceTaintRules before Kubernetes 1.37.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        history: int = 1000,
        blocking: bool = False,
        unserved: Collection[Resource] = (),
    ):
        self._clock = clock
        self._store = Store(history)
        self._blocking = blocking
        self._changed = threading.Condition(threading.RLock())
        self._kinds = {kind.resource: kind for kind in _KINDS if kind.resource not in unserved}
        self._ending: set[str] = set()
        self._writer = Writer(self._store, clock, random.Random(seed))
        for name in _NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": name}})

    @property
    def resource_version(self) -> str:
        """The version of the latest write."""
        return str(self._store.version)

    def compact(self) -> None:
        """Forget all history: watches from older versions and half-read lists get Gone."""
        with self._changed:
            self._store.compact()

    # Reading

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """The object, complete."""
        with self._changed:
            kind = self._kind(resource)
            return self._entry(kind, name, namespace).thaw()

    def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Page:
        """One page, in order of namespace and name."""
        with self._changed:
            kind = self._kind(resource)
            matches = matcher(label_selector, field_selector, kind.fields)
            if continue_token:
                version, entries = self._store.resume(continue_token)
            else:
                version, entries = self._store.version, self._select(resource, namespace, matches)
            part, token = self._store.page(entries, version, limit)
            return Page([entry.thaw() for entry in part], str(version), token)

    def _select(self, resource: Resource, namespace: str, matches: Matches) -> Entries:
        table = self._store.table(resource)
        if namespace:
            prefix = f"{namespace}/"
            found = [(key, entry) for key, entry in table.items() if key.startswith(prefix) and matches(entry.object)]
        elif matches is everything:
            found = [*table.items()]
        else:
            found = [(key, entry) for key, entry in table.items() if matches(entry.object)]
        return [entry for _, entry in sorted(found, key=lambda item: item[0])]

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> Iterator[WatchEvent]:
        """Changes after ``resource_version``, in order, and a bookmark at the end."""
        with self._changed:
            kind = self._kind(resource)
            selected = matcher(label_selector, field_selector, kind.fields)
            version = int(resource_version)
            self._store.since(resource, version)

        def matches(obj: Object) -> bool:
            return (not namespace or obj["metadata"].get("namespace") == namespace) and selected(obj)

        return self._stream(kind, version, matches, self._clock.monotonic() + timeout_seconds)

    def _stream(self, kind: Kind, version: int, matches: Matches, deadline: float) -> Iterator[WatchEvent]:
        while True:
            with self._changed:
                changes = self._store.since(kind.resource, version)
                now = self._store.version
                left = deadline - self._clock.monotonic()
                if not changes and self._blocking and left > 0:
                    self._changed.wait(min(left, 1.0))
                    continue
            for change in changes:
                if event := _event(change, matches):
                    yield event
            version = max(version, now)
            if not self._blocking or left <= 0:
                bookmark = {"resourceVersion": str(now), "creationTimestamp": None}
                kind_of = {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version}
                yield WatchEvent("BOOKMARK", {**kind_of, "metadata": bookmark})
                return

    # Writing

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """The stored object."""
        with self._changed:
            kind = self._kind(resource)
            namespace = self._namespace(kind, obj, namespace)
            return self._done(self._writer.create(kind, obj, namespace))

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Replace the object, or the part of it that ``subresource`` is."""
        with self._changed:
            kind = self._kind(resource, subresource)
            metadata = obj.get("metadata") or {}
            namespace = self._namespace(kind, obj, "")
            entry = self._store.table(resource).get(key_of(namespace, metadata.get("name", "")))
            if entry is None and kind.create_on_update and not subresource and not metadata.get("resourceVersion"):
                return self._done(self._writer.create(kind, obj, namespace))
            if entry is None:
                raise _not_found(resource, metadata.get("name", ""))
            return self._done(self._writer.replace(kind, entry, obj, subresource, is_patch=False))

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        patch_type: PatchType = "merge",
        field_manager: str = "",
        force: bool = False,
    ) -> Object:
        """Change the object; ``apply`` also creates it."""
        with self._changed:
            kind = self._kind(resource, subresource)
            self._namespace(kind, {}, namespace)
            if patch_type == "apply":
                return self._apply(kind, name, patch, namespace, subresource, field_manager, force=force)
            entry = self._entry(kind, name, namespace)
            if patch_type == "merge":
                wanted = merge(entry.object, patch)
            elif patch_type == "strategic":
                wanted = strategic(type_of(resource.kind), entry.object, patch)
            else:
                wanted = json_patch(entry.object, patch)
            return self._done(self._writer.replace(kind, entry, wanted, subresource, is_patch=True))

    def _apply(
        self, kind: Kind, name: str, config: Any, namespace: str, subresource: str, manager: str, *, force: bool
    ) -> Object:
        if not manager:
            raise Invalid("fieldManager: Required value: is required for apply patch", status=422, reason="Invalid")
        config = applying.only_written(config, kind, subresource)
        entry = self._store.table(kind.resource).get(key_of(namespace, name))
        if entry is None and subresource:
            raise _not_found(kind.resource, name)
        live = entry.object if entry else {"metadata": {"name": name}}
        owners = (entry.applied if entry else None) or applying.NOBODY
        wanted, owners = applying.apply(kind, live, owners, config, manager, force=force)
        if entry is None:
            return self._done(self._writer.create(kind, wanted, namespace, applied=owners))
        return self._done(self._writer.replace(kind, entry, wanted, subresource, is_patch=True, applied=owners))

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        """Remove the object, or mark it for removal while finalizers or its grace period hold it."""
        with self._changed:
            kind = self._kind(resource)
            entry = self._entry(kind, name, namespace)
            metadata = entry.object["metadata"]
            for wanted, found in ((uid, metadata["uid"]), (resource_version, metadata["resourceVersion"])):
                if wanted and wanted != found:
                    raise Conflict(
                        f"the precondition {wanted!r} does not match the object's {found!r}",
                        status=409,
                        reason="Conflict",
                    )
            self._writer.delete(kind, entry, grace_period_seconds)
            if resource == NAMESPACES:
                self._ending.add(name)
                self._empty_namespace(name)
            self._end_namespaces()
            self._changed.notify_all()

    def bind(self, namespace: str, name: str, node: str) -> Object:
        """What kube-scheduler's POST to ``pods/binding`` does: give the pod its node."""
        with self._changed:
            entry = self._entry(self._kind(PODS), name, namespace)
            return self._done(self._writer.bind(pods.PODS_KIND, entry, node))

    def _done(self, entry: Entry) -> Object:
        self._end_namespaces()
        self._changed.notify_all()
        return entry.thaw()

    def _empty_namespace(self, name: str) -> None:
        """What the namespace controller does, as far as an API alone can: ask for the end of everything in it."""
        for kind in self._kinds.values():
            if kind.resource.namespaced:
                for entry in self._select(kind.resource, name, everything):
                    self._writer.delete(kind, entry, None)

    def _end_namespaces(self) -> None:
        """Remove the namespaces that are going and have become empty."""
        for name in sorted(self._ending):
            if any(self._select(resource, name, everything) for resource in self._kinds if resource.namespaced):
                continue
            entry = self._store.table(NAMESPACES).get(key_of("", name))
            if entry is not None:
                self._writer.finish(self._kinds[NAMESPACES], entry)
            if key_of("", name) not in self._store.table(NAMESPACES):
                self._ending.discard(name)

    # Finding

    def _kind(self, resource: Resource, subresource: str = "") -> Kind:
        kind = self._kinds.get(resource)
        if kind is None or (subresource and not (subresource == "status" and kind.has_status)):
            raise NotFound("the server could not find the requested resource", status=404, reason="NotFound")
        return kind

    def _entry(self, kind: Kind, name: str, namespace: str) -> Entry:
        if not name:
            raise Invalid("name: Required value: the call is for one object", status=400, reason="BadRequest")
        entry = self._store.table(kind.resource).get(key_of(namespace if kind.resource.namespaced else "", name))
        if entry is None:
            raise _not_found(kind.resource, name)
        return entry

    def _namespace(self, kind: Kind, obj: Object, asked: str) -> str:
        own: str = at(obj, "metadata.namespace") or ""
        if not kind.resource.namespaced:
            return ""
        if own and asked and own != asked:
            raise Invalid(
                f"the namespace of the provided object ({own}) does not match the namespace of the call ({asked})",
                status=400,
                reason="BadRequest",
            )
        return own or asked


def _event(change: Change, matches: Matches) -> WatchEvent | None:
    """What a watch with a selector sees of a change: an object that stops matching is gone for it."""
    before = change.before is not None and matches(change.before.object)
    after = change.after is not None and matches(change.after.object)
    if after:
        assert change.after
        return WatchEvent("MODIFIED" if before else "ADDED", change.after.thaw())
    if not before:
        return None
    assert change.before
    if change.gone:
        return WatchEvent("DELETED", change.gone.thaw())
    last = change.before.thaw()
    last["metadata"]["resourceVersion"] = str(change.version)
    return WatchEvent("DELETED", last)


def _not_found(resource: Resource, name: str) -> NotFound:
    where = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    return NotFound(f'{where} "{name}" not found', status=404, reason="NotFound")
