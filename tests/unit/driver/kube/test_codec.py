"""What an API server sends and takes is JSON; lists are decoded object by object."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.kube.api import Unavailable
from driver.kube.codec import decode_object, decode_page, encode_object

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


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b"null", b'{"a": 1', b'{"a": "\xff"}'])
def test_anything_else_is_refused(data: bytes) -> None:
    for decoded in (decode_object, partial(decode_page, added=KIND)):
        with pytest.raises(ValueError, match=r"JSON|Expected|truncated|utf-8|malformed|metadata"):
            decoded(data)


def test_a_list_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        decode_page(page(metadata={}), KIND)


@pytest.mark.parametrize("other", [b"2", b'{"a": "\xff"}'])
def test_an_item_that_is_no_object_is_the_servers_fault(other: bytes) -> None:
    items = decode_page(page(items=[{"a": 1}, "other"]).replace(b'"other"', other), KIND).items
    assert items[0] == {**KIND, "a": 1}
    with pytest.raises(Unavailable, match="item 1 "):
        list(items)
