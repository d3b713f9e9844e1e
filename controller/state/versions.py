"""Which version of each object is known. Pure.

Resource versions of one kind are integers that grow with every write (KEP-5504). So a watch that lags behind the
controller's own writes is recognized, and cannot make a device look free again.
"""

from collections.abc import Collection
from enum import Enum

from driver.kube.api import Object, Resource


class Arrival(Enum):
    """How an object relates to the version of it that is known."""

    STALE = "no newer than the known version"
    UPDATED = "new, or a newer version of the same object"
    REPLACED = "another object of the same name; the known one was deleted meanwhile"


class ObjectVersions:
    """The uid and resource version of every known object, and which kinds were listed completely."""

    def __init__(self) -> None:
        self._known: dict[Resource, dict[str, tuple[str, str]]] = {}
        self._listed: set[Resource] = set()

    def arrive(self, resource: Resource, obj: Object) -> Arrival:
        """Record the object's version unless it is stale."""
        metadata, known = obj["metadata"], self._known.setdefault(resource, {})
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        before = known.get(key := object_key(obj))
        if before is not None and _number(version) <= _number(before[1]):
            return Arrival.STALE
        known[key] = (uid, version)
        return Arrival.REPLACED if before is not None and before[0] != uid else Arrival.UPDATED

    def remove(self, resource: Resource, obj: Object) -> bool:
        """Forget an object that was deleted; False if it is not known, or if the known one was created later."""
        metadata, key = obj["metadata"], object_key(obj)
        known = self._known.get(resource, {}).get(key)
        if known is None:
            return False
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        if known[0] != uid and _number(known[1]) > _number(version):
            return False
        return self.forget(resource, key)

    def forget(self, resource: Resource, key: str) -> bool:
        """Forget the object ``key``; returns whether it was known."""
        return self._known.get(resource, {}).pop(key, None) is not None

    def list(self, resource: Resource, keys: Collection[str]) -> "list[str]":
        """Record that a complete list of the kind arrived; returns the known keys that are not in it."""
        self._listed.add(resource)
        return [key for key in self._known.get(resource, {}) if key not in keys]

    def has_listed(self, resources: Collection[Resource]) -> bool:
        """Whether a complete list of each of these kinds has arrived."""
        return self._listed.issuperset(resources)


def object_key(obj: Object) -> str:
    """``namespace/name``, or ``name`` of an object without a namespace."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or ""
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
