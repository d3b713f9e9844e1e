"""The controller's metrics, under the names Prometheus sees (prefix ``lode_``)."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial

from controller.reconcile.decisions import Reason
from driver.observe import LONG, Metrics


class DecisionOutcome(StrEnum):
    """The outcome of one decision; a pod that waits has a ``Reason`` instead. The values are documented."""

    POD_GONE = "gone"
    POD_IDLE = "idle"
    POD_GATE_REMOVED = "lift"
    POD_PLACED = "place"
    POD_MAKES_ROOM = "preempt"
    POD_RELEASED = "release"
    POD_TAKEN_BACK = "takeback"
    CONFLICT = "conflict"
    OVER_BUDGET = "overbudget"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    GANG_GONE = "ganggone"
    GANG_DECIDED = "gang"
    CLAIM_IDLE = "claimidle"
    CLAIM_WAITS = "claimwait"
    CLAIM_FREED = "claimfree"


class ControllerMetrics:
    """The controller's metrics, registered once."""

    def __init__(self, metrics: Metrics):
        self._depth = metrics.gauge("controller_queue_depth", "Pods, claims and gangs that are due for a decision.")
        self._waiting = metrics.gauge("controller_waiting_pods", "Pods that cannot be placed at present.")
        self._held = metrics.gauge("controller_held_nodes", "Nodes that are held back for pods that have waited long.")
        self._decisions = metrics.counter("controller_decisions", "Decisions about pods and claims.", "outcome")
        self._seconds = metrics.histogram("controller_decision_seconds", "Time to decide about one pod or claim.")
        self._errors = metrics.counter("controller_api_errors", "Calls of the API that failed, by error.", "error")
        self._allocated = metrics.gauge("allocated_devices", "Allocations of our devices in live claims.", "kind")
        self._double_uses = metrics.gauge(
            "controller_double_uses", "Claims that hold what older claims hold, too; anything but 0 is an alarm."
        )
        self._out_of_contact = metrics.gauge(
            "controller_out_of_contact_seconds", "Time since a kind of object cannot be listed or watched.", "resource"
        )
        self._unreadable = metrics.gauge(
            "controller_unreadable_objects", "Objects that cannot be decoded, by kind of object.", "resource"
        )
        self._watch_age = metrics.gauge(
            "controller_watch_age_seconds", "Time since the API last told of this kind of object.", "resource"
        )
        self._to_allocation = metrics.histogram(
            "pod_to_allocation_seconds",
            "Time from the creation of a pod, or the end of the gates of others, until its devices were allocated.",
            buckets=LONG,
        )
        self._copying = metrics.histogram(
            "controller_fleet_copy_seconds", "Time that copying the fleet for a scrape took of the thread that decides."
        )
        self._preemptions = metrics.counter("preemptions", "Pods that were evicted for others.")
        self._known: set[str] = set()

    def decided(self, outcome: DecisionOutcome | Reason) -> None:
        """Count a decision by its outcome; one that means writes is counted when these have ended."""
        self._decisions.labels(outcome.value).inc()

    def took(self, seconds: float) -> None:
        """Record the time of one decision."""
        self._seconds.observe(seconds)

    def failed(self, error: Exception) -> None:
        """Count a call of the API that failed; the label is the class of the error (``driver.kube.api``)."""
        self._errors.labels(type(error).__name__).inc()

    def double_uses(self, count: int) -> None:
        """Set the number of claims that hold what older claims hold, too."""
        self._double_uses.set(count)

    def out_of_contact(self, resource: str, seconds: float) -> None:
        """Set the time for which a kind of object cannot be listed or watched; 0 if it can."""
        self._out_of_contact.labels(resource).set(seconds)

    def count(self, queued: Callable[[], int], waiting: Callable[[], int], held: Callable[[], int]) -> None:
        """Count from now on the keys that are due, the pods that cannot be placed and the nodes that are held back.

        They are counted when the metrics are read, in another thread than the one that decides.
        """
        self._depth.set_function(queued)
        self._waiting.set_function(waiting)
        self._held.set_function(held)

    def count_unreadable(self, plurals: Iterable[str], count: Callable[[str], int]) -> None:
        """Count from now on the objects of each kind that cannot be decoded, when the metrics are read."""
        for plural in plurals:
            self._unreadable.labels(plural).set_function(partial(count, plural))

    def watch_ages(self, ages: Mapping[str, Callable[[], float]]) -> None:
        """Show from now on how long ago the API last told of each kind, found when the metrics are read."""
        for plural, age in ages.items():
            self._watch_age.labels(plural).set_function(age)

    def placed_after(self, seconds: float) -> None:
        """Record how long a pod waited for its devices."""
        self._to_allocation.observe(seconds)

    def copied_fleet(self, seconds: float) -> None:
        """Record how long the fleet was copied for a scrape."""
        self._copying.observe(seconds)

    def preempted(self) -> None:
        """Count a pod that was evicted for another."""
        self._preemptions.inc()

    def allocated(self, by_kind: Mapping[str, int]) -> None:
        """Set the number of allocated devices by kind; kinds that are gone are set to 0."""
        for kind in self._known | set(by_kind):
            self._allocated.labels(kind).set(by_kind.get(kind, 0))
        self._known |= set(by_kind)
