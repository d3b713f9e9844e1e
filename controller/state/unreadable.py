"""The objects that cannot be decoded, by kind and name. Pure."""

from dataclasses import dataclass
from typing import Final

from driver.kube.api import Resource

_LONGEST_PROBLEM: Final = 300
"""Characters of a problem: it may quote texts of others."""


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object that cannot be decoded, wholly or in part."""

    resource: Resource
    key: str
    """``namespace/name``, or ``name``."""
    uid: str
    problem: str
    """Reason, in a few hundred characters at most."""

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}: {self.problem}"


class UnreadableObjects:
    """The unreadable objects of all kinds. It is changed in one thread; others may count meanwhile."""

    def __init__(self) -> None:
        self._problems: dict[str, dict[tuple[Resource, str], UnreadableObject]] = {}

    def put(self, resource: Resource, key: str, uid: str, problem: str) -> UnreadableObject | None:
        """Note that an object cannot be decoded; return it if that is news, for this reason."""
        known = self._problems.setdefault(resource.plural, {})
        found = UnreadableObject(resource, key, uid, problem[:_LONGEST_PROBLEM])
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

    def of(self, *resources: Resource) -> list[UnreadableObject]:
        """Return the unreadable objects of these kinds; of all kinds if none is named."""
        found = [one for known in self._problems.values() for one in known.values()]
        return [one for one in found if one.resource in resources] if resources else found
