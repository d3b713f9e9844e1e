"""What is written on an object names no pod, claim or gang of another namespace."""

import re
from collections.abc import Iterator
from typing import Final

_KEY: Final = re.compile(r"(?<![\w./-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/([\w.-]+)")
"""``namespace/name``, not as a part of a longer path."""
_ELSEWHERE: Final = re.compile(r"in (another namespace|other namespaces)")


def names_of_others(text: str, namespace: str, namespaces: frozenset[str]) -> Iterator[str]:
    """Yield what the text names of other namespaces than its own."""
    for match in _KEY.finditer(text):
        if match[1] != namespace and match[1] in namespaces:
            yield match[0]


def said_problems(text: str, namespace: str, namespaces: frozenset[str]) -> Iterator[str]:
    """Yield what a text on an object of ``namespace`` says wrong of others.

    Args:
        namespaces: those that users have.
    """
    if _ELSEWHERE.search(text) and namespaces <= {namespace}:
        yield f"speaks of other namespaces, and there are none: {text}"
    for name in names_of_others(text, namespace, namespaces):
        yield f"names {name} of another namespace: {text}"
