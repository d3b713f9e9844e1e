"""Which sequences are under way and which wait for their turn. Knows no threads and makes no call."""

from collections import deque
from collections.abc import Mapping
from typing import TypeVar

from controller.writing.execution import Execution
from controller.writing.steps import Lane, ObjectKey

V = TypeVar("V")

TellKey = tuple[ObjectKey, str]
"""What a telling is about: an object and a reason."""


class Lanes:
    """Sequences by lane: up to a bound at once, and never two that are about one object.

    Namespaces take turns, so that nobody waits behind all that is written for another one. Within one, the order is
    that of arrival.

    Args:
        bounds: the most sequences of each lane that are under way at once.
    """

    def __init__(self, bounds: Mapping[Lane, int]):
        self._bounds = bounds
        self._placing: dict[str, deque[Execution]] = {}
        self._telling: dict[str, dict[TellKey, Execution]] = {}
        """What waits, by namespace, that first whose turn it is."""
        self._telling_of: dict[ObjectKey, set[TellKey]] = {}
        """What waits to be told, by the objects that are written for it."""
        self._started = dict.fromkeys(Lane, 0)
        self._busy: set[ObjectKey] = set()

    def add(self, execution: Execution) -> None:
        """Queue a sequence that places. What was to be told about the same objects is out of date, and dropped."""
        for target in execution.sequence.objects:
            for key in tuple(self._telling_of.get(target, ())):
                self._remove_telling(key)
        self._placing.setdefault(_namespace_of(execution), deque()).append(execution)

    def tell(self, key: TellKey, execution: Execution) -> None:
        """Queue a sequence that tells; it takes the place of one with the same key that has not started."""
        namespace = _namespace_of_told(key)
        if key in self._telling.get(namespace, {}):
            self._remove_telling(key)
        self._telling.setdefault(namespace, {})[key] = execution
        for target in execution.sequence.objects:
            self._telling_of.setdefault(target, set()).add(key)

    def start(self, lane: Lane) -> Execution | None:
        """The next sequence that may start, which counts as under way from now on; None if none may."""
        if self._started[lane] >= self._bounds[lane]:
            return None
        execution = self._take_placing() if lane is Lane.PLACING else self._take_telling()
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
        self._telling.clear()
        self._telling_of.clear()

    def waiting(self, lane: Lane) -> int:
        """The number of sequences that have not started."""
        waiting = self._placing if lane is Lane.PLACING else self._telling
        return sum(map(len, waiting.values()))

    def under_way(self, lane: Lane) -> int:
        """The number of sequences that have started and not ended."""
        return self._started[lane]

    def _take_placing(self) -> Execution | None:
        for namespace, waiting in self._placing.items():
            blocked = set(self._busy)
            for position, execution in enumerate(waiting):
                if blocked.isdisjoint(execution.sequence.objects):
                    del waiting[position]
                    self._goes_last(self._placing, namespace)
                    return execution
                # What came later about one of these objects does not overtake. They are of one namespace.
                blocked |= execution.sequence.objects
        return None

    def _take_telling(self) -> Execution | None:
        for namespace, waiting in self._telling.items():
            for key, execution in waiting.items():
                if self._busy.isdisjoint(execution.sequence.objects):
                    self._remove_telling(key)
                    self._goes_last(self._telling, namespace)
                    return execution
        return None

    @staticmethod
    def _goes_last(waiting: dict[str, V], namespace: str) -> None:
        """The namespace has had its turn."""
        others = waiting.pop(namespace, None)
        if others:
            waiting[namespace] = others

    def _remove_telling(self, key: TellKey) -> None:
        namespace = _namespace_of_told(key)
        waiting = self._telling[namespace]
        execution = waiting.pop(key)
        if not waiting:
            del self._telling[namespace]
        for target in execution.sequence.objects:
            keys = self._telling_of[target]
            keys.discard(key)
            if not keys:
                del self._telling_of[target]


def _namespace_of(execution: Execution) -> str:
    return execution.sequence.subject[1].rpartition("/")[0]


def _namespace_of_told(key: TellKey) -> str:
    return key[0][1].rpartition("/")[0]
