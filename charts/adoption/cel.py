"""Pieces of CEL. Pure."""

import json

from driver.adoption.naming import ESCAPES
from driver.adoption.sources import AdoptionSource

GIVEN = 'c.?resources.?limits[?k].orValue(c.?resources.?requests[?k].orValue(""))'
"""The text of the amount of the resource `k` that the container `c` asks for; "" if it does not name it."""


def literal(value: object) -> str:
    """A value as a literal of CEL; JSON is one."""
    return json.dumps(value, ensure_ascii=False)


def escaped(text: str) -> str:
    """A text as a label of a name."""
    replaced = (f".replace({literal(one)}, {literal('-' + letter)})" for one, letter in ESCAPES.items())
    return f"{text}.lowerAscii()" + "".join(replaced)


def trimmed(text: str, entries: bool) -> str:
    """A text without blanks around its entries, if it is a list where these mean nothing."""
    return f'{text}.split(",").map(entry, entry.trim()).join(",")' if entries else text


def shown(text: str) -> str:
    """A text as a message has it: short, and on one line."""
    return f'({text}.size() > 64 ? {text}.substring(0, 64) + "..." : {text}).replace("\\n", " ").replace("\\r", " ")'


def takes(source: AdoptionSource) -> str:
    """Whether the resource `k` is one of the source."""
    listed = f"k in {literal(list(source.listed))}"
    return f"({listed} || {matches(source.pattern)})" if source.pattern else listed


def set_apart(source: AdoptionSource) -> str:
    """Whether the resource `k` stands for no devices that a container has for itself; "" if each does."""
    others = sorted({*source.shared, *source.environment})
    parts = [f"k in {literal(others)}"] if others else []
    return " || ".join([*parts, *([matches(source.refused)] if source.refused else [])])


def matches(pattern: str) -> str:
    """Whether the whole name of the resource `k` matches a regular expression."""
    return f"k.matches({literal(f'^({pattern})$')})"
