"""Objects by kind, all changes in order, and consistent paged lists. It does not interpret the objects."""

import marshal
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from driver.kube.api import Gone, Object, Resource

_SNAPSHOTS = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one object. ``object`` must not be changed; ``thaw`` returns a copy that may be."""

    object: Object
    frozen: bytes

    def thaw(self) -> Object:
        """A copy of the object. (``marshal`` copies JSON several times faster than ``copy.deepcopy``.)"""
        thawed: Object = marshal.loads(self.frozen)
        return thawed


def freeze(obj: Object) -> Entry:
    """An entry of ``obj``, which the caller must not change any more."""
    return Entry(obj, marshal.dumps(obj))


@dataclass(frozen=True, slots=True)
class Change:
    """``before`` is None for a new object, ``after`` is None for a removed one."""

    version: int
    before: Entry | None
    after: Entry | None
    removed: Entry | None = None
    """The last state of a removed object, with the version of its removal."""


@dataclass(frozen=True, slots=True)
class Backup:
    """All objects as they were at one version."""

    version: int
    entries: Mapping[Resource, Mapping[str, Entry]]


@dataclass(slots=True)
class _Table:
    entries: dict[str, Entry] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    horizon: int = 0


class Store:
    """Keeps the last ``history`` changes of each kind for watches."""

    def __init__(self, history: int):
        self.version = 1
        self._history = history
        self._tables: dict[Resource, _Table] = {}
        self._snapshots: OrderedDict[str, tuple[int, list[Entry]]] = OrderedDict()
        self._tokens = 0

    def table(self, resource: Resource) -> dict[str, Entry]:
        """The live entries of a kind by ``namespace/name``; not to be changed."""
        return self._table(resource).entries

    def _table(self, resource: Resource) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table()
        return table

    def next_version(self) -> int:
        """The version the next write will have."""
        return self.version + 1

    def write(self, resource: Resource, key: str, entry: Entry) -> None:
        """Store ``entry``, whose object has ``next_version`` as its resourceVersion."""
        table = self._table(resource)
        self.version += 1
        self._record(table, Change(self.version, table.entries.get(key), entry))
        table.entries[key] = entry

    def remove(self, resource: Resource, key: str, last: Entry) -> None:
        """Remove an object; watches deliver ``last``, which has ``next_version`` as its resourceVersion."""
        table = self._table(resource)
        self.version += 1
        self._record(table, Change(self.version, table.entries.pop(key), None, last))

    def removed(self, resource: Resource, key: str) -> Change | None:
        """The removal of an object that does not exist; None if there was none, or none is remembered."""
        table = self._table(resource)
        if key in table.entries:
            return None
        for change in reversed(table.changes):
            if change.removed is not None:
                metadata = change.removed.object["metadata"]
                if f"{metadata.get('namespace', '')}/{metadata['name']}" == key:
                    return change
        return None

    def _record(self, table: _Table, change: Change) -> None:
        table.changes.append(change)
        if len(table.changes) > 2 * self._history:
            table.horizon = table.changes[-self._history - 1].version
            del table.changes[: -self._history]

    def since(self, resource: Resource, version: int) -> list[Change]:
        """Every change of a kind after ``version``.

        Raises:
            Gone: changes that old are no longer kept.
        """
        table = self._table(resource)
        if version < table.horizon:
            raise _gone(f"too old resource version: {version} ({table.horizon})")
        if not table.changes or table.changes[-1].version <= version:
            return []
        return table.changes[bisect_right(table.changes, version, key=lambda change: change.version) :]

    def page(self, entries: list[Entry], version: int, limit: int) -> tuple[list[Entry], str]:
        """The first ``limit`` entries, and a token for the rest as it is now."""
        if not limit or len(entries) <= limit:
            return entries, ""
        self._tokens += 1
        token = f"{version}.{self._tokens}"
        self._snapshots[token] = (version, entries[limit:])
        if len(self._snapshots) > _SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return entries[:limit], token

    def resume(self, token: str) -> tuple[int, list[Entry]]:
        """The version and the entries for a token of ``page``.

        Raises:
            Gone: the token is too old.
        """
        snapshot = self._snapshots.get(token)
        if snapshot is None:
            raise _gone("the provided continue parameter is too old")
        return snapshot

    def compact(self) -> None:
        """Drop all history, as etcd does every few minutes: older watches and unfinished lists get Gone."""
        for table in self._tables.values():
            table.changes.clear()
            table.horizon = self.version
        self._snapshots.clear()

    def backup(self) -> Backup:
        """All objects as they are now."""
        return Backup(self.version, {kind: dict(table.entries) for kind, table in self._tables.items()})

    def restore(self, backup: Backup, bump: int) -> None:
        """Go back to a backup. Each object has the version again that it had then.

        Args:
            bump: by how much the version of lists and of new writes is above that of the backup. Unless it is 0,
                watches from older versions get Gone.
        """
        self.version = backup.version + bump
        self._snapshots.clear()
        for kind, table in self._tables.items():
            table.entries = dict(backup.entries.get(kind, {}))
            table.changes = [] if bump else [one for one in table.changes if one.version <= backup.version]
            table.horizon = self.version if bump else min(table.horizon, self.version)


def _gone(message: str) -> Gone:
    return Gone(message, status=410, reason="Expired")
