"""The metrics of publishing."""

from collections import Counter
from collections.abc import Iterable

from driver.observe import Metrics
from kubeletplugin.inventory import Inventory
from kubeletplugin.publish.cards import NodeCards


class PublishingMetrics:
    """Metrics of the published devices and of the writes."""

    def __init__(self, metrics: Metrics):
        self.writes = metrics.counter(
            "slice_writes", "Writes of ResourceSlices, by operation and outcome", "operation", "outcome"
        )
        self.dropped_fields = metrics.counter(
            "slice_dropped_fields", "Kinds of field the API server did not store (feature gate off)", "field"
        )
        self.refusals = metrics.counter(
            "slice_refusals", "Inventories not published because they break a rule of the API"
        )
        self._unreadable = metrics.gauge(
            "plugin_unreadable_objects", "Objects that cannot be decoded, by kind of object", "resource"
        )
        self.devices = metrics.gauge("devices", "Devices published, by kind", "kind")
        self.cards = metrics.gauge("cards", "Cards of the node, by health", "health")
        self.generation = metrics.gauge("pool_generation", "Generation of the node's pool")

    def unreadable(self, plurals: Iterable[str]) -> None:
        """Set the number of objects that cannot be decoded: the kind of each."""
        self._unreadable.clear()
        for plural, count in Counter(plurals).items():
            self._unreadable.labels(plural).set(count)

    def record(self, inventory: Inventory, state: NodeCards, generation: int) -> None:
        """Set the metrics of the published devices."""
        self.devices.clear()
        for kind, count in Counter(item.kind for item in inventory.offered).items():
            self.devices.labels(kind).set(count)
        self.cards.labels("healthy").set(len(state.offers) - len(state.unhealthy))
        self.cards.labels("unhealthy").set(len(state.unhealthy))
        self.generation.set(generation)
