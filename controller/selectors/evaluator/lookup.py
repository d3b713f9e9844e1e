"""Reading fields and elements, with the maps of a device behaving as Kubernetes has it."""

from collections.abc import Mapping
from typing import Any

from controller.selectors.errors import SelectorFault, no_overload
from controller.selectors.language.suggest import suggest
from controller.selectors.values.types import EMPTY, NONE, Domains, Optional, is_number, key_of, kind


class MissingKey(SelectorFault):
    """A map has no such key; the message suggests one it has, and how to ask first."""

    def __init__(self, key: Any, known: Mapping[Any, Any]):
        self.key = key
        self._known = tuple(name for name in known if isinstance(name, str))
        super().__init__(key)

    def __str__(self) -> str:
        hint = suggest(str(self.key), self._known) or "; ask with has(), '.?' or orValue() where it may be absent"
        return f"no such key: {self.key}{hint}"


def select(value: Any, field: str) -> Any:
    """``value.field``; an optional gives an optional.

    Raises:
        SelectorFault: there is no such field.
    """
    if isinstance(value, dict):
        try:
            return value[field]
        except KeyError:
            if isinstance(value, Domains):
                return EMPTY
            raise MissingKey(field, value) from None
    if isinstance(value, Optional):
        return optional_select(value, field)
    raise MissingKey(field, {})


def test(value: Any, field: str) -> bool:
    """``has(value.field)``."""
    if isinstance(value, Optional):
        return value.present and test(value.value, field)
    if isinstance(value, dict):
        return field in value or isinstance(value, Domains)
    if isinstance(value, list):
        raise SelectorFault("a list has no fields")
    return False


def optional_select(value: Any, field: str) -> Optional:
    """``value.?field``."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    if isinstance(value, dict):
        return _found(value, field)
    if isinstance(value, list):
        raise SelectorFault("a list has no fields")
    return NONE


def _found(map_: Mapping[Any, Any], key: Any) -> Optional:
    if key in map_:
        return Optional(True, map_[key])
    return Optional(True, EMPTY) if isinstance(map_, Domains) else NONE


def index(value: Any, key: Any) -> Any:
    """``value[key]``.

    Raises:
        SelectorFault: no such element, or ``value`` has none.
    """
    if isinstance(value, Optional):
        return optional_index(value, key)
    if isinstance(value, list):
        at = _list_index(key)
        if 0 <= at < len(value):
            return value[at]
        raise SelectorFault(f"index out of bounds: {at}")
    if isinstance(value, dict):
        wanted = key_of(key)
        if wanted in value:
            return value[wanted]
        if isinstance(value, Domains):
            return EMPTY
        raise MissingKey(key, value)
    raise no_overload("_[_]")


def optional_index(value: Any, key: Any) -> Optional:
    """``value[?key]``."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    if isinstance(value, list):
        at = _list_index(key)
        return Optional(True, value[at]) if 0 <= at < len(value) else NONE
    wanted = key_of(key)
    return _found(value, wanted) if isinstance(value, dict) else NONE


def _list_index(key: Any) -> int:
    if is_number(key) and key == int(key):
        return int(key)
    raise SelectorFault(f"unsupported index type {kind(key)} in list")
