"""The table of figures, and whether the current version meets the bars."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from benchmarks.allocation.table import lines
from benchmarks.backlog.flood import Flood
from benchmarks.backlog.measure import Backlog
from benchmarks.versions import CURRENT

FITS_SECONDS = 2.0
STEADY_CORE = 0.005
STEADY_WRITES = 0
FREED_SECONDS = 0.2


@dataclass(frozen=True)
class Row:
    """A row: its title, its figure of a version, how the figure is written, and the largest that meets the bar."""

    title: str
    figure: Callable[[Backlog], float]
    form: str = "{:.2f}"
    bar: float | None = None


def percentile(sorted_seconds: Sequence[float], percent: int) -> float:
    """The smallest of the values that ``percent`` percent of all do not exceed; `inf` without values."""
    if not sorted_seconds:
        return inf
    return sorted_seconds[min(len(sorted_seconds) - 1, -(-len(sorted_seconds) * percent // 100) - 1)]


ROWS = (
    Row("ready after its start, s", lambda it: it.ready, "{:.1f}"),
    Row("a pod that fits, just after the start: p50 s", lambda it: percentile(it.early, 50)),
    Row("  p95 s", lambda it: percentile(it.early, 95), bar=FITS_SECONDS),
    Row("last write about waiting pods, s after the start", lambda it: it.told, "{:.0f}"),
    Row("steady waiting: part of a core", lambda it: it.core, "{:.2%}", STEADY_CORE),
    Row("  of the API server", lambda it: it.api_core, "{:.2%}"),
    Row("  writes", lambda it: it.writes, "{:.0f}", STEADY_WRITES),
    Row("a pod that fits, steady: p50 s", lambda it: percentile(it.late, 50)),
    Row("  p95 s", lambda it: percentile(it.late, 95), bar=FITS_SECONDS),
    Row("a freed card is used: p50 s", lambda it: percentile(it.freed, 50)),
    Row("  p95 s", lambda it: percentile(it.freed, 95), bar=FREED_SECONDS),
)


def flooded(found: Flood, limit: float) -> str:
    """The figures of the part with a flood, its bar, and whether it is met; ``limit`` is in seconds."""
    core, p50, p95 = found.core, percentile(found.fits, 50), percentile(found.fits, 95)
    rows = [
        ["a pod that fits, in a flood: p50 s", _seconds(p50, limit), "-", "-"],
        ["  p95 s", _seconds(p95, limit), f"{FITS_SECONDS:.2f}", "met" if p95 <= FITS_SECONDS else "missed"],
        ["part of a core meanwhile", f"{core:.0%}", "-", "-"],
    ]
    return lines(["", CURRENT.name, "bar", ""], rows)


def _seconds(seconds: float, limit: float) -> str:
    return f"> {limit:.0f}" if seconds == inf else f"{seconds:.2f}"


def backlogs(results: Mapping[str, Backlog], limit: float) -> str:
    """A column for each version, the bars, and whether the current version meets them; ``limit`` is in seconds."""
    rows = [
        [
            row.title,
            *(_written(row, found, limit) for found in results.values()),
            "-" if row.bar is None else row.form.format(row.bar),
            verdict(row, results.get(CURRENT.name)),
        ]
        for row in ROWS
    ]
    return lines(["", *results, "bar", ""], rows)


def _written(row: Row, found: Backlog, limit: float) -> str:
    figure = row.figure(found)
    return f"> {limit:.0f}" if figure == inf else row.form.format(figure)


def verdict(row: Row, current: Backlog | None) -> str:
    """``met`` or ``missed``; ``-`` for a row without a bar, and if the current version was not measured."""
    if row.bar is None or current is None:
        return "-"
    return "met" if row.figure(current) <= row.bar else "missed"
