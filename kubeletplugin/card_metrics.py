"""Shows what the cards of the node measure of themselves, when somebody asks for metrics."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from driver.clock import Clock
from driver.metric_labels import gauges, labels
from driver.observe import Metrics
from kubeletplugin.hardware import Card, Readings
from kubeletplugin.hardware.guarded import CardReadings
from kubeletplugin.hardware.readings import MEASURES, Measure
from kubeletplugin.reused import ReusedAnswer

_SIZE: Final = "lode_card_memory_size_bytes"
_NAMES: Final[Mapping[Measure, str]] = {
    "utilization": "lode_card_utilization_ratio",
    "memoryUsed": "lode_card_memory_used_bytes",
    "temperature": "lode_card_temperature_celsius",
    "power": "lode_card_power_watts",
}
CARD_FAMILIES: Final = {
    "lode_card_utilization_ratio": "Part of the last moments in which the card computed.",
    "lode_card_memory_used_bytes": "Memory of the card that is in use.",
    "lode_card_memory_size_bytes": "Memory of the card.",
    "lode_card_temperature_celsius": "Temperature of the card.",
    "lode_card_power_watts": "Power that the card draws.",
}
"""What each series means, by its name."""

Sample = tuple[str, str, float]
"""Name, labels and value."""


class CardMetrics:
    """Reads the cards and writes the series. Any thread may ask.

    A measure that a card does not have has no series. Nor has one that could not be read this time, which is counted.

    Args:
        read: asks every card. It takes a bounded time, whatever the cards do.
    """

    def __init__(self, read: Callable[[], CardReadings], metrics: Metrics, clock: Clock):
        self._read = read
        self._unread = metrics.counter(
            "card_unread_readings", "Readings of a card that could not be had.", "card", "index", "uuid", "reading"
        )
        self._samples = ReusedAnswer(self._ask, clock)

    def text(self) -> bytes:
        """Return the series in the format of Prometheus."""
        samples = self._samples.get()
        return gauges(CARD_FAMILIES, ((name, named, f"{value:.12g}") for name, named, value in samples))

    def _ask(self) -> tuple[Sample, ...]:
        found = list[Sample]()
        for card, answer in self._read():
            named = labels(card=card.name, index=str(card.index), uuid=card.uuid)
            found += _samples(card, named, answer if isinstance(answer, Readings) else Readings())
            for measure in answer.unread if isinstance(answer, Readings) else MEASURES:
                self._unread.labels(card.name, str(card.index), card.uuid, measure).inc()
        return tuple(found)


def _samples(card: Card, named: str, readings: Readings) -> Iterator[Sample]:
    if card.memory_mib and readings.values:
        yield _SIZE, named, card.memory_mib * 1024**2
    for measure, value in readings.values.items():
        yield _NAMES[measure], named, value
