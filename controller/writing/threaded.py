"""The port of the running program: worker threads carry sequences out, as many at once as the settings allow."""

import threading
from collections.abc import Callable, Mapping
from functools import partial

from controller.writing.execution import Execution
from controller.writing.lanes import Lanes, TellKey
from controller.writing.metrics import WritingMetrics
from controller.writing.port import Deliver
from controller.writing.steps import Lane, WriteSequence
from controller.writing.terms import Terms
from driver.clock import Clock
from driver.kube.api import Api
from driver.threads import start_thread


class ThreadedWrites:
    """Implements ``Writes`` with one thread for each write that may be in flight. Thread-safe.

    Args:
        deliver: called in the worker threads.
        died: called when a worker ends by an error that nobody foresaw.
        bounds: the number of threads of each lane.
    """

    def __init__(
        self,
        api: Api,
        terms: Terms,
        deliver: Deliver,
        died: Callable[[], None],
        bounds: Mapping[Lane, int],
        clock: Clock,
        metrics: WritingMetrics,
    ):
        self._api = api
        self._terms = terms
        self._deliver = deliver
        self._clock = clock
        self._metrics = metrics
        self._lanes = Lanes(bounds)
        self._changed = threading.Condition()
        self._closed = False
        for lane, count in bounds.items():
            for number in range(count):
                start_thread(f"{lane} {number}", partial(self._work, lane), died)

    def submit(self, sequence: WriteSequence) -> None:
        """As ``Writes.submit``."""
        with self._changed:
            self._lanes.add(Execution(sequence, self._terms))
            self._notice()

    def tell(self, key: TellKey, sequence: WriteSequence) -> None:
        """As ``Writes.tell``."""
        with self._changed:
            self._lanes.tell(key, Execution(sequence, self._terms))
            self._notice()

    def close(self, seconds: float) -> bool:
        """Start no more sequences, and wait for those under way; returns whether they all ended in ``seconds``."""
        with self._changed:
            self._closed = True
            self._lanes.drop()
            self._notice()
            return self._changed.wait_for(lambda: not any(self._lanes.under_way(lane) for lane in Lane), seconds)

    def _work(self, lane: Lane) -> None:
        while True:
            with self._changed:
                execution = self._lanes.start(lane)
                while execution is None and not self._closed:
                    self._changed.wait()
                    execution = self._lanes.start(lane)
                if execution is None:
                    return
                self._measure()
            self._carry_out(execution)

    def _carry_out(self, execution: Execution) -> None:
        result = None
        while result is None:
            started = self._clock.monotonic()
            result = execution.step(self._api)
            self._metrics.written(result.error if result else None, self._clock.monotonic() - started)
        # The result is delivered before the objects are free: what is decided next knows it.
        self._deliver(result)
        with self._changed:
            self._lanes.end(execution)
            self._notice()

    def _notice(self) -> None:
        self._measure()
        self._changed.notify_all()

    def _measure(self) -> None:
        for lane in Lane:
            self._metrics.counted(lane, self._lanes.under_way(lane), self._lanes.waiting(lane))
