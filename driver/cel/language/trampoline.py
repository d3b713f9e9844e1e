"""Recursion on a list instead of Python's stack, so that expressions may be nested as deep as CEL allows.

A recursive function becomes a generator: where it would call itself, it yields that call, as in
``result = yield self.visit(child)``. `run` keeps the suspended generators on a list and sends each result back.
"""

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator["Steps[Any]", Any, T]
"""A generator that yields its recursive calls and returns a ``T``. Helpers that do not recurse use ``yield from``."""


def run(steps: "Steps[T]") -> T:
    """The result of ``steps``, at any depth of recursion. An exception in any of the calls ends the run."""
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
