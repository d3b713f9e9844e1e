"""What ``lode top`` is asked for. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cli.top.measured import Measured
from cli.top.prices import PriceTable
from driver.names import Names

NOTHING_MEASURED: Final = Measured()
NO_PRICES: Final = PriceTable()


@dataclass(frozen=True, slots=True)
class Question:
    """What a report is about.

    Attributes:
        namespace: "" for all.
        selector: of labels, as the API server takes it; "" for all.
        only: names that are shown; empty for all.
        measured: what cards did; nothing without Prometheus.
        hours: hours of cards by namespace and type; None if they were not asked for.
        prices: of cards by type.
        by_workload: whether costs are those of workloads, and not of namespaces.
        idle_seconds: only cards that claims hold and that were idle for so long; 0 for all.
    """

    names: Names = field(default_factory=Names)
    namespace: str = ""
    selector: str = ""
    only: tuple[str, ...] = ()
    measured: Measured = NOTHING_MEASURED
    hours: Mapping[tuple[str, str], float] | None = None
    idle_seconds: int = 0
    prices: PriceTable = NO_PRICES
    by_workload: bool = False

    def shows(self, *names: str) -> bool:
        """Return whether something that has one of these names is asked for."""
        return not self.only or any(name in self.only for name in names)
