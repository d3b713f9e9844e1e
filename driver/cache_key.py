"""Cache keys derived from whole values, so that no field can be forgotten in one. Pure."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

_UNCHANGED: Final = frozenset({str, type(None)})
_TAGGED: Final = frozenset({bool, int})


def cache_key(value: Any) -> Hashable:
    """A hashable value. Two values have equal keys exactly if all their parts are equal, with their types.

    Dataclasses are taken apart field by field, even where their own ``==`` is more lenient. For example, quantities of
    the same amount are equal, but allocations are written in the format of the request. Mappings and sequences keep
    their order.

    Raises:
        TypeError: a part is neither hashable nor a dataclass, mapping, list or tuple.

    >>> cache_key({"memory": [1, True]}) == cache_key({"memory": [1, 1]})
    False
    """
    kind = type(value)
    if kind in _UNCHANGED:
        return value  # type: ignore[no-any-return]
    if kind is tuple:
        return tuple([part if type(part) is str else cache_key(part) for part in value]) if value else ()
    fields = getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        return kind, *_parts(value, fields)
    if kind in _TAGGED:
        return kind, value
    if kind is dict or isinstance(value, Mapping):
        return (dict, *[(cache_key(key), cache_key(part)) for key, part in value.items()])
    if isinstance(value, list | tuple):
        return (kind, *[cache_key(part) for part in value])
    hash(value)
    return kind, value


def _parts(value: Any, names: Iterable[str]) -> list[Hashable]:
    """The key of each field. Most are trivial, and this is called for every claim, so it spares calls."""
    found: list[Hashable] = []
    for name in names:
        part = getattr(value, name)
        kind = type(part)
        if kind in _TAGGED:
            part = kind, part
        elif kind not in _UNCHANGED and (part or kind is not tuple):
            part = cache_key(part)
        found.append(part)
    return found
