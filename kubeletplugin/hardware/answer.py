"""The answers of a vendor's library to one question, as values. Pure.

There are three: what was asked for, "the driver lacks it" in the library's own words, and none. Only the first two are
facts that may be kept and acted on. After the third, what was known before holds, and the question is asked again.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias, TypeVar

from driver.errors import TransientFault

T = TypeVar("T")
U = TypeVar("U")


class Lack(Enum):
    """The answer "not supported"."""

    LACKS = "lacks"


LACKS: Final = Lack.LACKS
"""The card or its driver says that it does not have what was asked for."""


@dataclass(frozen=True, slots=True)
class Unread:
    """There was no answer this time."""

    why: str
    """Which call failed, and with which code, in words."""


Answer: TypeAlias = T | Literal[Lack.LACKS] | Unread
"""An answer; mypy lets nobody use its value who has not looked whether there is one."""


def kept(known: Answer[T] | None, now: Answer[T]) -> Answer[T]:
    """The answer that holds now: what was known, if the question was not answered this time."""
    return known if isinstance(now, Unread) and known is not None else now


class Facts(Protocol):
    """A dataclass of which some fields are answers."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


F = TypeVar("F", bound=Facts)


def kept_facts(known: F, now: F) -> F:
    """The facts that hold now: those that were known where these were not answered."""
    return replace(now, **{name: kept(getattr(known, name), answer) for name, answer in _fields(now)})


def unread_in(facts: Facts) -> tuple[str, ...]:
    """The reasons of what was not answered, in the order of the fields; each once."""
    return tuple(dict.fromkeys(answer.why for _, answer in _fields(facts) if isinstance(answer, Unread)))


def _fields(facts: Facts) -> list[tuple[str, Any]]:
    return [(field.name, getattr(facts, field.name)) for field in fields(facts)]


def if_read(answer: Answer[T]) -> T | None:
    """The value, and None both if there is none and if it is not known: for what is only shown, never acted on."""
    return None if answer is LACKS or isinstance(answer, Unread) else answer


def read(answer: Answer[T]) -> T | Literal[Lack.LACKS]:
    """The answer; for what must be known before anything is done.

    Raises:
        TransientFault: there was none; the message has the reason.
    """
    if isinstance(answer, Unread):
        raise TransientFault(answer.why)
    return answer


def then(answer: Answer[T], of: Callable[[T], U]) -> Answer[U]:
    """What follows from the value, if there is one."""
    return answer if answer is LACKS or isinstance(answer, Unread) else of(answer)
