"""Recursion as deep as an expression is nested, on a list instead of Python's own stack."""

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator["Steps[Any]", Any, T]
"""A function that yields the calls it makes of itself and is sent their results; plain helpers use ``yield from``."""


def run(steps: "Steps[T]") -> T:
    """The result of ``steps``, however deep it calls itself. What it raises ends the whole run."""
    stack: list[Steps[Any]] = [steps]
    value: Any = None
    while True:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as done:
            stack.pop()
            value = done.value
            if not stack:
                result: T = value
                return result
