"""What an API server serves can be read, whatever others have written into it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.kube.codec import encode_object
from driver.kube.lenient import identity_of, read_object, split_list
from driver.limits import MAX_OBJECT_DEPTH

TEXTS = st.text('[]{}"\\,:u \ud800\udfff\x00é😀aD8', max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(TEXTS, some, max_size=3),
    max_leaves=30,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def as_go_reads(value: Any) -> Any:
    """The value with U+FFFD for each half of a surrogate pair, as Go's decoder has it."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [as_go_reads(part) for part in value]
        case dict():
            return {as_go_reads(key): as_go_reads(part) for key, part in value.items()}
    return value


def nested(depth: int, inner: str = "1", opening: str = '{"a":', closing: str = "}") -> bytes:
    return (opening * depth + inner + closing * depth).encode()


@given(obj=OBJECTS, spaces=st.sampled_from([None, 1]))
def test_an_object_is_what_go_reads(obj: dict[str, Any], spaces: int | None) -> None:
    read = read_object(json.dumps(obj, indent=spaces).encode())
    assert read == as_go_reads(obj)
    encode_object(read)


@given(depth=st.integers(1, 3 * MAX_OBJECT_DEPTH), text=TEXTS)
def test_what_is_nested_too_deeply_is_null_and_the_rest_is_read(depth: int, text: str) -> None:
    inner = json.dumps(text)
    data = (
        b'{"before":[' + nested(depth, inner) + b"," + nested(depth, inner, "[", "]") + b'],"after":' + inner.encode()
    )
    read = read_object(data + b"}")
    assert read["after"] == as_go_reads(text)
    mapping, sequence = read["before"]
    levels = 0
    while isinstance(mapping, dict):
        mapping, sequence, levels = mapping["a"], sequence[0], levels + 1
    assert levels == min(depth, MAX_OBJECT_DEPTH - 2)
    assert mapping == sequence == (as_go_reads(text) if levels == depth else None)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb'"\ud800"', "\ufffd"),
        (rb'"\uD83D\uDE00 \udc00 tail"', "😀 \ufffd tail"),
        (rb'"\\ud800"', "\\ud800"),
        (b'"\xff\xfe"', "\ufffd\ufffd"),
        (b'"\x01"', "\x01"),
        (b"1e999", float("inf")),
        (b"1" * 5000, float("inf")),
        (b"-" + b"1" * 5000, float("-inf")),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_values_that_strict_decoders_refuse(written: bytes, read: object) -> None:
    assert read_object(b'{"a":' + written + b"}") == {"a": read}


def test_a_megabyte_of_brackets_is_read() -> None:
    size = 500_000
    assert read_object(b'{"a":' + b"[" * size + b"]" * size + b',"b":1}')["b"] == 1


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"<html>", b'{"a": 1', b'{"a": "', b"]]]{", b'"' * 9])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        read_object(data)


@given(items=st.lists(OBJECTS, max_size=4), metadata=st.dictionaries(TEXTS, TEXTS), swapped=st.booleans())
def test_a_list_is_split_into_its_items(items: list[dict[str, Any]], metadata: dict[str, str], swapped: bool) -> None:
    fields = {"metadata": metadata, "items": items}
    text = json.dumps(dict(reversed(fields.items())) if swapped else fields)
    rest, found = split_list(text.encode())
    assert json.loads(rest) == {**json.loads(text), "items": []}
    assert [json.loads(item) for item in found] == json.loads(text)["items"]


@pytest.mark.parametrize("inside", [b"", b"]", b'"a":,', b'"spec":{"b":nope}', b'"labels":{"x":"y"}'])
def test_an_object_that_cannot_be_read_is_known_by_its_name(inside: bytes) -> None:
    metadata = b'"metadata":{"labels":{"name":"no"},"name":"a","namespace":"team","uid":"u","resourceVersion":"7"}'
    assert identity_of(b"{" + metadata + b"," + inside) == {
        "name": "a",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "7",
    }


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"metadata":{}}', b'{"metadata":{"name":5}}', b'{"metadata":{"name":"a"']
)
def test_an_object_without_a_name_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"name|not a JSON object"):
        identity_of(data)
