"""The look-up of fields, keys and elements, with the special behaviour of the maps of a device."""

from collections.abc import Mapping
from typing import Any

from driver.cel.errors import SelectorFault, no_overload
from driver.cel.language.suggest import suggest
from driver.cel.values.runtime import (
    EMPTY,
    NONE,
    DeviceMap,
    Domains,
    Optional,
    PartlyReadable,
    is_number,
    lookup_key,
    type_name,
)


class MissingKey(SelectorFault):
    """A map does not have the key. The message suggests a similar key, or how to test for it first."""

    def __init__(self, key: Any, known: Mapping[Any, Any]):
        self.key = key
        self._known = tuple(name for name in known if isinstance(name, str))
        super().__init__(key)

    def __str__(self) -> str:
        if not self._known:
            return f"no such key: {self.key}; the device has nothing in this domain, check how the domain is spelt"
        hint = suggest(str(self.key), self._known) or "; use has(), '.?' or orValue() if it may be absent"
        return f"no such key: {self.key}{hint}"


def has_field(value: Any, field: str) -> bool:
    """Whether ``value`` has the field: ``has(value.field)``."""
    if isinstance(value, Optional):
        return value.present and has_field(value.value, field)
    if isinstance(value, dict):
        if type(value) is PartlyReadable and field in value:
            index(value, field)
        return field in value or isinstance(value, Domains)
    if isinstance(value, list):
        raise SelectorFault("a list has no fields")
    return False


def _entry(map_: Mapping[Any, Any], key: Any) -> Optional:
    if key in map_:
        return Optional(True, map_[key])
    return Optional(True, EMPTY) if isinstance(map_, Domains) else NONE


def _key(container: Any, key: Any) -> Any:
    return lookup_key(container.key(key) if isinstance(container, DeviceMap) else key)


def index(value: Any, key: Any) -> Any:
    """``value[key]``.

    Raises:
        SelectorFault: there is no such element, or ``value`` does not have elements.
    """
    if isinstance(value, Optional):
        return optional_index(value, key)
    if isinstance(value, list):
        position = _list_index(key)
        if 0 <= position < len(value):
            return value[position]
        raise SelectorFault(f"index out of bounds: {position}")
    if isinstance(value, dict):
        name = key if key.__class__ is str else _key(value, key)
        if name in value:
            return value[name]
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
        position = _list_index(key)
        return Optional(True, value[position]) if 0 <= position < len(value) else NONE
    name = key if key.__class__ is str else _key(value, key)
    return _entry(value, name) if isinstance(value, dict) else NONE


def _list_index(key: Any) -> int:
    if is_number(key) and key == int(key):
        return int(key)
    raise SelectorFault(f"unsupported index type {type_name(key)} in list")
