"""Implements the port without threads, for a single thread that steps a whole system, such as a simulation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from controller.writing.execution import Execution
from controller.writing.port import Channel, Lanes, ReportKey
from controller.writing.steps import Lane, WriteResult, WriteSequence

ONE_AFTER_ANOTHER: Mapping[Lane, int] = dict.fromkeys(Lane, 1)
Latency = Callable[[WriteSequence, WriteResult | None], float]
"""Seconds until the answer to the call that was just made for a sequence arrives, given the result if it has one."""


@dataclass(slots=True)
class UnderWay:
    """A sequence that has started."""

    execution: Execution
    answered_at: float
    """Time at which the answer to its last call arrives (monotonic seconds)."""
    result: WriteResult | None = None
    """The result of the sequence, which is delivered with that answer."""


def _oldest(answered: Sequence[UnderWay]) -> UnderWay:
    return answered[0]


def _at_once(sequence: WriteSequence, result: WriteResult | None) -> float:
    return 0.0


class SteppedWrites:
    """Implements ``Writes``: every ``step`` makes one call of one of the sequences that are under way.

    Args:
        choose: chooses a sequence among those that wait for no answer.
        latency: returns how long an answer takes.
        bounds: the most sequences of each lane that are under way at once.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        choose: Callable[[Sequence[UnderWay]], UnderWay] = _oldest,
        latency: Latency = _at_once,
        bounds: Mapping[Lane, int] = ONE_AFTER_ANOTHER,
    ):
        self._api = channel.api
        self._terms = channel.terms
        self._deliver = channel.deliver
        self._clock = channel.clock
        self._choose = choose
        self._latency = latency
        self._lanes = Lanes(bounds)
        self._under_way: list[UnderWay] = []

    def submit(self, sequence: WriteSequence) -> None:
        """As ``Writes.submit``."""
        self._lanes.add(Execution(sequence, self._terms))
        self._start()

    def report(self, key: ReportKey, sequence: WriteSequence) -> None:
        """As ``Writes.report``."""
        self._lanes.report(key, Execution(sequence, self._terms))
        self._start()

    def step(self) -> bool:
        """Make a call of a sequence, or deliver its result; return False if every sequence waits for an answer."""
        now = self._clock.monotonic()
        answered = [sequence for sequence in self._under_way if sequence.answered_at <= now]
        if not answered:
            return False
        chosen = self._choose(answered)
        if chosen.result is None:
            chosen.result = chosen.execution.step(self._api)
            chosen.answered_at = now + self._latency(chosen.execution.sequence, chosen.result)
        if chosen.result is not None and chosen.answered_at <= now:
            self._under_way.remove(chosen)
            self._lanes.end(chosen.execution)
            self._deliver(chosen.result)
            self._start()
        return True

    def next_due(self) -> float | None:
        """Return when ``step`` has something to do (monotonic seconds); None if nothing is under way."""
        return min((sequence.answered_at for sequence in self._under_way), default=None)

    def _start(self) -> None:
        for lane in Lane:
            while (execution := self._lanes.start(lane)) is not None:
                self._under_way.append(UnderWay(execution, self._clock.monotonic()))
