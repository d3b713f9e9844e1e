"""The port to writing: takes decisions as sequences of writes, and returns their results as events."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from controller.writing.execution import Terms
from controller.writing.lanes import ReportKey
from controller.writing.steps import WriteResult, WriteSequence
from driver.clock import Clock
from driver.kube.api import Api

Deliver = Callable[[WriteResult], None]
"""Takes the result of a sequence."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The API that writes go to, and the receiver of their results.

    Attributes:
        terms: says in which term of leadership writes may be made.
        deliver: called with each result, in the thread that made the last call of the sequence.
    """

    api: Api
    terms: Terms
    deliver: Deliver
    clock: Clock


class Writes(Protocol):
    """Carries out sequences, many at once: in order within one, and never two that are about one object at once.

    A sequence belongs to the term in which it was decided. When that is over, no further step of it is made. A sequence
    may be older than the present term: the process can be stopped between a decision and its submission.
    """

    def submit(self, sequence: WriteSequence) -> None:
        """Carry the sequence out; returns at once. The result is delivered later, exactly once."""
        ...

    def report(self, key: ReportKey, sequence: WriteSequence) -> None:
        """Carry out a sequence of the reporting lane when there is room; returns at once.

        At most one sequence of a key waits: a newer one takes the place of an older one that has not started. A report
        that has not started is dropped when a sequence about the same object is submitted. Reports that are replaced or
        dropped have no result.
        """
        ...


class WritesOfTerm:
    """Implements ``Writes``: passes sequences on as decided in the present term of their author.

    Args:
        term: of the author of the sequences, as far as it knows when it decides; 0 if it may not decide.
    """

    def __init__(self, writes: Writes, term: Callable[[], int]):
        self._writes = writes
        self._term = term

    def submit(self, sequence: WriteSequence) -> None:
        """As ``Writes.submit``."""
        self._writes.submit(replace(sequence, term=self._term()))

    def report(self, key: ReportKey, sequence: WriteSequence) -> None:
        """As ``Writes.report``."""
        self._writes.report(key, replace(sequence, term=self._term()))
