"""The JSON that an API server sends and takes. Only home of ``msgspec``.

Strict decoding comes first, because it is quick. Objects that it refuses are read leniently, one by one. So an object
that cannot be decoded keeps no other from being read, neither in a list nor in a watch.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, overload

import msgspec

from driver.kube.api import Object, Page, Unavailable, Undecoded
from driver.kube.lenient import identity_of, read_object, split_list

T = TypeVar("T")

_EVENT_TYPE: Final = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Z]+)"')


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")
    continue_token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_OBJECTS: Final = msgspec.json.Decoder(dict[str, Any])
_LISTS: Final = msgspec.json.Decoder(_List)
"""Made with this module, before there are threads: msgspec does not expect several first uses of a type at once."""


class Items(Sequence[Object]):
    """The objects of a page. Each is decoded anew whenever it is read, so one of them at a time takes memory.

    This is four times faster than to decode all at once, because the caches of the processor hold what is made.

    Args:
        added: fields that the items of a list lack.

    Raises:
        Unavailable: an item was read whose name cannot be found; call again.
    """

    def __init__(self, raws: Sequence[bytes | msgspec.Raw], added: Mapping[str, str]):
        self._raws = raws
        self._added = added

    def __len__(self) -> int:
        return len(self._raws)

    @overload
    def __getitem__(self, index: int) -> Object: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Object]: ...
    def __getitem__(self, index: int | slice) -> Object | Sequence[Object]:
        if isinstance(index, slice):
            return Items(self._raws[index], self._added)
        raw = self._raws[index]
        try:
            return {**self._added, **decode_object(raw)}
        except ValueError as error:
            try:
                return Undecoded(identity_of(bytes(raw)), str(error))
            except ValueError:
                raise Unavailable(f"item {index} of a list is not a JSON object: {error}") from error


def encode_object(obj: object) -> bytes:
    """The JSON of an object: mappings, dataclasses, lists, texts, numbers, booleans and None.

    Raises:
        TypeError: a value of another type is in it.
    """
    return msgspec.json.encode(obj)


def size_of(obj: object) -> int:
    """The bytes of the JSON of an object. Halves of surrogate pairs, which no valid text has, count as escapes."""
    try:
        return len(encode_object(obj))
    except UnicodeEncodeError:
        return len(json.dumps(obj))


def encoded_once(obj: object) -> object:
    """Encodes an object once: ``encode_object`` takes the result in the place of the object."""
    return msgspec.Raw(msgspec.json.encode(obj))


def decode_object(data: bytes | msgspec.Raw) -> Object:
    """The decoded object. If the strict decoder refuses it, ``driver.kube.lenient`` reads it.

    Raises:
        ValueError: not a JSON object.
    """
    try:
        return _decoded(data, _OBJECTS)
    except ValueError:
        return read_object(bytes(data))


def decode_event(data: bytes) -> tuple[str, Object]:
    """The type and object of one line of a watch; ``Undecoded`` if only its identity can be found.

    Raises:
        ValueError: not even its identity can be found.
    """
    try:
        event = decode_object(data)
    except ValueError as error:
        found = _EVENT_TYPE.match(data)
        if found is None:
            raise
        return found[1].decode(), Undecoded(identity_of(data), str(error))
    kind, obj = event.get("type"), event.get("object")
    if not isinstance(kind, str) or not isinstance(obj, dict):
        raise ValueError("not an event of a watch")
    return kind, obj


def decode_page(data: bytes, added: Mapping[str, str]) -> Page:
    """A page of a list; ``added`` as of ``Items``.

    Raises:
        ValueError: not a list of Kubernetes.
    """
    items: Sequence[bytes | msgspec.Raw]
    try:
        page = _decoded(data, _LISTS)
        items = page.items or ()
    except ValueError:
        rest, items = split_list(data)
        page = _decoded(rest, _LISTS)
    return Page(Items(items, added), page.metadata.resource_version, page.metadata.continue_token)


def converter(kind: type[T]) -> Callable[[object], T]:
    """Return what converts decoded values to a type of dataclasses, lists, mappings, texts and numbers.

    It may be called in any thread, and raises ValueError for a value that is not of this type. Make it in one thread,
    such as with a module: see ``_LISTS``.
    """
    msgspec.json.Decoder(kind)  # from now on, msgspec knows the fields

    def converted(value: object) -> T:
        try:
            return msgspec.convert(value, kind, str_keys=True)  # as JSON has them, of mappings by number, too
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error

    return converted


def _decoded(data: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
