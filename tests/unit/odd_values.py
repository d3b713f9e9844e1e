"""Objects as others could write them: one place of an object has a value that nobody would expect there."""

import dataclasses
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, Final

from driver.limits import MAX_OBJECT_DEPTH

Place = tuple[str | int, ...]


def _nested(levels: int) -> Any:
    value: Any = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


ODD: Final[Mapping[str, Any]] = {
    "null": None,
    "true": True,
    "an integer": 7,
    "a negative integer": -1,
    "a huge integer": 10**300,
    "a fraction": 1.5,
    "infinity": float("inf"),
    "a text": "odd",
    "no text": "",
    "odd characters": "\u202e\x00\n\U0001f600/../",
    "a huge text": "x" * 70_000,
    "an empty list": [],
    "a list": ["a"],
    "a list of nulls": [None],
    "a list of lists": [["a"]],
    "a list of objects": [{}],
    "a long list": list(range(500)),
    "an empty object": {},
    "an object": {"a": "b"},
    "an object of objects": {"a": {"b": "c"}},
    "a huge object": {str(number): "x" for number in range(500)},
    "deep": _nested(MAX_OBJECT_DEPTH - 20),
}
"""What a field may hold whatever its schema says, by what it is."""
FEW: Final = {what: ODD[what] for what in ("null", "true", "infinity", "odd characters", "a huge text", "an object")}


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """The place of every value inside the object, containers too."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def with_odd(base: Any, place: Place, odd: Any) -> Any:
    """A copy of the object with this value in this place."""
    changed = deepcopy(base)
    holder = changed
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = odd
    return changed


def ill_typed(value: Any, declared: Any = Any, where: str = "value") -> Iterator[str]:
    """What in a value is not of the type that its dataclasses declare."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        fitting = [kind for kind in arguments if _matches(value, kind)]
        if not fitting:
            yield f"{where} is {str(value)[:60]!r} of {type(value).__name__}, not {declared}"
        elif len(fitting) == 1:
            yield from ill_typed(value, fitting[0], where)
    elif not _matches(value, declared):
        yield f"{where} is {str(value)[:60]!r} of {type(value).__name__}, not {declared}"
    else:
        yield from _wrong_parts(value, origin, arguments, where)


def _matches(value: Any, declared: Any) -> bool:
    """Whether a value is of the type, apart from what is in it."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if declared in (Any, object):
        return True
    if origin is typing.Literal:
        return value in arguments
    kind = type(None) if declared is None else origin or declared
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if kind is tuple and arguments and arguments[-1] is not Ellipsis and len(value) != len(arguments):
        return False
    return isinstance(value, kind)


def _wrong_parts(value: Any, origin: Any, arguments: tuple[Any, ...], where: str) -> Iterator[str]:
    parts: Iterator[tuple[str, Any, Any]] = iter(())
    if dataclasses.is_dataclass(value):
        parts = ((f".{name}", getattr(value, name), kind) for name, kind in _fields(value.__class__).items())
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        pairs = [*value.items()]
        parts = (("[...]", part, kind) for pair in pairs for part, kind in zip(pair, arguments, strict=True))
    elif origin is tuple and Ellipsis not in arguments:
        parts = ((f"[{number}]", part, kind) for number, (part, kind) in enumerate(zip(value, arguments, strict=True)))
    elif isinstance(origin, type) and issubclass(origin, Iterable):
        parts = (("[...]", part, arguments[0]) for part in value)
    for place, part, declared in parts:
        yield from ill_typed(part, declared, where + place)


@cache
def _fields(of: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(of)
    return {field.name: hints[field.name] for field in dataclasses.fields(of)}


def all_odd(base: Any, kept: Collection[Place] = (), values: Mapping[str, Any] = ODD) -> Iterator[tuple[str, Any]]:
    """The object with each of the odd values in each place but those that are kept, by a name of that."""
    for place in places(base):
        if place not in kept:
            for what, odd in values.items():
                yield f"{'.'.join(map(str, place))}: {what}", with_odd(base, place, odd)
