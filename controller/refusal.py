"""Why there is no place: one type for all who look for one. Pure."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from driver.errors import Fault

Why = TypeVar("Why", covariant=True)


@dataclass(frozen=True, slots=True)
class Refusal(Generic[Why]):
    """Nobody can serve the subject now.

    Attributes:
        subject: key of the pod, gang, Workload or namespace that is refused.
        why: what the one who looked found out, as a type of its own; None if nobody looks for reasons.
        faults: what is written wrongly. With these, it is refused whatever changes elsewhere.
        after: seconds after which the answer may be another one although nothing has changed; None if only a change
            helps.
    """

    subject: str
    why: Why
    faults: tuple[Fault, ...] = ()
    after: float | None = None
