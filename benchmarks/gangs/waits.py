"""How long gangs wait with Lode, beside rules that let them start in the order in which they came."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final

from benchmarks.allocation.table import lines
from benchmarks.gangs.queueing import RULES, SHAPES, Shape, arrivals_of, mean_wait
from benchmarks.gangs.serving import Wait, serve

GANGS: Final = 600
SEEDS: Final = 1
LOADS: Final = (0.8, 0.95)
"""What the gangs want on average, as a part of what the cluster has."""
NAME: Final = "waits of gangs"
LONGER: Final = 1.05
"""How much longer gangs may wait than with the best of the rules."""


@dataclass(frozen=True)
class Row:
    """Waits, in the time for which a gang runs on average."""

    shape: Shape
    load: float
    served: Sequence[Wait]
    """How Lode served each gang, with all seeds."""
    in_order: Mapping[str, float]
    """Mean waits by rule."""

    @property
    def mean(self) -> float:
        """Mean wait with Lode."""
        return mean(one.time for one in self.served)

    @property
    def ratio(self) -> float:
        """How much longer gangs wait than with the best of the rules."""
        return self.mean / min(self.in_order.values())


def rows(gangs: int = GANGS, seeds: int = SEEDS) -> Iterator[Row]:
    """Every shape with every load; the same each time."""
    for shape in SHAPES:
        for load in LOADS:
            arrivals = [list(arrivals_of(shape, load, seed, gangs)) for seed in range(seeds)]
            in_order = {name: mean(mean_wait(shape, rule, one) for one in arrivals) for name, rule in RULES.items()}
            yield Row(shape, load, [wait for one in arrivals for wait in serve(shape, one)], in_order)


def verdict(row: Row) -> str:
    """``met`` if gangs wait at most 1.05 times as long as with the best of the rules, and those of a size in order."""
    if passed := sum(one.passed > 0 for one in row.served):
        return f"missed: {passed} gangs were passed by one of their size"
    return "met" if row.ratio <= LONGER else f"missed: {row.ratio:.2f} times the best"


def table(found: Sequence[Row]) -> str:
    """The waits in mean run times, one line for each shape and load."""
    header = ["cluster", "load", "Lode", "longest", *(f"in order, {name}" for name in RULES), "bar"]
    waits = [[row.mean, max(one.time for one in row.served), *row.in_order.values()] for row in found]
    named = [(row.shape.name, f"{row.load:.2f}") for row in found]
    cells = [[f"{value:.2f}" for value in each] for each in waits]
    return lines(header, [[*name, *each, verdict(row)] for name, each, row in zip(named, cells, found, strict=True)])
