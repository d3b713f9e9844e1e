"""What the controller measures, under the names Prometheus sees (prefix ``lode_``)."""

from collections.abc import Mapping

from driver.observe import Metrics


class ControllerMetrics:
    """The controller's metrics, registered once."""

    def __init__(self, metrics: Metrics):
        self._depth = metrics.gauge("controller_queue_depth", "Pods and claims that wait for a decision.")
        self._waiting = metrics.gauge("controller_waiting_pods", "Pods that cannot be placed at present.")
        self._decisions = metrics.counter("controller_decisions", "Decisions about pods and claims.", "outcome")
        self._seconds = metrics.histogram(
            "controller_decision_seconds", "Time to decide and to carry it out, by outcome.", "outcome"
        )
        self._errors = metrics.counter("controller_api_errors", "Calls of the API that failed, by error.", "error")
        self._allocated = metrics.gauge("allocated_devices", "Allocations of our devices in live claims.", "kind")
        self._known: set[str] = set()

    def decided(self, outcome: str, seconds: float) -> None:
        """One decision was made and carried out."""
        self._decisions.labels(outcome).inc()
        self._seconds.labels(outcome).observe(seconds)

    def failed(self, error: str) -> None:
        """A call of the API failed."""
        self._errors.labels(error).inc()

    def queued(self, depth: int, waiting: int) -> None:
        """How much there is to do."""
        self._depth.set(depth)
        self._waiting.set(waiting)

    def allocated(self, by_kind: Mapping[str, int]) -> None:
        """How many devices are allocated, by kind; kinds no longer there go to 0."""
        for kind in self._known | set(by_kind):
            self._allocated.labels(kind).set(by_kind.get(kind, 0))
        self._known |= set(by_kind)
