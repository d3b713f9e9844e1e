"""What an API server sends and takes is JSON; lists are decoded object by object."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import Decoder

from driver.kube import codec
from driver.kube.api import Unavailable, Undecoded
from driver.kube.codec import converter, decode_event, decode_object, decode_page, encode_object

KIND = {"apiVersion": "v1", "kind": "Pod"}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda some: st.lists(some, max_size=4) | st.dictionaries(st.text(), some, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


@dataclass
class Part:
    name: str


@dataclass
class Whole:
    parts: list[Part]
    number: int


def page(**fields: Any) -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "7"}, **fields}).encode()


@given(obj=OBJECTS)
def test_an_object_is_what_its_json_says(obj: dict[str, Any]) -> None:
    assert decode_object(json.dumps(obj).encode()) == obj
    assert json.loads(encode_object(obj)) == obj


@given(objects=st.lists(OBJECTS, max_size=4))
def test_the_items_of_a_list_are_its_objects_with_their_kind(objects: list[dict[str, Any]]) -> None:
    items = decode_page(page(items=objects), KIND).items
    wanted = [{**KIND, **obj} for obj in objects]
    assert (list(items), len(items), list(items[1:])) == (wanted, len(wanted), wanted[1:])
    assert list(items) == wanted, "they can be read again"


@pytest.mark.parametrize(
    ("metadata", "token"), [({"resourceVersion": "7"}, ""), ({"resourceVersion": "7", "continue": "next"}, "next")]
)
@pytest.mark.parametrize("empty", [{}, {"items": None}, {"items": []}])
def test_a_list_may_be_empty_or_continued(metadata: dict[str, str], token: str, empty: dict[str, Any]) -> None:
    found = decode_page(page(metadata=metadata, **empty), KIND)
    assert (list(found.items), found.resource_version, found.continue_token) == ([], "7", token)


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b"null", b'{"a": 1', b'{"a":\xff}'])
def test_anything_else_is_refused(data: bytes) -> None:
    for decoded in (decode_object, decode_event, partial(decode_page, added=KIND)):
        with pytest.raises(ValueError, match=r"JSON|Expected|truncated|malformed|metadata"):
            decoded(data)


def test_a_list_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        decode_page(page(metadata={}), KIND)


HOSTILE = {
    "deep": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "half of a pair": rb'{"a":"\ud800"}',
    "no UTF-8": b'{"a":"\xff"}',
    "out of range": b'{"a":1e999}',
    "no JSON": b'{"a":[}]',
}


def item(name: str, parameters: bytes = b"{}") -> bytes:
    return b'{"metadata":{"name":"%s","uid":"u","resourceVersion":"7"},"p":%s}' % (name.encode(), parameters)


def whole_page(*items: bytes) -> bytes:
    return b'{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"next"},"items":[%s]}' % b",".join(items)


@pytest.mark.parametrize("parameters", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_item_keeps_no_other_from_being_read(parameters: bytes) -> None:
    read = decode_page(whole_page(item("a"), item("b", parameters), item("c")), KIND)
    assert [obj["metadata"]["name"] for obj in read.items] == ["a", "b", "c"]
    assert [read.items[index] for index in (0, 2)] == [{**KIND, **json.loads(item(name))} for name in ("a", "c")]
    assert (read.resource_version, read.continue_token) == ("9", "next")


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("parameters", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_event_says_what_happened_to_which_object(kind: str, parameters: bytes) -> None:
    found, obj = decode_event(b'{"type":"%s","object":%s}' % (kind.encode(), item("b", parameters)))
    assert (found, obj["metadata"]) == (kind, {"name": "b", "uid": "u", "resourceVersion": "7"})


def test_an_object_of_which_only_the_name_is_known_says_why() -> None:
    bad = decode_page(whole_page(item("b", HOSTILE["no JSON"])), KIND).items[0]
    assert isinstance(bad, Undecoded)
    assert "not a JSON object" in bad.problem
    _, bad = decode_event(b'{"type":"ADDED","object":%s}' % item("b", HOSTILE["no JSON"]))
    assert isinstance(bad, Undecoded)


@pytest.mark.parametrize("other", [b"2", b'{"a":[}]', b"{nope}"])
def test_an_item_without_a_name_that_is_no_object_is_the_servers_fault(other: bytes) -> None:
    items = decode_page(page(items=[{"a": 1}, "other"]).replace(b'"other"', other), KIND).items
    assert items[0] == {**KIND, "a": 1}
    with pytest.raises(Unavailable, match="item 1 "):
        list(items)


@pytest.mark.parametrize(
    "line", [b'{"type":"ADDED","object":[]}', b'{"object":{}}', b'{"type":"ADDED","object":{"a":[}]}']
)
def test_an_event_about_nothing_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an event|name"):
        decode_event(line)


def test_decoders_are_made_before_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller starts with some twenty lists, each in a thread of its own."""
    assert isinstance(codec._OBJECTS, Decoder)
    assert isinstance(codec._LISTS, Decoder)
    made: list[object] = []
    monkeypatch.setattr("msgspec.json.Decoder", made.append)
    whole_from = converter(Whole)
    assert made == [Whole], "before the first value is converted"
    assert whole_from({"parts": [{"name": "a"}], "number": 1}) == Whole([Part("a")], 1)


def test_a_mapping_by_number_is_read_as_it_was_written() -> None:
    by_number = {1: 2, 3: 1}
    assert converter(dict[int, int])(decode_object(encode_object(by_number))) == by_number
    assert converter(dict[str, int])(decode_object(b'{"1":2}')) == {"1": 2}
