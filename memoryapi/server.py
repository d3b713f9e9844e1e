"""The calls of ``driver.kube.api.Api``, answered from a store in memory."""

import copy
import random
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

from driver.clock import Clock, rfc3339
from driver.kube.api import (
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Api,
    ApiCall,
    Invalid,
    NotFound,
    Object,
    Page,
    Resource,
    WatchEvent,
)
from memoryapi import claims, evictions, pods, simple_kinds, slices
from memoryapi.kind_rules import KindRules, at
from memoryapi.object_writer import ObjectWriter, key_of
from memoryapi.patches import json_patch, merge, strategic
from memoryapi.schema import type_of
from memoryapi.selectors import Matches, everything, matcher
from memoryapi.store import Backup, Change, Entry, Store
from memoryapi.versions import Version

_KINDS = (
    simple_kinds.NODE_RULES,
    simple_kinds.NAMESPACE_RULES,
    pods.POD_RULES,
    evictions.BUDGET_RULES,
    simple_kinds.EVENT_RULES,
    simple_kinds.LEASE_RULES,
    simple_kinds.JOB_RULES,
    simple_kinds.QUOTA_RULES,
    *simple_kinds.VOLUME_RULES,
    claims.CLAIM_RULES,
    claims.CLAIM_TEMPLATE_RULES,
    slices.SLICE_RULES,
    slices.DEVICE_CLASS_RULES,
    slices.DEVICE_TAINT_RULE_RULES,
)
Entries = list[Entry]
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class MemoryApi(Api):
    """Implements ``driver.kube.api.Api`` without a server. Thread-safe.

    Controllers are not part of it: it does not create claims from templates, bind pods or collect garbage.

    Args:
        clock: the source of timestamps.
        seed: for uids and generated names; the same calls give the same objects.
        history: how many changes of each kind are kept for watches.
        blocking: a watch waits for changes until its timeout, as on a real server. Otherwise a watch ends, with a
            bookmark, as soon as it has delivered all changes, so that a single thread can step a whole system.
        unserved: kinds that this API does not serve, such as DeviceTaintRules before Kubernetes 1.37.
        custom: kinds that it serves besides, as custom resources: it checks nothing but their metadata.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 0,
        history: int = 1000,
        blocking: bool = False,
        unserved: Collection[Resource] = (),
        custom: Collection[Resource] = (),
    ):
        self._clock = clock
        self._store = Store(history)
        self._blocking = blocking
        self._changed = threading.Condition(threading.RLock())
        kinds = (*_KINDS, *(simple_kinds.custom_rules(resource) for resource in custom))
        self._kinds = {kind.resource: kind for kind in kinds if kind.resource not in unserved}
        self._terminating: set[str] = set()
        self._copies = True
        self.meets_removal: Callable[[ApiCall], bool] = lambda call: False
        """Says of an update or patch of a removed object whether it met the removal. Then it is answered as by
        Kubernetes 1.38, with the object as it was last, without a resourceVersion; Kubernetes 1.37 leaves the old one.
        Otherwise it gets NotFound."""
        self._writer = ObjectWriter(self._store, clock, random.Random(seed))
        for name in _NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": name}})

    def sharing(self) -> "MemoryApi":
        """The same API for readers that never change an object: they get the stored ones, not copies."""
        shared = copy.copy(self)
        shared._copies = False
        return shared

    def upgrade(self, kubernetes: Version) -> None:
        """Have writes meet the rules of this version from now on, not those of 1.37. What is stored stays."""
        with self._changed:
            self._writer.kubernetes = kubernetes

    def check_unchanged(self) -> None:
        """Check that no reader has changed an object that it shares.

        Raises:
            AssertionError: names the object.
        """
        with self._changed:
            for kind in self._kinds.values():
                for key, entry in self._store.table(kind.resource).items():
                    assert entry.object == entry.thaw(), f"{kind.resource.kind} {key} was changed by a reader"

    @property
    def resource_version(self) -> str:
        """The version of the latest write."""
        return str(self._store.version)

    def compact(self) -> None:
        """Drop all history: watches from older versions and unfinished lists get Gone."""
        with self._changed:
            self._store.compact()

    def backup(self) -> Backup:
        """All objects as they are now (``etcdctl snapshot save``)."""
        with self._changed:
            return self._store.backup()

    def restore(self, backup: Backup, bump: int = 0) -> None:
        """Go back to a backup (``etcdutl snapshot restore``).

        Args:
            bump: as ``--bump-revision`` with ``--mark-compacted``: lists and new writes have versions that are larger
                by this, and every watch gets Gone. With 0, versions are given a second time, and a watch from a version
                that is not given yet delivers nothing until it is.
        """
        with self._changed:
            self._store.restore(backup, bump)
            self._changed.notify_all()

    def call(self, call: ApiCall) -> Any:
        """See ``Api``. A list is in the order of namespace and name; without ``blocking``, a watch ends at once."""
        if call.verb == "get":
            call.meanwhile()
        with self._changed:
            match call.verb:
                case "get":
                    return self._read(self._entry(self._kind(call.resource), call.name, call.namespace))
                case "list":
                    return self._list(call)
                case "watch":
                    return self._watch(call)
                case "create":
                    return self._create(call)
                case "update":
                    return self._update(call)
                case "patch":
                    return self._patch(call)
                case "delete":
                    return self._delete(call)
                case "evict":
                    return self._evict(call)

    # Reading

    def _list(self, call: ApiCall) -> Page:
        kind = self._kind(call.resource)
        matches = matcher(call.label_selector, call.field_selector, kind.fields)
        if call.continue_token:
            version, entries = self._store.resume(call.continue_token)
        else:
            version, entries = self._store.version, self._select(call.resource, call.namespace, matches)
        part, token = self._store.page(entries, version, call.limit)
        return Page([self._read(entry) for entry in part], str(version), token)

    def _select(self, resource: Resource, namespace: str, matches: Matches) -> Entries:
        table = self._store.table(resource)
        if namespace:
            prefix = f"{namespace}/"
            items = [(key, entry) for key, entry in table.items() if key.startswith(prefix) and matches(entry.object)]
        elif matches is everything:
            items = [*table.items()]
        else:
            items = [(key, entry) for key, entry in table.items() if matches(entry.object)]
        return [entry for _, entry in sorted(items, key=lambda item: item[0])]

    def _watch(self, call: ApiCall) -> Iterator[WatchEvent]:
        kind = self._kind(call.resource)
        selected = matcher(call.label_selector, call.field_selector, kind.fields)
        version = int(call.resource_version)
        self._store.since(call.resource, version)

        def matches(obj: Object) -> bool:
            return (not call.namespace or obj["metadata"].get("namespace") == call.namespace) and selected(obj)

        return self._stream(kind, version, matches, self._clock.monotonic() + call.timeout_seconds)

    def _stream(self, kind: KindRules, version: int, matches: Matches, deadline: float) -> Iterator[WatchEvent]:
        while True:
            with self._changed:
                changes = self._store.since(kind.resource, version)
                now = self._store.version
                left = deadline - self._clock.monotonic()
                if not changes and self._blocking and left > 0:
                    self._changed.wait(min(left, 1.0))
                    continue
            for change in changes:
                if event := self._event(change, matches):
                    yield event
            if version > now and not self._blocking:
                return
            version = max(version, now)
            if not self._blocking or left <= 0:
                bookmark = {"resourceVersion": str(now), "creationTimestamp": None}
                kind_of = {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version}
                yield WatchEvent("BOOKMARK", {**kind_of, "metadata": bookmark})
                return

    # Writing

    def _create(self, call: ApiCall) -> Object:
        kind = self._kind(call.resource)
        namespace = self._namespace(kind, call.body, call.namespace)
        return self._done(self._writer.create(kind, call.body, namespace))

    def _update(self, call: ApiCall) -> Object:
        """Replace the object, or the part of it that the subresource serves."""
        kind = self._kind(call.resource, call.subresource)
        namespace = self._namespace(kind, call.body, "")
        entry = self._store.table(call.resource).get(key_of(namespace, call.name))
        if entry is None:
            conditional = (call.body.get("metadata") or {}).get("resourceVersion")
            if kind.create_on_update and not call.subresource and not conditional:
                return self._done(self._writer.create(kind, call.body, namespace))
            return self._just_removed(kind, call, namespace)
        return self._done(self._writer.replace(kind, entry, call.body, call.subresource, is_patch=False))

    def _patch(self, call: ApiCall) -> Object:
        kind = self._kind(call.resource, call.subresource)
        if key_of(call.namespace, call.name) not in self._store.table(call.resource):
            return self._just_removed(kind, call, call.namespace)
        entry = self._entry(kind, call.name, call.namespace)
        match call.patch_type:
            case "merge":
                wanted = merge(entry.object, call.body)
            case "strategic":
                wanted = strategic(type_of(call.resource.kind), entry.object, call.body)
            case "json":
                wanted = json_patch(entry.object, call.body)
        return self._done(self._writer.replace(kind, entry, wanted, call.subresource, is_patch=True))

    def _just_removed(self, kind: KindRules, call: ApiCall, namespace: str) -> Object:
        """The answer to a write of an object that does not exist (see ``meets_removal``).

        Raises:
            NotFound: it did not meet the removal of this object in this version.
        """
        change = self._store.removed(call.resource, key_of(namespace if kind.resource.namespaced else "", call.name))
        wanted = call.body.get("metadata") or {} if isinstance(call.body, dict) else {}
        if change is not None and change.before is not None:
            known = change.before.object["metadata"]
            met = known.get("deletionTimestamp") and all(
                wanted.get(name, known[name]) == known[name] for name in ("uid", "resourceVersion")
            )
            if met and self.meets_removal(call):
                last = change.before.thaw()
                del last["metadata"]["resourceVersion"]
                return last
        raise _not_found(call.resource, call.name)

    def _delete(self, call: ApiCall) -> None:
        """Remove the object, or mark it for deletion while finalizers or its grace period keep it."""
        kind = self._kind(call.resource)
        entry = self._entry(kind, call.name, call.namespace)
        evictions.check_preconditions(entry.object, call.uid, call.resource_version)
        self._writer.delete(kind, entry, call.grace_period_seconds)
        if call.resource == NAMESPACES:
            self._terminating.add(call.name)
            self._empty_namespace(call.name)
        self._remove_empty_namespaces()
        self._changed.notify_all()

    def _evict(self, call: ApiCall) -> None:
        """Mark the pod and delete it, if no budget forbids it; on trial, only say whether one does."""
        kind = self._kind(call.resource)
        entry = self._entry(kind, call.name, call.namespace)
        pod, now = entry.object, rfc3339(self._clock.now())
        if not evictions.ignores_budgets(pod) and POD_DISRUPTION_BUDGETS in self._kinds:
            of_budgets = self._kinds[POD_DISRUPTION_BUDGETS]
            known = [one.object for one in self._select(POD_DISRUPTION_BUDGETS, call.namespace, everything)]
            budget = evictions.used_budget(pod, known)
            if budget and not call.dry_run:
                # A real server does so before it looks at the preconditions.
                stored = self._entry(of_budgets, budget["metadata"]["name"], call.namespace)
                self._writer.replace(
                    of_budgets, stored, evictions.after_use(budget, call.name, now), "status", is_patch=False
                )
        evictions.check_preconditions(pod, call.uid, call.resource_version)
        if call.dry_run:
            return
        entry = self._writer.replace(kind, entry, evictions.marked(pod, now), "status", is_patch=False)
        self._writer.delete(kind, entry, call.grace_period_seconds)
        self._remove_empty_namespaces()
        self._changed.notify_all()

    def bind(self, namespace: str, name: str, node: str) -> Object:
        """Bind the pod to the node, as a POST to ``pods/binding`` does."""
        with self._changed:
            entry = self._entry(self._kind(PODS), name, namespace)
            return self._done(self._writer.bind(pods.POD_RULES, entry, node))

    def _done(self, entry: Entry) -> Object:
        self._remove_empty_namespaces()
        self._changed.notify_all()
        return self._read(entry)

    def _empty_namespace(self, name: str) -> None:
        """Delete all objects in a namespace, as the namespace controller does."""
        for kind in self._kinds.values():
            if kind.resource.namespaced:
                for entry in self._select(kind.resource, name, everything):
                    self._writer.delete(kind, entry, None)

    def _remove_empty_namespaces(self) -> None:
        """Remove the namespaces that are marked for deletion and empty."""
        for name in sorted(self._terminating):
            if any(self._select(resource, name, everything) for resource in self._kinds if resource.namespaced):
                continue
            entry = self._store.table(NAMESPACES).get(key_of("", name))
            if entry is not None:
                self._writer.remove_namespace(self._kinds[NAMESPACES], entry)
            if key_of("", name) not in self._store.table(NAMESPACES):
                self._terminating.discard(name)

    def _event(self, change: Change, matches: Matches) -> WatchEvent | None:
        """The event of a change for a watch with a selector: an object that no longer matches is DELETED."""
        before = change.before is not None and matches(change.before.object)
        after = change.after is not None and matches(change.after.object)
        if after:
            assert change.after
            return WatchEvent("MODIFIED" if before else "ADDED", self._read(change.after))
        if not before:
            return None
        assert change.before
        if change.removed:
            return WatchEvent("DELETED", self._read(change.removed))
        last = self._read(change.before)
        return WatchEvent("DELETED", {**last, "metadata": {**last["metadata"], "resourceVersion": str(change.version)}})

    def _read(self, entry: Entry) -> Object:
        return entry.thaw() if self._copies else entry.object

    # Finding

    def _kind(self, resource: Resource, subresource: str = "") -> KindRules:
        kind = self._kinds.get(resource)
        if kind is None or (subresource and not (subresource == "status" and kind.has_status)):
            raise NotFound("the server could not find the requested resource", status=404, reason="NotFound")
        return kind

    def _entry(self, kind: KindRules, name: str, namespace: str) -> Entry:
        if not name:
            raise Invalid("name: Required value: the call is for one object", status=400, reason="BadRequest")
        entry = self._store.table(kind.resource).get(key_of(namespace if kind.resource.namespaced else "", name))
        if entry is None:
            raise _not_found(kind.resource, name)
        return entry

    def _namespace(self, kind: KindRules, obj: Object, requested: str) -> str:
        own: str = at(obj, "metadata.namespace") or ""
        if not kind.resource.namespaced:
            return ""
        if own and requested and own != requested:
            raise Invalid(
                f"the namespace of the provided object ({own}) does not match the namespace of the call ({requested})",
                status=400,
                reason="BadRequest",
            )
        return own or requested


def _not_found(resource: Resource, name: str) -> NotFound:
    where = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    return NotFound(f'{where} "{name}" not found', status=404, reason="NotFound")
