"""Metrics of writes, under the names Prometheus sees (prefix ``lode_``)."""

from driver.observe import Metrics


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
