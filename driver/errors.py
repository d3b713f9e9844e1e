"""Errors by who must act. Each names the object, the field, the value and the remedy. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from driver.limits import listed

_MOST_TEXT = 4096
"""Characters of the text of all faults: what is written is part of it, and may be long."""


SENSELESS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading raises about content that makes no sense, and that no program of ours has written."""


class LodeError(Exception):
    """Base of every error that this project raises on purpose."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of an input: the field, and what to do about it.

    Attributes:
        key: key of the object that is written wrongly, ``namespace/name``; "" if whoever has the fault knows which it
            is.
        kind: kind of that object, as messages name it.
    """

    field: str
    message: str
    key: str = ""
    kind: str = "claim"

    def __str__(self) -> str:
        text = f"{self.field}: {self.message}" if self.field else self.message
        return f"{self.kind} {self.key}: {text}" if self.key else text


class InvalidInput(LodeError):
    """An object is not valid; its author must change it. Carries all faults at once."""

    def __init__(self, subject: str, faults: Iterable[Fault]):
        self.subject = subject
        self.faults = tuple(faults)
        super().__init__(f"{subject}: {listed([str(fault) for fault in self.faults], _MOST_TEXT)}")


class TransientFault(LodeError):
    """Something outside the program failed. The same call may succeed later, and the program retries it."""


class OperatorFault(LodeError):
    """The node or the cluster is set up wrongly; its operator must act."""
