"""The tables of figures, and whether the current version meets the bars."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.allocation.table import lines, number
from benchmarks.apiserver import PARTS, REST, Spent
from benchmarks.throughput.measure import BENCHMARK, CONTROL_PLANE, CONTROLLER, Throughput
from benchmarks.versions import CURRENT as VERSION

CURRENT = VERSION.name
PEER = "kube-scheduler"
MOST_LOSS = 0.03
"""The part of the rate before that the current version may lose."""
_LEAST = 0.05
"""What happens for fewer pods than one in twenty is not told."""
API_SERVER = "kube-apiserver"
PROGRAMS = (CONTROLLER, *CONTROL_PLANE, BENCHMARK)
"""Whose processor time a pod is told."""


@dataclass(frozen=True)
class Row:
    """One workload with one latency: ``label`` names both, ``times_peer`` is the bar (0: none)."""

    label: str
    times_peer: float
    results: Mapping[str, Throughput]
    """By contender."""


def rates(rows: Sequence[Row]) -> str:
    """Pods bound per second by contender, with the bars of the current version."""
    contenders = list(dict.fromkeys(name for one in rows for name in one.results))
    header = ["workload", *(f"{name}: pods/s" for name in contenders), "times", "bar"]
    table = []
    for one in rows:
        cells = [_rate(one.results[name]) if name in one.results else "-" for name in contenders]
        times = _times(one)
        table.append([one.label, *cells, f"{times:.1f}" if times else "-", verdict(one)])
    return lines(header, table)


def _rate(figures: Throughput) -> str:
    text = number(figures.rate)
    return text if figures.pods == figures.wanted else f"{text} ({figures.pods} of {figures.wanted})"


def verdict(one: Row) -> str:
    """``met``, or the bar that is missed; ``WRONG`` if allocations conflict, and ``-`` where no bar applies."""
    if faults := [fault for figures in one.results.values() for fault in figures.faults]:
        return f"WRONG: {faults[0]}"
    times = _times(one)
    if not times or not one.times_peer:
        return "-"
    return "met" if times >= one.times_peer else f"missed: {times:.1f} of {one.times_peer:.0f} times"


def _times(one: Row) -> float:
    """How many times the peer's rate the current version has; 0 if one of them was not measured.

    A peer that has bound no pod counts as if it had bound one.
    """
    if CURRENT not in one.results or PEER not in one.results:
        return 0.0
    peer = one.results[PEER]
    return one.results[CURRENT].rate / max(peer.rate, 1 / peer.seconds)


def changes(rows: Sequence[Row]) -> str:
    """The current version beside an earlier one and without a policy, with the bar for its rate; "" if neither was."""
    table = []
    for one in rows:
        for name, before in one.results.items():
            if name not in (CURRENT, PEER) and CURRENT in one.results:
                now = one.results[CURRENT]
                change = now.rate / before.rate - 1
                met = "met" if change >= -MOST_LOSS else f"missed: {change:+.1%}"
                said = f"{before.described:.0%}, {now.described:.0%}"
                table.append(
                    [f"{one.label}: {name}", number(before.rate), number(now.rate), f"{change:+.1%}", met, said]
                )
    return lines(["beside", "pods/s", "now", "change", "bar", "claims that say their cards"], table) if table else ""


def costs(rows: Sequence[Row]) -> str:
    """Seconds from the creation of a pod until it is bound, processor time a pod, and what limits the rate."""
    table = [
        [
            f"{one.label}: {name}",
            *(f"{figures.percentile(percent):.2f}" if figures.pods else "-" for percent in (50, 99)),
            *(_each(figures, program) for program in PROGRAMS),
            figures.bound_by,
        ]
        for one in rows
        for name, figures in one.results.items()
    ]
    return lines(["cpu ms a pod", "p50 s", "p99 s", *PROGRAMS, "limited by"], table)


def together(rows: Sequence[Row]) -> str:
    """The processor time of all programs but this one for a pod, by contender, and that of the API server by part.

    What each admission policy takes is told by its own metrics, as are the requests and the events of watches.
    """
    texts = []
    for one in rows:
        bound = {name: figures for name, figures in one.results.items() if figures.pods}
        texts.append(lines([f"{one.label}, a pod", *bound], _parts(list(bound.values()))))
    return "\n\n".join(texts)


def _parts(everybody: Sequence[Throughput]) -> Iterator[list[str]]:
    yield ["cpu ms of all programs", *(f"{it.milliseconds(CONTROLLER, *CONTROL_PLANE):.1f}" for it in everybody)]
    yield [f"cpu ms of {API_SERVER}", *(f"{it.milliseconds(API_SERVER):.1f}" for it in everybody)]
    for part in (*PARTS, REST):
        yield [f"  {part}", *(f"{it.spent.parts.get(part, 0) * it.milliseconds(API_SERVER):.2f}" for it in everybody)]
    told: Sequence[tuple[str, float, Callable[[Spent], Mapping[str, float]]]] = (
        ("ms in policy", 1000, lambda it: it.policies),
        ("requests:", 1, lambda it: it.requests),
        ("watch events:", 1, lambda it: it.events),
    )
    for what, times, counts in told:
        for name in sorted({name for it in everybody for name in counts(it.spent)}):
            each = [counts(it.spent).get(name, 0) * times / it.pods for it in everybody]
            if max(each) >= _LEAST:
                yield [f"{what} {name}", *(f"{it:.2f}" for it in each)]


def _each(figures: Throughput, program: str) -> str:
    """Milliseconds of processor time for each pod that was bound."""
    if program not in figures.cpu or not figures.pods:
        return "-"
    return f"{figures.milliseconds(program):.1f}"
