"""The table of figures, and whether our plugin meets the bars."""

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.allocation.table import lines
from benchmarks.prepare.drivers import OURS, PEER
from benchmarks.prepare.measure import Figures

TIMES_PEER = 1.0
TIMES_UNPREPARE = 1.5
"""At most so many times the peer's medians of prepare and of unprepare."""
MEBIBYTES = 64.0
"""The most resident memory at any time."""


def figures(results: Mapping[str, Figures]) -> str:
    """Milliseconds of each call, of CPU for a claim, and memory, by plugin."""
    times = "prepare p50 ms", "p99 ms", "unprepare p50 ms", "p99 ms"
    header = ["kubelet plugin", "claims", *times, "CPU ms", "peak MiB", "resident MiB", "times p50", "unprepare", "bar"]
    return lines(header, [_row(results, name) for name in results])


def _row(results: Mapping[str, Figures], name: str) -> list[str]:
    mine = results[name]
    return [
        name,
        f"{len(mine.prepare):,}",
        *_percentiles(mine.prepare),
        *_percentiles(mine.unprepare),
        f"{mine.processor / len(mine.prepare) * 1000:.1f}",
        f"{mine.peak:.1f}",
        f"{mine.resident:.1f}",
        *([_times(results, name), _times(results, name, unprepare=True)] if PEER in results else ["-", "-"]),
        verdict(results) if name == OURS else "-",
    ]


def _percentiles(seconds: Sequence[float]) -> list[str]:
    if not seconds:
        return ["-", "-"]
    ordered = sorted(seconds)
    return [f"{statistics.median(ordered) * 1000:.2f}", f"{ordered[len(ordered) * 99 // 100] * 1000:.2f}"]


def times(results: Mapping[str, Figures], name: str = OURS, *, unprepare: bool = False) -> float:
    """A plugin's median of prepare, or of ``unprepare``, divided by the peer's; 0 if nothing was unprepared."""
    mine, theirs = (results[it].unprepare if unprepare else results[it].prepare for it in (name, PEER))
    return statistics.median(mine) / statistics.median(theirs) if mine and theirs else 0.0


def _times(results: Mapping[str, Figures], name: str, *, unprepare: bool = False) -> str:
    found = 0.0 if name == PEER else times(results, name, unprepare=unprepare)
    return f"{found:.2f}" if found else "-"


def verdict(results: Mapping[str, Figures]) -> str:
    """``met``, or the bars that are missed."""
    missed = []
    if PEER in results and times(results) > TIMES_PEER:
        missed.append(f"{times(results):.2f} of {TIMES_PEER:.1f} times the peer's time")
    if PEER in results and (ended := times(results, unprepare=True)) > TIMES_UNPREPARE:
        missed.append(f"unprepare {ended:.2f} of {TIMES_UNPREPARE:.1f} times")
    if results[OURS].peak > MEBIBYTES:
        missed.append(f"{results[OURS].peak:.1f} of {MEBIBYTES:.0f} MiB")
    return f"missed: {', '.join(missed)}" if missed else "met"
