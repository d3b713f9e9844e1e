"""Why there is no place: one type for all who look for one; and who has asked in vain already. Pure."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from driver.bounded import BoundedCache
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


class AskedInVain:
    """The questions that found no place, each with the version of what its answer depends on.

    The same question need not be asked again as long as that version is the same.

    Args:
        most: questions that are remembered.
    """

    def __init__(self, most: int):
        self._versions: BoundedCache[Hashable, Hashable] = BoundedCache(most)

    def holds(self, question: Hashable, version: Hashable) -> bool:
        """Return whether the question found no place at this version."""
        return self._versions.get(question) == version

    def remember(self, question: Hashable, version: Hashable) -> None:
        """Remember that the question found no place at this version."""
        self._versions[question] = version
