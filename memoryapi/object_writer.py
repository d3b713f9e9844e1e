"""Single writes: create an object, change it under optimistic concurrency, mark it for deletion, remove it."""

import random
import re
import uuid
from datetime import datetime

from driver.clock import Clock, rfc3339
from driver.errors import Fault
from driver.kube.api import NAMESPACES, AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Object, Unavailable
from memoryapi.kind_rules import KindRules, Write
from memoryapi.schema import parse, type_of
from memoryapi.store import Entry, Store, freeze
from memoryapi.versions import V1_37

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
"""The namespace label that allows claims with admin access."""

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*", re.ASCII)
_SERVER_METADATA = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_STATUS_METADATA = ("labels", "annotations")


def key_of(namespace: str, name: str) -> str:
    """The key of an object in the store."""
    return f"{namespace}/{name}"


class ObjectWriter:
    """Performs single writes; the caller must hold the lock."""

    def __init__(self, store: Store, clock: Clock, randomness: random.Random):
        self._store = store
        self._clock = clock
        self._random = randomness
        self.kubernetes = V1_37
        """The version whose rules writes have to meet."""

    def create(self, kind: KindRules, obj: Object, namespace: str) -> Entry:
        """Store a new object.

        Raises:
            AlreadyExists, NotFound (its namespace), Forbidden (the namespace is being deleted), Invalid.
        """
        new = self._parsed(kind, obj)
        metadata = new.setdefault("metadata", {})
        for name in (*_SERVER_METADATA, "managedFields", "selfLink"):
            metadata.pop(name, None)
        if metadata.pop("resourceVersion", ""):
            # A real server answers this mistake with 500.
            raise Unavailable("resourceVersion should not be set on objects to be created", status=500)
        if kind.resource.namespaced:
            self._check_namespace(namespace)
            metadata["namespace"] = namespace
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"][:58] + "".join(self._random.choices(_LETTERS, k=5))
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = rfc3339(self._clock.now())
        if kind.counts_generation:
            metadata["generation"] = 1
        if kind.has_status and not kind.keeps_status_on_create:
            new["status"] = {}
        now, admin = rfc3339(self._clock.now()), self._admin_namespace(namespace)
        write = Write(new, None, "", now, admin_namespace=admin, kubernetes=self.kubernetes)
        kind.default(write)
        self._refuse(kind, new, [*_name_faults(kind, metadata), *kind.faults(write)])
        key = key_of(namespace, metadata["name"])
        if key in self._store.table(kind.resource):
            raise AlreadyExists(
                f'{kind.resource.plural} "{metadata["name"]}" already exists', status=409, reason="AlreadyExists"
            )
        return self._put(kind, key, new)

    def _check_namespace(self, namespace: str) -> None:
        if not namespace:
            raise Invalid("metadata.namespace: Required value", status=405, reason="MethodNotAllowed")
        entry = self._store.table(NAMESPACES).get(key_of("", namespace))
        if entry is None:
            raise NotFound(f'namespaces "{namespace}" not found', status=404, reason="NotFound")
        if entry.object["metadata"].get("deletionTimestamp"):
            raise Forbidden(
                f"unable to create new content in namespace {namespace} because it is being terminated",
                status=403,
                reason="Forbidden",
            )

    def _admin_namespace(self, namespace: str) -> bool:
        entry = self._store.table(NAMESPACES).get(key_of("", namespace))
        return entry is not None and entry.object["metadata"].get("labels", {}).get(ADMIN_ACCESS) == "true"

    def replace(self, kind: KindRules, entry: Entry, obj: Object, subresource: str, *, is_patch: bool) -> Entry:
        """Store ``obj`` as the next version of ``entry``; writing the same content again makes no new version.

        Raises:
            Conflict: ``obj`` has a resourceVersion or uid that is not that of the stored object.
            Invalid: the change is not allowed.
        """
        new, old = self._parsed(kind, obj), entry.object
        self._check_version(kind, new, old, is_patch=is_patch)
        immutable = _immutable_metadata_faults(new["metadata"], old["metadata"])
        new["metadata"] = _metadata(kind, new["metadata"], old["metadata"], subresource)
        if subresource:
            new = {**old, "status": new.get("status", {}), "metadata": new["metadata"]}
        elif kind.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        write = Write(new, old, subresource, rfc3339(self._clock.now()), kubernetes=self.kubernetes)
        kind.default(write)
        self._refuse(kind, new, [*immutable, *_metadata_faults(new, old), *kind.faults(write)])
        if kind.counts_generation and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if new == old:
            return entry
        if _can_be_removed(new):
            return self._remove(kind, _key(old), new)
        return self._put(kind, _key(old), new)

    def _check_version(self, kind: KindRules, new: Object, old: Object, *, is_patch: bool) -> None:
        requested, stored = new.get("metadata", {}), old["metadata"]
        name = stored["name"]
        stored_namespace = stored.get("namespace", "")
        if requested.get("name", name) != name or requested.get("namespace", "") not in ("", stored_namespace):
            raise Invalid(
                "the name and namespace of the object do not match those of the request",
                status=400,
                reason="BadRequest",
            )
        if requested.get("uid", stored["uid"]) != stored["uid"] and not is_patch:
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.resource.plural} "{name}": Precondition failed: UID in '
                f"precondition: {requested['uid']}, UID in object meta: {stored['uid']}",
                status=409,
                reason="Conflict",
            )
        version = requested.get("resourceVersion", "")
        if version and version != stored["resourceVersion"]:
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.resource.plural} "{name}": the object has been modified; '
                "please apply your changes to the latest version and try again",
                status=409,
                reason="Conflict",
            )
        if not version and not kind.unconditional_update:
            self._refuse(
                kind, old, [Fault("metadata.resourceVersion", "Invalid value: must be specified for an update")]
            )

    def delete(self, kind: KindRules, entry: Entry, requested_grace: int | None) -> None:
        """Remove the object now, or mark it for deletion while finalizers or its grace period keep it."""
        old = entry.object
        marked = old["metadata"].get("deletionGracePeriodSeconds")
        if marked is not None and (kind.grace is None or requested_grace is None or requested_grace >= marked):
            return
        grace = kind.grace(old, requested_grace) if kind.grace else 0
        last = old
        if kind.grace or _has_finalizers(old):
            last = self._put(kind, _key(old), self._marked_for_deletion(kind, old, grace)).object
        if grace == 0 and not _has_finalizers(last):
            self._remove(kind, _key(old), last)

    def _marked_for_deletion(self, kind: KindRules, old: Object, grace: int) -> Object:
        metadata = dict(old["metadata"])
        ends = self._clock.now() + grace
        if "deletionTimestamp" in metadata:
            requested_at = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
            ends = max(self._clock.now(), requested_at - metadata["deletionGracePeriodSeconds"] + grace)
        elif "generation" in metadata:
            metadata["generation"] += 1
        metadata |= {"deletionTimestamp": rfc3339(ends), "deletionGracePeriodSeconds": grace}
        if kind.resource == NAMESPACES:
            return {**old, "metadata": metadata, "status": {**old["status"], "phase": "Terminating"}}
        return {**old, "metadata": metadata}

    def remove_namespace(self, kind: KindRules, entry: Entry) -> None:
        """Remove a namespace that is marked for deletion and empty, unless it has finalizers in its metadata."""
        if not entry.object["metadata"].get("finalizers"):
            self._remove(kind, _key(entry.object), entry.object)

    def bind(self, kind: KindRules, entry: Entry, node: str) -> Entry:
        """Bind a pod to a node.

        Raises:
            Conflict: the pod is bound, gated, or marked for deletion.
        """
        old = entry.object
        spec, name = old["spec"], old["metadata"]["name"]
        reason = "has gates" if spec.get("schedulingGates") else "is being deleted"
        if spec.get("nodeName") or spec.get("schedulingGates") or old["metadata"].get("deletionTimestamp"):
            why = f"is already assigned to node {spec['nodeName']!r}" if spec.get("nodeName") else reason
            raise Conflict(f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} {why}', status=409)
        conditions = [item for item in old["status"].get("conditions", ()) if item["type"] != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(self._clock.now())}
        new = {
            **old,
            "metadata": {**old["metadata"], "generation": old["metadata"]["generation"] + 1},
            "spec": {**spec, "nodeName": node},
            "status": {**old["status"], "conditions": [*conditions, scheduled]},
        }
        return self._put(kind, _key(old), new)

    def _put(self, kind: KindRules, key: str, new: Object) -> Entry:
        entry = freeze(self._versioned(kind, new))
        self._store.write(kind.resource, key, entry)
        return entry

    def _remove(self, kind: KindRules, key: str, last: Object) -> Entry:
        entry = freeze(self._versioned(kind, last))
        self._store.remove(kind.resource, key, entry)
        return entry

    def _versioned(self, kind: KindRules, obj: Object) -> Object:
        return {
            **obj,
            "apiVersion": kind.resource.api_version,
            "kind": kind.resource.kind,
            "metadata": {**obj["metadata"], "resourceVersion": str(self._store.next_version())},
        }

    def _parsed(self, kind: KindRules, obj: Object) -> Object:
        resource = kind.resource
        for name, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            if obj.get(name, expected) != expected:
                raise Invalid(
                    f"{name}: {obj[name]!r} in the body does not match the request's {expected!r}",
                    status=400,
                    reason="BadRequest",
                )
        parsed = parse(type_of(resource.kind), obj)
        if parsed.mistyped or parsed.unknown:
            problems = [*map(str, parsed.mistyped), *(f'unknown field "{name}"' for name in parsed.unknown)]
            raise Invalid(f"strict decoding error: {', '.join(problems)}", status=400, reason="BadRequest")
        new: Object = parsed.value
        self._refuse(kind, new, parsed.faults)
        return new

    def _refuse(self, kind: KindRules, obj: Object, faults: list[Fault]) -> None:
        if faults:
            name = obj.get("metadata", {}).get("name", "")
            listed = ", ".join(map(str, faults))
            what = f"{kind.resource.kind}.{kind.resource.group}" if kind.resource.group else kind.resource.kind
            raise Invalid(f'{what} "{name}" is invalid: [{listed}]', status=422, reason="Invalid")


def _metadata(kind: KindRules, new: Object, old: Object, subresource: str) -> Object:
    """The metadata after a write: the server's fields stay, and /status changes at most labels and annotations."""
    if subresource:
        kept = dict(old)
        if not kind.status_resets_metadata:
            for name in _STATUS_METADATA:
                kept.pop(name, None)
                if name in new:
                    kept[name] = new[name]
        return kept
    kept = {name: value for name, value in new.items() if name not in _SERVER_METADATA and name != "managedFields"}
    for name in (*_SERVER_METADATA, "resourceVersion", "name", "namespace", "generateName"):
        kept.pop(name, None)
        if name in old:
            kept[name] = old[name]
    return kept


def _immutable_metadata_faults(new: Object, old: Object) -> list[Fault]:
    """Changes of fields that a writer may leave out but must not change."""
    return [
        Fault(f"metadata.{name}", f"Invalid value: {new[name]!r}: field is immutable")
        for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if name in new and new[name] != old.get(name)
    ]


def _metadata_faults(new: Object, old: Object) -> list[Fault]:
    if not old["metadata"].get("deletionTimestamp"):
        return []
    added = set(new["metadata"].get("finalizers", ())) - set(old["metadata"].get("finalizers", ()))
    text = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"
    return [Fault("metadata.finalizers", f"{text} {sorted(added)}")] if added else []


def _name_faults(kind: KindRules, metadata: Object) -> list[Fault]:
    name = metadata.get("name", "")
    if not name:
        return [Fault("metadata.name", "Required value: name or generateName is required")]
    rule, longest = (_LABEL, 63) if kind.name_is_label else (_SUBDOMAIN, 253)
    if rule.fullmatch(name) and len(name) <= longest:
        return []
    return [Fault("metadata.name", f"Invalid value: {name!r}: a lowercase RFC 1123 name of at most {longest}")]


def _key(obj: Object) -> str:
    return key_of(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _has_finalizers(obj: Object) -> bool:
    """Whether the object has finalizers, in its metadata or (a namespace) in its spec."""
    return bool(obj["metadata"].get("finalizers") or obj.get("spec", {}).get("finalizers"))


def _can_be_removed(obj: Object) -> bool:
    return obj["metadata"].get("deletionGracePeriodSeconds") == 0 and not _has_finalizers(obj)
