"""How a backend asks about one card, so that one that hangs hides no other."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Ask(Protocol):
    """Asks a question about a subject, or raises TransientFault if there is no answer in time."""

    def __call__(self, subject: str, question: Callable[[], T], /) -> T:
        """The answer."""
        ...


def call_directly(_subject: str, question: Callable[[], T]) -> T:
    """``Ask`` that waits for as long as it takes."""
    return question()
