"""Implements the port of the running program: worker threads carry out as many sequences at once as the settings
allow."""

import threading
from collections.abc import Callable, Mapping
from functools import partial

from controller.writing.execution import Execution
from controller.writing.port import Channel, Lanes, ReportKey
from controller.writing.steps import Lane, WriteSequence
from driver.observe import Metrics
from driver.threads import start_thread


class WritingMetrics:
    """The metrics of the port to writing, registered once."""

    def __init__(self, metrics: Metrics):
        self._in_flight = metrics.gauge("controller_writes_in_flight", "Sequences under way, by lane.", "lane")
        self._waiting = metrics.gauge("controller_writes_waiting", "Sequences not started yet, by lane.", "lane")
        self._seconds = metrics.histogram("controller_write_seconds", "Time of one write, by outcome.", "outcome")

    def counted(self, lane: str, in_flight: int, waiting: int) -> None:
        """Set the number of sequences of a lane that are under way, and of those that wait."""
        self._in_flight.labels(lane).set(in_flight)
        self._waiting.labels(lane).set(waiting)

    def written(self, error: Exception | None, seconds: float) -> None:
        """Record one write; the outcome is ``done`` or the class of the error (``driver.kube.api``)."""
        self._seconds.labels(type(error).__name__ if error else "done").observe(seconds)


class ThreadedWrites:
    """Implements ``Writes`` with one thread for each write that may be in flight. Thread-safe.

    Args:
        bounds: the number of threads of each lane.
        died: called when a worker ends by an error that nobody foresaw.
    """

    def __init__(
        self,
        channel: Channel,
        bounds: Mapping[Lane, int],
        metrics: WritingMetrics,
        *,
        died: Callable[[], None],
    ):
        self._api = channel.api
        self._terms = channel.terms
        self._deliver = channel.deliver
        self._clock = channel.clock
        self._metrics = metrics
        self._lanes = Lanes(bounds)
        self._lock = threading.Lock()
        self._may_start = {lane: threading.Condition(self._lock) for lane in Lane}
        self._ended = threading.Condition(self._lock)
        self._closed = False
        for lane, count in bounds.items():
            for number in range(count):
                start_thread(f"{lane} {number}", partial(self._work, lane), died)

    def submit(self, sequence: WriteSequence) -> None:
        """As ``Writes.submit``."""
        with self._lock:
            self._lanes.add(Execution(sequence, self._terms))
            self._changed()

    def report(self, key: ReportKey, sequence: WriteSequence) -> None:
        """As ``Writes.report``."""
        with self._lock:
            self._lanes.report(key, Execution(sequence, self._terms))
            self._changed()

    def close(self, seconds: float) -> bool:
        """Start no more sequences, and wait for those under way; returns whether they all ended in ``seconds``."""
        with self._lock:
            self._closed = True
            self._lanes.drop()
            for workers in self._may_start.values():
                workers.notify_all()
            return self._ended.wait_for(lambda: not any(self._lanes.under_way(lane) for lane in Lane), seconds)

    def _work(self, lane: Lane) -> None:
        while (execution := self._next(lane)) is not None:
            result = None
            while result is None:
                started = self._clock.monotonic()
                result = execution.step(self._api)
                self._metrics.written(result.error if result else None, self._clock.monotonic() - started)
            # The result is delivered before the objects are free: the next decision knows it.
            self._deliver(result)
            with self._lock:
                self._lanes.end(execution)
                self._changed()
                self._ended.notify_all()

    def _next(self, lane: Lane) -> Execution | None:
        """Return the next sequence of the lane as soon as one may start; None when the port is closed."""
        with self._lock:
            while not self._closed:
                execution = self._lanes.start(lane)
                if execution is not None:
                    # More than one sequence may have become free to start, so each worker that starts wakes the next.
                    self._changed()
                    return execution
                self._may_start[lane].wait()
            return None

    def _changed(self) -> None:
        for lane, workers in self._may_start.items():
            waiting = self._lanes.waiting(lane)
            self._metrics.counted(lane, self._lanes.under_way(lane), waiting)
            if waiting:
                workers.notify()
