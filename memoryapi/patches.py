"""The three types of patches: merge, strategic merge and JSON patch."""

from collections.abc import Callable, Mapping
from typing import Any

from driver.kube.api import Invalid, Object, Unavailable
from memoryapi.schema import FieldType, child, copy


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386): null removes, objects merge, everything else replaces."""
    if not isinstance(patch, Mapping):
        return copy(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def strategic(field_type: FieldType | None, target: Any, patch: Any) -> Any:
    """Kubernetes' strategic merge patch: as ``merge``, but lists with a merge key merge item by item.

    Raises:
        Invalid: a directive is unknown.
        Unavailable: an item lacks the merge key.
    """
    if not isinstance(patch, Mapping):
        return copy(patch)
    directive = patch.get("$patch")
    content = {name: value for name, value in patch.items() if not name.startswith("$")}
    if directive == "replace":
        return copy(content)
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _bad(f"$patch: {directive!r} is none of delete, merge, replace")
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in content.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _strategic_field(child(field_type, name) if field_type else None, merged.get(name), value)
    return _directives(merged, patch)


def _directives(merged: Object, patch: Mapping[str, Any]) -> Object:
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.split("/", 1)[1]
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
        elif name == "$retainKeys":
            merged = {field: kept for field, kept in merged.items() if field in value}
        elif name.startswith("$") and name != "$patch" and not name.startswith("$setElementOrder/"):
            raise _bad(f"directive {name!r} is not known")
    return merged


def _strategic_field(field_type: FieldType | None, target: Any, patch: Any) -> Any:
    if isinstance(patch, list) and field_type and field_type.kind == "list" and field_type.merge_key is not None:
        before = list(target or [])
        if field_type.merge_key == "":
            merged = [*before, *(item for item in patch if item not in before)]
            return _ordered(merged, patch, before, lambda item: item)
        return _strategic_list(field_type, field_type.merge_key, before, patch)
    return strategic(field_type, target, patch)


def _strategic_list(field_type: FieldType, key: str, before: list[Any], patch: list[Any]) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [copy(item) for item in patch if "$patch" not in item]
    items = {item.get(key): item for item in before}
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            message = f"map: {item!r} does not contain declared merge key: {key}"
            raise Unavailable(message, status=500, reason="InternalError")  # as a real server answers
        if item.get("$patch") == "delete":
            items.pop(item[key], None)
        else:
            items[item[key]] = strategic(field_type.item, items.get(item[key], {}), item)
    return _ordered(list(items.values()), patch, before, lambda item: item.get(key))


def _ordered(items: list[Any], patch: list[Any], before: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Items of the patch in its order, and each other item before the first patched item that followed it before."""
    place = {key(item): i for i, item in enumerate(before)}
    wanted = {key(item): i for i, item in enumerate(patch)}
    patched = sorted((item for item in items if key(item) in wanted), key=lambda item: wanted[key(item)])
    others = [item for item in items if key(item) not in wanted]
    ordered = []
    while others and patched:
        other, patch_item = place[key(others[0])], place.get(key(patched[0]), -1)
        ordered.append((others if other < patch_item else patched).pop(0))
    return [*ordered, *others, *patched]


def json_patch(target: Any, operations: Any) -> Any:
    """JSON patch (RFC 6902) with add, remove, replace, move, copy and test.

    Raises:
        Invalid: an operation cannot be carried out, or a test fails; then nothing is changed.
    """
    if not isinstance(operations, list):
        raise _bad("a JSON patch is a list of operations")
    document = copy(target)
    for operation in operations:
        document = _apply_operation(document, operation)
    return document


def _apply_operation(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _put(document, path, copy(operation["value"]), insert=True)
        case "replace":
            _at(document, path)
            return _put(document, path, copy(operation["value"]), insert=False)
        case "remove":
            return _remove(document, path)
        case "test":
            if _at(document, path, missing_is_none=True) != operation.get("value"):
                raise Invalid(f"testing value {operation['path']} failed", status=422, reason="Invalid")
            return document
        case "copy":
            return _put(document, path, copy(_at(document, _pointer(operation["from"]))), insert=True)
        case "move":
            source = _pointer(operation["from"])
            value = _at(document, source)
            return _put(_remove(document, source), path, value, insert=True)
        case unknown:
            raise _bad(f"op: {unknown!r} is not an operation of JSON patch")


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: Any, path: list[str], *, missing_is_none: bool = False) -> Any:
    for part in path:
        if isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        elif missing_is_none:
            return None
        else:
            raise Invalid(f"/{'/'.join(path)}: missing value", status=422, reason="Invalid")
    return document


def _put(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    holder, last = _at(document, path[:-1]), path[-1]
    if isinstance(holder, dict):
        holder[last] = value
    elif isinstance(holder, list) and (last == "-" or (last.isdigit() and int(last) <= len(holder))):
        position = len(holder) if last == "-" else int(last)
        holder[position : position + (0 if insert else 1)] = [value]
    else:
        raise Invalid(f"/{'/'.join(path)}: cannot be written", status=422, reason="Invalid")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _at(document, path)
    holder = _at(document, path[:-1])
    if isinstance(holder, list):
        del holder[int(path[-1])]
    else:
        del holder[path[-1]]
    return document


def _bad(message: str) -> Invalid:
    return Invalid(message, status=400, reason="BadRequest")
