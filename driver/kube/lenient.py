"""Reads JSON that an API server serves and strict decoders refuse. Pure.

An API server passes opaque parameters and managed fields on as they were written. They may nest more deeply than a
recursive decoder can follow (up to 10,000 levels), name halves of surrogate pairs, have bytes that are no UTF-8, and
numbers beyond every range. The other fields of such an object count all the same. So texts are read as Go's decoder
reads them, and other programs with it. Values that are nested too deeply become null, and numbers beyond the range of a
double become infinite. Callers that read opaque parameters have to refuse these. Reading is bounded in depth, and
linear in time.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from driver.limits import MAX_OBJECT_DEPTH

_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
_BRACKETS: Final = re.compile(rf'[^\[\]{{}}"]*+(?:{_STRING}[^\[\]{{}}"]*+)*+([\[{{]++|[\]}}]++)', re.DOTALL)
"""The next brackets outside of texts, as many as follow each other. Possessive, so that no input makes it go back."""
_HALF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_METADATA: Final = re.compile(r'"metadata"\s*:\s*\{')
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")
_MOST_DIGITS: Final = 310
"""The most digits of an integer: more are beyond the range of a double."""


def read_object(data: bytes) -> dict[str, Any]:
    """The object: nested at most ``MAX_OBJECT_DEPTH`` deep, with texts that can be encoded.

    Raises:
        ValueError: not a JSON object.
    """
    text = _cut(_text(data), MAX_OBJECT_DEPTH)
    if _HALF_PAIR.search(text):
        text = _ESCAPE.sub(lambda escape: "\\ufffd" if escape["half"] else escape[0], text)
    try:
        value = json.loads(text, strict=False, parse_int=_integer, parse_constant=float)
    except json.JSONDecodeError as error:
        raise ValueError(f"not a JSON object: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object: {type(value).__name__}")
    return value


def split_list(data: bytes) -> tuple[bytes, list[bytes]]:
    """A list without its items, and the items that are objects or lists, each to be read by itself.

    An error inside of an item makes neither the list nor another item unreadable.
    """
    text = _text(data)
    items: list[bytes] = []
    rest, kept, start, inside = "", 0, 0, False
    for level, bracket, position in _crossings(text, 2, 3):
        if level == 2 and bracket == "[":
            rest, kept, inside = rest + text[kept : position + 1], position + 1, True
        elif level == 2:
            kept, inside = position if inside else kept, False
        elif bracket in "[{":
            start = position
        elif inside:
            items.append(text[start : position + 1].encode())
    return (rest + text[kept:]).encode(), items


def identity_of(data: bytes) -> dict[str, Any]:
    """The fields of ``metadata`` that identify an object that cannot be read.

    Raises:
        ValueError: its name cannot be found.
    """
    text = _text(data)
    found = _METADATA.search(text)
    start = found.end() - 1 if found else 0
    end = next((position for _, bracket, position in _crossings(text[start:], 1, 1) if bracket == "}"), -1)
    metadata = read_object(_cut(text[start : start + end + 1], 1).encode())
    if not found or not isinstance(metadata.get("name"), str):
        raise ValueError("the name of the object cannot be found")
    return {field: metadata[field] for field in _IDENTITY if isinstance(metadata.get(field), str)}


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _cut(text: str, most: int) -> str:
    """The text with null for each value that is nested deeper than ``most`` levels."""
    parts = []
    kept = 0
    for _, bracket, position in _crossings(text, most + 1, most + 1):
        if bracket in "[{":
            parts += [text[kept:position], "null"]
        else:
            kept = position + 1
    return "".join((*parts, text[kept:])) if parts else text


def _crossings(text: str, lowest: int, highest: int) -> Iterator[tuple[int, str, int]]:
    """Each bracket that opens or closes one of these levels (1 is the outermost): level, bracket, position."""
    depth = end = 0
    while found := _BRACKETS.match(text, end):
        start, end = found.span(1)
        run = end - start
        if text[start] in "[{":
            for level in range(max(depth + 1, lowest), min(depth + run, highest) + 1):
                position = start + level - depth - 1
                yield level, text[position], position
            depth += run
        else:
            for level in range(min(depth, highest), max(depth - run, lowest - 1), -1):
                position = start + depth - level
                yield level, text[position], position
            depth -= run
