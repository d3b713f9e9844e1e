"""Label and field selectors of list and watch."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from driver.kube.api import Invalid, Object

Matches = Callable[[Object], bool]

_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)")
_PLAIN = re.compile(r"(!?)\s*([A-Za-z0-9._/-]+)\s*(?:(==|=|!=)\s*([A-Za-z0-9._-]*))?")
_SPLIT = re.compile(r",(?![^(]*\))")


def everything(_: Object) -> bool:
    """Matches every object."""
    return True


def matcher(label_selector: str, field_selector: str, fields: Mapping[str, tuple[str, ...]]) -> Matches:
    """A function that tells whether an object is selected. ``fields`` maps the kind's selectable fields to their paths.

    Raises:
        Invalid: a selector cannot be parsed, or contains a field that is not selectable.
    """
    tests = [_label(part.strip()) for part in _SPLIT.split(label_selector) if part.strip()]
    tests += [_field(part.strip(), fields) for part in field_selector.split(",") if part.strip()]
    if not tests:
        return everything
    return lambda obj: all(test(obj) for test in tests)


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _label(text: str) -> Matches:
    if parts := _SET.fullmatch(text):
        key, wanted = parts[1], {value.strip() for value in parts[3].split(",")}
        if parts[2] == "in":
            return lambda obj: _labels(obj).get(key) in wanted
        return lambda obj: _labels(obj).get(key) not in wanted
    plain = _PLAIN.fullmatch(text)
    if not plain:
        raise Invalid(f"unable to parse requirement: {text!r}", status=400, reason="BadRequest")
    negated, key, operator, value = plain[1], plain[2], plain[3], plain[4]
    if not operator:
        return lambda obj: (key in _labels(obj)) != bool(negated)
    if operator == "!=":
        return lambda obj: _labels(obj).get(key) != value
    return lambda obj: _labels(obj).get(key) == value


def _field(text: str, fields: Mapping[str, tuple[str, ...]]) -> Matches:
    parts = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", text)
    if not parts:
        raise Invalid(f"invalid field selector: {text!r}", status=400, reason="BadRequest")
    name, operator, value = parts[1], parts[2], parts[3]
    path = fields.get(name)
    if path is None:
        raise Invalid(f"field label not supported: {name}", status=400, reason="BadRequest")
    if operator == "!=":
        return lambda obj: _text(obj, path) != value
    return lambda obj: _text(obj, path) == value


def _text(obj: Any, path: tuple[str, ...]) -> str:
    for name in path:
        obj = (obj or {}).get(name)
    if isinstance(obj, bool):
        return str(obj).lower()
    return "" if obj is None else str(obj)
