"""What is asked of Prometheus, and what the answers say of each card and namespace. Pure.

dcgm-exporter measures NVIDIA's cards and names them by ``UUID``, the NPU exporter measures Ascend's and names them by
``vdie_id``: both are the ``uuid`` of our slices. Without them, our plugins measure both, if that is set. A card in MIG
mode has no utilisation of the old kind, so the activity of its instances counts, of which the busiest one is taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final, Protocol

SOURCES: Final = (
    ("UUID", "DCGM_FI_DEV_GPU_UTIL", 100.0),
    ("UUID", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.0),
    ("vdie_id", "npu_chip_info_utilization", 100.0),
    ("uuid", "lode_card_utilization_ratio", 1.0),
)
"""The label with the uuid, the metric, and what it is when a card is busy all the time. Earlier ones count more."""
CARD_SECONDS: Final = "lode_namespace_card_seconds_total"
BUSY: Final = 0.01
"""Utilisation from which on a card is not idle."""
_STEPS: Final = 240
"""Points that are looked at in a window to find when a card was busy last."""
_LEAST_STEP: Final = 15


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of an answer, with the labels of its series."""

    labels: Mapping[str, str]
    value: float


class MetricsDatabase(Protocol):
    """Port to a database of metrics."""

    def query(self, expression: str) -> Sequence[Sample]:
        """Return the value of an expression of PromQL now.

        Raises:
            OperatorFault: it does not answer, or not with a vector.
        """


@dataclass(frozen=True, slots=True)
class CardUsage:
    """What is known about one card.

    Attributes:
        utilization: mean over the window, from 0 to 1; None if it is not known.
        idle_seconds: how long it was not busy, at least; None if it is not known.
        exact: whether it was busy before that. If not, the window or the data begins there.
    """

    utilization: float | None = None
    idle_seconds: float | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known about cards, by uuid in lower case."""

    cards: Mapping[str, CardUsage] = field(default_factory=dict)

    def usage(self, uuid: str) -> CardUsage:
        """Return what is known about the card; nothing if nobody has measured it."""
        return self.cards.get(uuid.lower(), _NOTHING) if uuid else _NOTHING


_NOTHING: Final = CardUsage()


def measure(metrics: MetricsDatabase, seconds: int, now: float) -> Measured:
    """Measure all cards over a window that ends now.

    Args:
        now: seconds since the epoch.

    Raises:
        OperatorFault: see ``MetricsDatabase.query``.
    """
    step = max(_LEAST_STEP, seconds // _STEPS)
    means: dict[str, float] = {}
    busy: dict[str, float] = {}
    first: dict[str, float] = {}
    for label, metric, full in SOURCES:
        mean = metrics.query(f"max by ({label}) (avg_over_time({metric}[{seconds}s])) / {full:g}")
        _add(means, label, mean)
        threshold = f"{metric} >= {BUSY * full:g}"
        window = f"[{seconds}s:{step}s]"
        _add(
            busy, label, metrics.query(f"max by ({label}) (max_over_time(timestamp({threshold}){window}))"), latest=True
        )
        _add(first, label, metrics.query(f"min by ({label}) (min_over_time(timestamp({metric}){window}))"))
    uuids = {*means, *first}
    return Measured({uuid: _usage(means.get(uuid), busy.get(uuid), first.get(uuid), now) for uuid in uuids})


def card_hours(metrics: MetricsDatabase, seconds: int) -> Mapping[tuple[str, str], float]:
    """Return the hours of cards of each type that each namespace had over a window, by namespace and type.

    A share counts the larger one of memory and cores.

    Raises:
        OperatorFault: see ``MetricsDatabase.query``.
    """
    found = metrics.query(f"sum by (namespace, type) (increase({CARD_SECONDS}[{seconds}s])) / 3600")
    named = ((one.labels.get("namespace", ""), one.labels.get("type", ""), one.value) for one in found)
    return {(namespace, kind): hours for namespace, kind, hours in named if namespace and isfinite(hours)}


def _add(found: dict[str, float], label: str, samples: Iterable[Sample], *, latest: bool = False) -> None:
    """Add values by uuid; what is known already stays, unless the later time counts."""
    for one in samples:
        uuid = one.labels.get(label, "").lower()
        if uuid and isfinite(one.value):
            found[uuid] = max(found.get(uuid, 0.0), one.value) if latest else found.get(uuid, one.value)


def _usage(mean: float | None, busy: float | None, first: float | None, now: float) -> CardUsage:
    since = busy if busy is not None else first
    utilization = None if mean is None else min(1.0, max(0.0, mean))
    return CardUsage(utilization, None if since is None else max(0.0, now - since), busy is not None)
