"""The metrics of device plugins: who is connected, what they report, and how they answer."""

from collections.abc import Callable
from typing import Final, Literal

from driver.observe import Metrics

RefusalReason = Literal[
    "version", "name", "other-backend", "endpoint", "full", "unlisted", "unreachable", "looks-for-pod"
]
"""Why a device plugin is not served: the version of the API; the name of the resource; another backend has these cards;
the endpoint is no file name; too many resources; another one of the resource is about to list; it does not answer at
its endpoint; it looks for its pod."""
FailureReason = Literal["not-connected", "busy", "timeout", "refused", "looks-for-pod", "answer"]
"""Why a claim got nothing from a device plugin; ``answer``: what it answered cannot be given to containers."""
OTHERS: Final = "others"
"""The label of resources that are refused when there are many of them already."""
_MOST_REFUSED: Final = 64
_MOST_NAME: Final = 253 + 1 + 63
"""Characters of the name of an extended resource."""


class BridgeMetrics:
    """The metrics of the device plugins of a node. Thread-safe."""

    def __init__(self, metrics: Metrics):
        self._registered = metrics.gauge(
            "device_plugin_registered", "1 while the device plugin of the resource is connected, else 0.", "resource"
        )
        self._list_age = metrics.gauge(
            "device_plugin_list_age_seconds", "Time since it last sent the list of its devices.", "resource"
        )
        self._devices = metrics.gauge(
            "device_plugin_devices", "Devices of the resource that are published, by health.", "resource", "health"
        )
        self._held = metrics.gauge(
            "device_plugin_held_devices", "Devices and slots of the resource that claims on this node have.", "resource"
        )
        self._refusals = metrics.counter(
            "device_plugin_refusals", "Times that a device plugin was refused, by reason.", "resource", "reason"
        )
        self._allocate = metrics.histogram(
            "device_plugin_allocate_seconds", "Time of a device plugin to answer for a claim.", "resource"
        )
        self._errors = metrics.counter(
            "device_plugin_allocate_errors", "Claims that got nothing of it, by reason.", "resource", "reason"
        )
        self._refused: set[str] = set()

    def follow(self, resource: str, *, connected: Callable[[], bool], held: Callable[[], int]) -> None:
        """Show a resource from now on. All is found when the metrics are read."""
        self._registered.labels(resource).set_function(connected)
        self._held.labels(resource).set_function(held)

    def follow_list(self, resource: str, *, age: Callable[[], float], count: Callable[[bool], int]) -> None:
        """Show from now on what the device plugin of a resource has listed.

        Args:
            age: of the last list in seconds.
            count: returns the number of devices that are healthy, or of those that are not.
        """
        self._list_age.labels(resource).set_function(age)
        self._devices.labels(resource, "healthy").set_function(lambda: count(True))
        self._devices.labels(resource, "unhealthy").set_function(lambda: count(False))

    def refused(self, resource: str, reason: RefusalReason) -> None:
        """Count that a device plugin was refused. Whoever can register chooses the name, so there is a limit."""
        if len(resource) > _MOST_NAME or (resource not in self._refused and len(self._refused) >= _MOST_REFUSED):
            resource = OTHERS
        self._refused.add(resource)
        self._refusals.labels(resource, reason).inc()

    def answered(self, resource: str, seconds: float) -> None:
        """Record the time of a device plugin to answer for a claim, refusals included."""
        self._allocate.labels(resource).observe(seconds)

    def failed(self, resource: str, reason: FailureReason) -> None:
        """Count a claim that got nothing from a device plugin."""
        self._errors.labels(resource, reason).inc()
