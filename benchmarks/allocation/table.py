"""The tables of figures, and whether the figures meet the bars."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.allocation.measure import Figures, HardSearchRow, Load, Row, SelectorRow
from driver.wire import Json

TIMES_SCHEDULER = 50
TIMES_FIRST_FIT = 2
BAR_NODES = 1000
"""The number of nodes for which the two bars above apply."""
HARD_SEARCH_MILLISECONDS = 50
LOAD_SECONDS, LOAD_MEBIBYTES, LOAD_CLAIMS = 10, 1024, 20_000
TIMES_SELECTORS = 10


def lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Aligned columns; the first is aligned left, the others right."""
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    texts = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(r, widths, strict=True))
        )
        for r in table
    ]
    return "\n".join(text.rstrip() for text in texts)


def allocations(rows: Sequence[Row]) -> str:
    """Claims per second on both sides."""
    ours = "ours/s", "first ms", "p99 ms", "ok/run"
    theirs = "scheduler/s", "first fit/s", "ok/run", "x sched.", "x first", "same"
    header = ["workload", "nodes", "in use %", "form", *ours, *theirs, "bar"]
    return lines(header, [_allocation(row) for row in rows])


def _allocation(row: Row) -> list[str]:
    asked = [f"{row.scenario.nodes:,}", row.scenario.in_use, row.form]
    mine = [number(row.ours.rate), f"{row.ours.first:.1f}", f"{row.ours.p99:.1f}", _of(row.ours)]
    theirs = [
        number(row.scheduler.rate) if row.scheduler else "-",
        number(row.first_fit.rate) if row.first_fit else "-",
    ]
    first = _of(row.first_fit) if row.first_fit else "-"
    same = f"{row.same[0]}/{row.same[1]}" if row.first_fit else "-"
    ratios = [f"{ratio:.1f}" if ratio else "-" for ratio in _ratios(row)]
    return [row.scenario.workload.name, *asked, *mine, *theirs, first, *ratios, same, verdict(row)]


def _ratios(row: Row) -> tuple[float, float]:
    """Our claims per second divided by the peer's, as a scheduler and with first fit; 0 if the peer did not run."""
    both = (row.scheduler, row.first_fit)
    return tuple(row.ours.rate / one.rate if one else 0.0 for one in both)  # type: ignore[return-value]


def verdict(row: Row) -> str:
    """``met``, or the bars that are missed; ``WRONG`` if the answers are wrong, and ``-`` if no bar applies."""
    if row.faults:
        return f"WRONG: {row.faults[0]}"
    if not row.scheduler or row.scenario.nodes != BAR_NODES:
        return "-"
    missed = [
        f"{ratio:.1f} of {bar}"
        for ratio, bar in zip(_ratios(row), (TIMES_SCHEDULER, TIMES_FIRST_FIT), strict=True)
        if ratio < bar
    ]
    return f"missed: {', '.join(missed)}" if missed else "met"


def growth(rows: Sequence[Row]) -> str:
    """Microseconds per claim by number of nodes; the bar is logarithmic growth."""
    groups: dict[tuple[str, str, str], dict[int, Figures]] = {}
    for row in rows:
        key = (row.scenario.workload.name, row.scenario.in_use, row.form)
        groups.setdefault(key, {})[row.scenario.nodes] = row.ours
    table = []
    for (name, in_use, form), figures in groups.items():
        if len(figures) < 2:
            continue
        small, large = min(figures), max(figures)
        times = figures[large].later / figures[small].later
        allowed = math.log(large) / math.log(small)
        each = ", ".join(f"{nodes:,}: {one.later:.0f}" for nodes, one in sorted(figures.items()))
        met = "met" if times <= allowed else f"missed: {times:.2f} of {allowed:.2f}"
        table.append([name, in_use, form, each, f"{times:.2f}", met])
    return lines(["workload", "in use %", "form", "nodes: us per claim after the first", "growth", "bar"], table)


def loads(rows: Sequence[Load]) -> str:
    """Seconds and memory to load a cluster; the bar applies to whole cards with 20,000 claims."""
    header = ["cluster", "slices", "devices", "claims", "seconds", "cpu s", "MiB", "bar"]
    return lines(header, [_load(row) for row in rows])


def _load(row: Load) -> list[str]:
    judged = row.scenario.workload.name == "single" and row.claims >= LOAD_CLAIMS
    met = "met" if row.seconds <= LOAD_SECONDS and row.mebibytes <= LOAD_MEBIBYTES else "missed"
    return [
        row.scenario.name,
        *(f"{count:,}" for count in (row.slices, row.devices, row.claims)),
        f"{row.seconds:.1f}",
        f"{row.cpu:.1f}",
        f"{row.mebibytes:.0f}",
        met if judged else "-",
    ]


def hard_searches(rows: Sequence[HardSearchRow]) -> str:
    """Milliseconds and steps for one decision."""
    header = ["search", "n", "fits", "ours ms", "steps", "peer ms", "steps", "bar"]
    return lines(header, [_hard_search(row) for row in rows])


def _hard_search(row: HardSearchRow) -> list[str]:
    theirs = "-" if row.theirs is None else "gave up" if math.isinf(row.theirs) else f"{row.theirs:.1f}"
    bar = "met" if row.ours <= HARD_SEARCH_MILLISECONDS else f"missed: {row.ours:.0f} ms"
    asked = [row.name, str(row.size), "yes" if row.fits else "no"]
    mine = [f"{row.ours:.1f}", f"{row.steps:,}"]
    their_steps = "-" if row.their_steps is None else f"{row.their_steps:,}"
    return [*asked, *mine, theirs, their_steps, "WRONG" if row.wrong else bar]


def selectors(rows: Sequence[SelectorRow]) -> str:
    """Evaluations per second."""
    header = ["selector", "devices", "first/s", "ours/s", "peer/s", "times", "bar"]
    return lines(header, [_selector(row) for row in rows])


def _selector(row: SelectorRow) -> list[str]:
    times = row.theirs / row.ours
    bar = "met" if times >= TIMES_SELECTORS else f"missed: {times:.1f} of {TIMES_SELECTORS}"
    rates = [number(row.devices / seconds) for seconds in (row.first, row.ours, row.theirs)]
    return [row.name, f"{row.devices:,}", *rates, f"{times:.1f}", bar if row.agree else "WRONG"]


def number(value: float) -> str:
    """A number with three digits, or without decimals from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _of(figures: Figures) -> str:
    return f"{figures.allocated}/{figures.run}"


def as_json(row: Row) -> Json:
    """A row as JSON."""
    figures: dict[str, Any] = {
        name: side and {**asdict(side), "rate": side.rate}
        for name, side in (("ours", row.ours), ("scheduler", row.scheduler), ("firstFit", row.first_fit))
    }
    place = {"workload": row.scenario.workload.name, "nodes": row.scenario.nodes, "inUse": row.scenario.in_use}
    return {**place, "form": row.form, **figures, "same": row.same, "faults": list(row.faults), "bar": verdict(row)}


def hard_search_as_json(row: HardSearchRow) -> Json:
    """A row of a hard search for programs."""
    gave_up = row.theirs is not None and math.isinf(row.theirs)
    return {**asdict(row), "theirs": None if gave_up else row.theirs, "theyGaveUp": gave_up}
