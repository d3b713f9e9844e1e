"""The known version of each object, and the objects that cannot be decoded. Pure.

Resource versions of one kind are integers that grow with every write (KEP-5504). So a watch that lags behind the
controller's own writes is recognized, and cannot make a device look free again. And so is an answer that lags behind
the watch: it cannot bring back an object that was deleted meanwhile.

Only a restored backup makes an object older. Its versions go on from where they were then, or (``etcdutl snapshot
restore --bump-revision``) those of lists and of new writes jump ahead, while each object keeps the one that it had.
"""

from collections.abc import Collection
from enum import Enum
from typing import Final, NamedTuple

from driver.errors import Fault
from driver.kube.api import Resource


class Arrival(Enum):
    """The relation of an object to its known version."""

    STALE = "no newer than the known version, or deleted meanwhile"
    UPDATED = "new, or a newer version of the same object"
    REPLACED = "another object of the same name; the known one was deleted meanwhile"


class ObjectVersions:
    """The uid and resource version of every known object, and the version up to which each kind was reported."""

    def __init__(self) -> None:
        self._known: dict[Resource, dict[str, tuple[str, int]]] = {}
        self._outlived: dict[Resource, set[str]] = {}
        """Keys of the objects that are known of a time before the versions may have gone back."""
        self._listed: set[Resource] = set()
        self._reported: dict[Resource, int] = {}

    def arrive(
        self, resource: Resource, key: str, uid: str, version: int, *, reported: bool, listed: int = 0
    ) -> Arrival:
        """Record the object's version unless it is stale.

        Args:
            reported: whether it comes from a list or watch, and not from an answer to another call.
            listed: the version of the list that it comes from; 0 if it comes from none.
        """
        if self.is_stale(resource, key, version, reported=reported, listed=listed):
            return Arrival.STALE
        known = self._known.setdefault(resource, {})
        before = known.get(key)
        if reported:
            self._advance(resource, version)
        known[key] = (uid, version)
        self._outlived.get(resource, set()).discard(key)
        return Arrival.REPLACED if before is not None and before[0] != uid else Arrival.UPDATED

    def is_stale(self, resource: Resource, key: str, version: int, *, reported: bool, listed: int = 0) -> bool:
        """Return whether ``arrive`` would answer that the version is stale."""
        before = self._known.get(resource, {}).get(key)
        if before is not None:
            went_back = version < before[1] <= listed or key in self._outlived.get(resource, ())
            return version <= before[1] and not went_back
        # Everything up to this version was reported. An unknown object was deleted, unless a later list has it.
        return not reported and max(version, listed) <= self._reported.get(resource, 0)

    def remove(self, resource: Resource, key: str, uid: str, version: int) -> bool:
        """Forget an object that was deleted; return False if it is not known, or if the known one is newer."""
        self._advance(resource, version)
        known = self._known.get(resource, {}).get(key)
        outlived = key in self._outlived.get(resource, ())
        if known is None or (known[0] != uid and known[1] > version and not outlived):
            return False
        return self.forget(resource, key)

    def forget(self, resource: Resource, key: str) -> bool:
        """Forget the object ``key``; return whether it was known."""
        self._outlived.get(resource, set()).discard(key)
        return self._known.get(resource, {}).pop(key, None) is not None

    def restart(self, resource: Resource) -> None:
        """Count every version of the kind that arrives from now on as newer than one that is known now.

        What arrives from now on is compared as ever: a write may be made and answered before the list is read that
        follows.
        """
        self._outlived[resource] = set(self._known.get(resource, ()))
        self._reported.pop(resource, None)

    def uid(self, resource: Resource, key: str) -> str:
        """Return the uid of the known object ``key``; "" if none is known."""
        return self._known.get(resource, {}).get(key, ("", 0))[0]

    def version(self, resource: Resource, key: str) -> str:
        """Return the version of the known object ``key``; "" if none is known."""
        return str(self._known.get(resource, {}).get(key, ("", 0))[1] or "")

    def known(self, resource: Resource) -> "list[str]":
        """Return the keys of the known objects."""
        return [*self._known.get(resource, ())]

    def list(self, resource: Resource, keys: Collection[str], version: int) -> "list[str]":
        """Record that a list of the kind is complete; return the known keys that did not exist at its version."""
        self._listed.add(resource)
        self._advance(resource, version)
        outlived = self._outlived.pop(resource, ())
        known = self._known.get(resource, {})
        return [key for key, (_, at) in known.items() if key not in keys and (at <= version or key in outlived)]

    def has_listed(self, resources: Collection[Resource]) -> bool:
        """Return whether a complete list of each of these kinds has arrived."""
        return self._listed.issuperset(resources)

    def _advance(self, resource: Resource, version: int) -> None:
        # While the first list is incomplete, an object that is not known may be further down.
        if resource in self._listed:
            self._reported[resource] = max(version, self._reported.get(resource, 0))


_LONGEST_PROBLEM: Final = 300
"""Characters of a problem: it may quote texts of others."""


class UndecodedObject(NamedTuple):
    """An object that cannot be decoded, wholly or in part."""

    resource: Resource
    uid: str
    fault: Fault
    """Why, in a few hundred characters at most, with the object's kind and key."""


class UndecodedObjects:
    """The objects of all kinds that cannot be decoded. It is changed in one thread; others may count meanwhile."""

    def __init__(self) -> None:
        self._problems: dict[str, dict[tuple[Resource, str], UndecodedObject]] = {}

    def add(self, resource: Resource, key: str, uid: str, problem: str) -> UndecodedObject | None:
        """Note that an object cannot be decoded; return it if that is news, for this reason."""
        known = self._problems.setdefault(resource.plural, {})
        found = UndecodedObject(resource, uid, Fault("", problem[:_LONGEST_PROBLEM], key, resource.kind))
        if known.get((resource, key)) == found:
            return None
        known[resource, key] = found
        return found

    def remove(self, resource: Resource, key: str) -> None:
        """Note that an object can be decoded now, or does not exist any more."""
        if known := self._problems.get(resource.plural):
            known.pop((resource, key), None)

    def count(self, plural: str) -> int:
        """Return how many objects of the kinds with this plural cannot be decoded."""
        return len(self._problems.get(plural, ()))

    def objects(self, *resources: Resource) -> list[UndecodedObject]:
        """Return those of these kinds; of all kinds if none is named."""
        found = [one for known in self._problems.values() for one in known.values()]
        return [one for one in found if one.resource in resources] if resources else found
