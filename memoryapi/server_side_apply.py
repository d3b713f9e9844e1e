"""Server-side apply: every manager owns the fields it applied, and a field that it no longer applies is removed.

Paths are tuples. A field is its name, a list item with keys is a tuple of its key values, and an item of a set is the
one-tuple of its value. Fields that no manager applied belong to other writers, whose names are not recorded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from driver.kube.api import Conflict, Invalid, Object
from memoryapi.kind_rules import KindRules
from memoryapi.schema import FieldType, child, copy, struct, type_of

Segment = str | tuple[Any, ...]
Path = tuple[Segment, ...]

_ABSENT = object()
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "managedFields")


@dataclass(frozen=True, slots=True)
class FieldOwners:
    """``applied``: the fields that each manager applied; ``shared``: those of them that other writers wrote, too."""

    applied: Mapping[str, frozenset[Path]] = field(default_factory=dict)
    shared: frozenset[Path] = frozenset()


NO_OWNERS = FieldOwners()


def without_ignored_parts(config: Any, kind: KindRules, subresource: str) -> Object:
    """``config`` without the parts that a write to this (sub)resource ignores.

    Raises:
        Invalid: ``config`` is not an object with ``apiVersion`` and ``kind``, or carries managedFields.
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
    kind: KindRules, live: Object, owners: FieldOwners, config: Object, manager: str, *, force: bool
) -> tuple[Object, FieldOwners]:
    """The object with ``config`` applied, and the new owners of its fields.

    Raises:
        Conflict: another writer owns a field that has another value, and ``force`` is not set.
    """
    field_type = type_of(kind.resource.kind)
    paths = frozenset(path for path in _leaves(field_type, config, ()) if not _is_identity(path))
    applied_before = owners.applied.get(manager, frozenset())
    others = {name: owned for name, owned in owners.applied.items() if name != manager}
    merged = _merge(field_type, live, config)
    changed = {
        path
        for path in paths
        if (value := _find(field_type, live, path)) is not _ABSENT and value != _find(field_type, merged, path)
    }
    conflicting = {
        path
        for path in changed
        if path not in applied_before or path in owners.shared or any(path in owned for owned in others.values())
    }
    if conflicting and not force:
        named = ", ".join(sorted("." + ".".join(map(str, path)) for path in conflicting))
        raise Conflict(f"Apply failed with {len(conflicting)} conflicts: {named}", status=409, reason="Conflict")
    agreed = {
        path for path in paths - applied_before if _find(field_type, live, path) is not _ABSENT and path not in changed
    }
    shared = (owners.shared | {path for path in agreed if not _owned(path, others)}) - conflicting
    others = {name: owned - conflicting for name, owned in others.items()}
    for path in sorted(applied_before - paths, key=_items_first):
        if path not in shared and not _owned(path, others) and not _holds_more(field_type, merged, path):
            merged = _without(field_type, merged, path)
    return merged, FieldOwners({**others, manager: paths}, frozenset(shared))


def after_update(kind: KindRules, owners: FieldOwners | None, old: Object, new: Object) -> FieldOwners | None:
    """The owners after a write other than apply: no manager owns the fields that it changed any more."""
    if owners is None:
        return None
    field_type = type_of(kind.resource.kind)
    lost = {
        path
        for owned in owners.applied.values()
        for path in owned
        if _find(field_type, old, path) != _find(field_type, new, path)
    }
    if not lost:
        return owners
    return FieldOwners({name: owned - lost for name, owned in owners.applied.items()}, owners.shared - lost)


def _owned(path: Path, others: Mapping[str, frozenset[Path]]) -> bool:
    """Whether another manager owns the field or a field below it."""
    return any(other[: len(path)] == path for owned in others.values() for other in owned)


def _items_first(path: Path) -> tuple[bool, int]:
    """Sorts list items before fields (an item without its key fields is not found), and inner before outer paths."""
    return not isinstance(path[-1], tuple), -len(path)


def _holds_more(field_type: FieldType | None, value: Any, path: Path) -> bool:
    """Whether there is a map or list at ``path`` that still has entries of other writers."""
    remaining, at = _find(field_type, value, path), field_type
    for segment in path:
        at = (at.item if isinstance(segment, tuple) else child(at, segment)) if at else None
    return isinstance(remaining, dict | list) and bool(remaining) and not _is_atomic(at)


def _is_identity(path: Path) -> bool:
    return path[0] in ("apiVersion", "kind") or (path[0] == "metadata" and len(path) > 1 and path[1] in _IDENTITY)


def _is_atomic(field_type: FieldType | None) -> bool:
    if field_type is None or field_type.kind not in ("struct", "map", "list"):
        return True
    if field_type.kind == "struct":
        return struct(field_type.struct).atomic
    return field_type.atomic if field_type.kind == "map" else not (field_type.keys or field_type.is_set)


def _key(field_type: FieldType, item: Any) -> tuple[Any, ...]:
    return tuple(item.get(name) for name in field_type.keys) if field_type.keys else (item,)


def _leaves(field_type: FieldType | None, value: Any, path: Path) -> Iterator[Path]:
    if _is_atomic(field_type) or not value:
        if path:
            yield path
        return
    assert field_type
    if field_type.kind == "list":
        for item in value:
            inner = (*path, _key(field_type, item))
            yield inner
            if field_type.keys:
                yield from _leaves(field_type.item, item, inner)
        return
    for name, part in value.items():
        yield from _leaves(child(field_type, name), part, (*path, name))


def _find(field_type: FieldType | None, value: Any, path: Path) -> Any:
    """The value at ``path``, or _ABSENT; True for an item of a list that exists."""
    for segment in path:
        if isinstance(segment, tuple):
            assert field_type
            keyed = field_type
            value = next((item for item in value or () if _key(keyed, item) == segment), _ABSENT)
            field_type = field_type.item
        else:
            value = value.get(segment, _ABSENT) if isinstance(value, dict) else _ABSENT
            field_type = child(field_type, segment) if field_type else None
        if value is _ABSENT or value is None:
            return _ABSENT
    return True if path and isinstance(path[-1], tuple) else value


def _merge(field_type: FieldType | None, live: Any, config: Any) -> Any:
    if _is_atomic(field_type) or live is None or config is None:
        return config
    assert field_type
    if field_type.kind != "list":
        merged = dict(live)
        for name, value in config.items():
            merged[name] = _merge(child(field_type, name), merged.get(name), value)
        return merged
    items = list(live)
    for item in config:
        position = next(
            (i for i, existing in enumerate(items) if _key(field_type, existing) == _key(field_type, item)), None
        )
        if position is None:
            items.append(item)
        else:
            items[position] = _merge(field_type.item, items[position], item) if field_type.keys else item
    return items


def _without(field_type: FieldType | None, value: Any, path: Path) -> Any:
    if not path or value is None or field_type is None:
        return value
    head, rest = path[0], path[1:]
    if isinstance(head, tuple):
        keyed = field_type
        if not rest:
            return [item for item in value if _key(keyed, item) != head]
        return [_without(field_type.item, item, rest) if _key(keyed, item) == head else item for item in value]
    if not isinstance(value, dict) or head not in value:
        return value
    kept = {name: part for name, part in value.items() if name != head}
    if rest:
        kept[head] = _without(child(field_type, head), value[head], rest)
    return kept
