"""The port to writing: takes decisions as sequences of writes, and returns their results as events.

Every implementation starts sequences in the order of ``Lanes``, which knows no threads and makes no call.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from controller.writing.execution import Execution, Terms
from controller.writing.steps import Lane, ObjectKey, WriteResult, WriteSequence
from driver.clock import Clock
from driver.kube.api import Api

V = TypeVar("V")
ReportKey = tuple[ObjectKey, str]
"""The object that a report is about, and the reason."""
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


class Lanes:
    """Sequences by lane: up to a bound at once, and never two that are about one object.

    Namespaces take turns, so that none waits behind all writes of another one. Within a namespace, the order is that of
    arrival.

    Args:
        bounds: the most sequences of each lane that are under way at once.
    """

    def __init__(self, bounds: Mapping[Lane, int]):
        self._bounds = bounds
        self._placing: dict[str, deque[Execution]] = {}
        self._reports: dict[str, dict[ReportKey, Execution]] = {}
        """Reports that wait, by namespace; the first namespace has its turn."""
        self._reports_of: dict[ObjectKey, set[ReportKey]] = {}
        """Keys of reports that wait, by the objects that are written for them."""
        self._started = dict.fromkeys(Lane, 0)
        self._busy: set[ObjectKey] = set()

    def add(self, execution: Execution) -> None:
        """Queue a sequence that places. Reports that wait about the same objects are out of date, and dropped."""
        for target in execution.sequence.objects:
            for key in tuple(self._reports_of.get(target, ())):
                self._remove_report(key)
        self._placing.setdefault(_namespace_of(execution), deque()).append(execution)

    def report(self, key: ReportKey, execution: Execution) -> None:
        """Queue a report; it takes the place of one with the same key that has not started."""
        namespace = _namespace_of_report(key)
        if key in self._reports.get(namespace, {}):
            self._remove_report(key)
        self._reports.setdefault(namespace, {})[key] = execution
        for target in execution.sequence.objects:
            self._reports_of.setdefault(target, set()).add(key)

    def start(self, lane: Lane) -> Execution | None:
        """Return the next sequence that may start, which counts as under way from now on; None if none may."""
        if self._started[lane] >= self._bounds[lane]:
            return None
        execution = self._take_placing() if lane is Lane.PLACING else self._take_report()
        if execution is not None:
            self._busy |= execution.sequence.objects
            self._started[lane] += 1
        return execution

    def end(self, execution: Execution) -> None:
        """Take in that a sequence is no longer under way."""
        self._busy -= execution.sequence.objects
        self._started[execution.sequence.lane] -= 1

    def drop(self) -> None:
        """Forget everything that has not started."""
        self._placing.clear()
        self._reports.clear()
        self._reports_of.clear()

    def waiting(self, lane: Lane) -> int:
        """Return the number of sequences that have not started."""
        waiting = self._placing if lane is Lane.PLACING else self._reports
        return sum(map(len, waiting.values()))

    def under_way(self, lane: Lane) -> int:
        """Return the number of sequences that have started and not ended."""
        return self._started[lane]

    def _take_placing(self) -> Execution | None:
        for namespace, waiting in self._placing.items():
            blocked = set(self._busy)
            for position, execution in enumerate(waiting):
                if blocked.isdisjoint(execution.sequence.objects):
                    del waiting[position]
                    self._goes_last(self._placing, namespace)
                    return execution
                # A later sequence about one of these objects does not overtake. They are of one namespace.
                blocked |= execution.sequence.objects
        return None

    def _take_report(self) -> Execution | None:
        for namespace, waiting in self._reports.items():
            for key, execution in waiting.items():
                if self._busy.isdisjoint(execution.sequence.objects):
                    self._remove_report(key)
                    self._goes_last(self._reports, namespace)
                    return execution
        return None

    @staticmethod
    def _goes_last(waiting: dict[str, V], namespace: str) -> None:
        """Move the namespace, which has had its turn, to the end."""
        others = waiting.pop(namespace, None)
        if others:
            waiting[namespace] = others

    def _remove_report(self, key: ReportKey) -> None:
        namespace = _namespace_of_report(key)
        waiting = self._reports[namespace]
        execution = waiting.pop(key)
        if not waiting:
            del self._reports[namespace]
        for target in execution.sequence.objects:
            keys = self._reports_of[target]
            keys.discard(key)
            if not keys:
                del self._reports_of[target]


def _namespace_of(execution: Execution) -> str:
    return execution.sequence.subject[1].rpartition("/")[0]


def _namespace_of_report(key: ReportKey) -> str:
    return key[0][1].rpartition("/")[0]
