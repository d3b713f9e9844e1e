"""The tables of figures, and whether the current version meets the bars."""

import statistics
from collections.abc import Mapping

from benchmarks.allocation.table import lines
from benchmarks.throughput.measure import CONTROL_PLANE, CONTROLLER, Throughput
from benchmarks.versions import CURRENT as VERSION

CURRENT = VERSION.name
PEER = "kube-scheduler"
TIMES_PEER = 3.0
KEPT = 0.8
"""The part of the rate without latency that has to be left at ``MOST_MILLISECONDS``."""
MOST_MILLISECONDS = 20

Results = Mapping[str, Mapping[int, Throughput]]
"""By contender, then by the milliseconds added to each call."""


def rates(results: Results) -> str:
    """Pods per second by contender and latency, with the bars of the current version."""
    columns = sorted({milliseconds for measured in results.values() for milliseconds in measured})
    header = ["who allocates", *(f"{it} ms: pods/s" for it in columns), f"{MOST_MILLISECONDS} to 0 ms"]
    header += [*(f"times at {it}" for it in columns), "bar"]
    rows = []
    for name, measured in results.items():
        kept, times = _kept(measured), _times(results, name)
        cells = [f"{measured[it].rate:.1f}" if it in measured else "-" for it in columns]
        compared = [f"{times[it]:.1f}" if it in times else "-" for it in columns]
        rows.append([name, *cells, "-" if kept is None else f"{kept:.0%}", *compared, verdict(results, name)])
    return lines(header, rows)


def verdict(results: Results, name: str) -> str:
    """``met``, or the bars that are missed; ``WRONG`` if allocations conflict, and ``-`` where no bar applies."""
    measured = results[name]
    if faults := [fault for figures in measured.values() for fault in figures.faults]:
        return f"WRONG: {faults[0]}"
    kept, times = _kept(measured), _times(results, name)
    if name != CURRENT or (kept is None and not times):
        return "-"
    missed = [f"{it:.1f} of {TIMES_PEER:.0f} times at {at} ms" for at, it in times.items() if it < TIMES_PEER]
    if kept is not None and kept < KEPT:
        missed.append(f"{kept:.0%} of {KEPT:.0%} left")
    return f"missed: {', '.join(missed)}" if missed else "met"


def _kept(measured: Mapping[int, Throughput]) -> float | None:
    """The rate with the highest latency, divided by the rate without; `None` if one was not measured."""
    if 0 not in measured or MOST_MILLISECONDS not in measured:
        return None
    return measured[MOST_MILLISECONDS].rate / measured[0].rate


def _times(results: Results, name: str) -> dict[int, float]:
    """How many times the peer's rate a contender has, by latency; empty for the peer and without it."""
    peer = results.get(PEER, {}) if name != PEER else {}
    return {at: figures.rate / peer[at].rate for at, figures in sorted(results[name].items()) if at in peer}


def latencies(results: Results) -> str:
    """Seconds from the creation of a pod until it is bound, and the processor time of each program for a pod."""
    programs = (CONTROLLER, *CONTROL_PLANE)
    rows = [
        [
            name,
            f"{milliseconds} ms",
            str(figures.pods),
            f"{statistics.median(figures.latencies):.2f}",
            f"{figures.latencies[len(figures.latencies) * 95 // 100]:.2f}",
            *(f"{figures.cpu[it] / figures.pods * 1000:.1f}" if it in figures.cpu else "-" for it in programs),
        ]
        for name, measured in results.items()
        for milliseconds, figures in sorted(measured.items())
    ]
    header = ["who allocates", "latency", "pods", "p50 s", "p95 s", *(f"{it}: cpu ms a pod" for it in programs)]
    return lines(header, rows)
