"""Questions of a backend about one card, which can be bounded in time so that one hanging card does not hide the
others."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Ask(Protocol):
    """Asks a question about a card; raises TransientFault if there is no answer in time."""

    def __call__(self, subject: str, question: Callable[[], T], /) -> T:
        """The answer."""


def call_directly(_subject: str, question: Callable[[], T]) -> T:
    """Call ``question`` without a bound in time; implements ``Ask``."""
    return question()
