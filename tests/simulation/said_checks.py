"""What is written on an object names no pod, claim or gang of another namespace."""

import re
from collections.abc import Iterator
from typing import Any, Final

from driver.kube.api import EVENTS, PODS, ApiCall, Object

_KEY: Final = re.compile(r"(?<![\w./-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/([\w.-]+)")
"""``namespace/name``, not as a part of a longer path."""


def names_of_others(text: str, namespace: str, namespaces: frozenset[str]) -> Iterator[str]:
    """Yield what the text names of other namespaces than its own."""
    for match in _KEY.finditer(text):
        if match[1] != namespace and match[1] in namespaces:
            yield match[0]


def said_problems(call: ApiCall, answer: Any, namespaces: frozenset[str]) -> Iterator[str]:
    """Yield which names of other namespaces are in the conditions or the Event that a write has left."""
    for text in _texts(call, answer):
        for name in names_of_others(text, call.namespace, namespaces):
            yield f"names {name} of another namespace: {text}"


def _texts(call: ApiCall, answer: Any) -> Iterator[str]:
    if not isinstance(answer, dict):
        return
    if call.resource == EVENTS:
        yield str(answer.get("message") or "")
    elif call.resource == PODS:
        yield from _conditions(answer)


def _conditions(pod: Object) -> Iterator[str]:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        yield str(condition.get("message") or "")
