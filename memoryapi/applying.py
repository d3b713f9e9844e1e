"""Server-side apply: every manager owns the fields it applied, and what a manager stops applying goes.

Paths are tuples. A field is its name, a list item with keys is a tuple of its key values, and an item of a set is the
one-tuple of its value. Whatever nobody applied belongs to whoever wrote it by other means, without a name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.kube.api import Conflict, Invalid, Object
from memoryapi.kinds import Kind
from memoryapi.schema import Type, child, copy, struct
from memoryapi.schema import kind as type_of

Segment = str | tuple[Any, ...]
Path = tuple[Segment, ...]

_ABSENT = object()
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "managedFields")


@dataclass(frozen=True, slots=True)
class Owners:
    """``applied``: what each manager applied; ``shared``: of that, what others had written as well."""

    applied: Mapping[str, frozenset[Path]] = field(default_factory=dict)
    shared: frozenset[Path] = frozenset()


NOBODY = Owners()


def only_written(config: Any, kind: Kind, subresource: str) -> Object:
    """``config`` without the parts that a write to this (sub)resource ignores.

    Raises:
        Invalid: it is not an object with ``apiVersion`` and ``kind``, or carries managedFields.
    """
    if not isinstance(config, dict) or not config.get("apiVersion") or not config.get("kind"):
        raise Invalid("apply needs an object with apiVersion and kind", status=400, reason="BadRequest")
    if (config.get("metadata") or {}).get("managedFields"):
        raise Invalid("metadata.managedFields must be nil", status=400, reason="BadRequest")
    wanted: Object = copy(config)
    if subresource:
        identity = {name: value for name, value in (wanted.get("metadata") or {}).items() if name in _IDENTITY}
        return {
            **{name: wanted[name] for name in ("apiVersion", "kind", "status") if name in wanted},
            "metadata": identity,
        }
    if kind.has_status:
        wanted.pop("status", None)
    return wanted


def apply(
    kind: Kind, live: Object, owners: Owners, config: Object, manager: str, *, force: bool
) -> tuple[Object, Owners]:
    """The object with ``config`` applied, and who owns what then.

    Raises:
        Conflict: a field with another value belongs to somebody else, and ``force`` is not set.
    """
    of = type_of(kind.resource.kind)
    paths = frozenset(path for path in _leaves(of, config, ()) if not _is_identity(path))
    mine = owners.applied.get(manager, frozenset())
    others = {name: owned for name, owned in owners.applied.items() if name != manager}
    merged = _merge(of, live, config)
    differing = {
        path for path in paths if (found := _find(of, live, path)) is not _ABSENT and found != _find(of, merged, path)
    }
    contested = {
        path
        for path in differing
        if path not in mine or path in owners.shared or any(path in owned for owned in others.values())
    }
    if contested and not force:
        named = ", ".join(sorted("." + ".".join(map(str, path)) for path in contested))
        raise Conflict(f"Apply failed with {len(contested)} conflicts: {named}", status=409, reason="Conflict")
    met = {path for path in paths - mine if _find(of, live, path) is not _ABSENT and path not in differing}
    shared = (owners.shared | {path for path in met if not _owned(path, others)}) - contested
    others = {name: owned - contested for name, owned in others.items()}
    for path in sorted(mine - paths, key=_items_first):
        if path not in shared and not _owned(path, others) and not _holds_more(of, merged, path):
            merged = _without(of, merged, path)
    return merged, Owners({**others, manager: paths}, frozenset(shared))


def after_update(kind: Kind, owners: Owners | None, old: Object, new: Object) -> Owners | None:
    """Who owns what after a write that was no apply: what it changed is no longer any applier's."""
    if owners is None:
        return None
    of = type_of(kind.resource.kind)
    lost = {path for owned in owners.applied.values() for path in owned if _find(of, old, path) != _find(of, new, path)}
    if not lost:
        return owners
    return Owners({name: owned - lost for name, owned in owners.applied.items()}, owners.shared - lost)


def _owned(path: Path, others: Mapping[str, frozenset[Path]]) -> bool:
    """Whether another applier owns the field, or something below it."""
    return any(other[: len(path)] == path for owned in others.values() for other in owned)


def _items_first(path: Path) -> tuple[bool, int]:
    """Whole list items before single fields (an item without its key fields is not found), and inner before outer."""
    return not isinstance(path[-1], tuple), -len(path)


def _holds_more(of: Type | None, value: Any, path: Path) -> bool:
    """Whether there is a map or list at ``path`` in which others still have entries of their own."""
    found, at = _find(of, value, path), of
    for segment in path:
        at = (at.item if isinstance(segment, tuple) else child(at, segment)) if at else None
    return isinstance(found, dict | list) and bool(found) and not _whole(at)


def _is_identity(path: Path) -> bool:
    return path[0] in ("apiVersion", "kind") or (path[0] == "metadata" and len(path) > 1 and path[1] in _IDENTITY)


def _whole(of: Type | None) -> bool:
    if of is None or of.kind not in ("struct", "map", "list"):
        return True
    if of.kind == "struct":
        return struct(of.struct).atomic
    return of.atomic if of.kind == "map" else not (of.keys or of.is_set)


def _key(of: Type, item: Any) -> tuple[Any, ...]:
    return tuple(item.get(name) for name in of.keys) if of.keys else (item,)


def _leaves(of: Type | None, value: Any, path: Path) -> Iterator[Path]:
    if _whole(of) or not value:
        if path:
            yield path
        return
    assert of
    if of.kind == "list":
        for item in value:
            inner = (*path, _key(of, item))
            yield inner
            if of.keys:
                yield from _leaves(of.item, item, inner)
        return
    for name, part in value.items():
        yield from _leaves(child(of, name), part, (*path, name))


def _find(of: Type | None, value: Any, path: Path) -> Any:
    """The value at ``path``; for an item of a list only that it is there."""
    for segment in path:
        if isinstance(segment, tuple):
            assert of
            keyed = of
            value = next((item for item in value or () if _key(keyed, item) == segment), _ABSENT)
            of = of.item
        else:
            value = value.get(segment, _ABSENT) if isinstance(value, dict) else _ABSENT
            of = child(of, segment) if of else None
        if value is _ABSENT or value is None:
            return _ABSENT
    return True if path and isinstance(path[-1], tuple) else value


def _merge(of: Type | None, live: Any, config: Any) -> Any:
    if _whole(of) or live is None or config is None:
        return config
    assert of
    if of.kind != "list":
        merged = dict(live)
        for name, value in config.items():
            merged[name] = _merge(child(of, name), merged.get(name), value)
        return merged
    items = list(live)
    for item in config:
        position = next((i for i, existing in enumerate(items) if _key(of, existing) == _key(of, item)), None)
        if position is None:
            items.append(item)
        else:
            items[position] = _merge(of.item, items[position], item) if of.keys else item
    return items


def _without(of: Type | None, value: Any, path: Path) -> Any:
    if not path or value is None or of is None:
        return value
    head, rest = path[0], path[1:]
    if isinstance(head, tuple):
        keyed = of
        if not rest:
            return [item for item in value if _key(keyed, item) != head]
        return [_without(of.item, item, rest) if _key(keyed, item) == head else item for item in value]
    if not isinstance(value, dict) or head not in value:
        return value
    kept = {name: part for name, part in value.items() if name != head}
    if rest:
        kept[head] = _without(child(of, head), value[head], rest)
    return kept
