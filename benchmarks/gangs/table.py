"""The table of decisions about gangs, and whether they meet the bar."""

from collections.abc import Sequence

from benchmarks.allocation.table import lines
from benchmarks.gangs.measure import Row

MILLISECONDS = 100


def decisions(rows: Sequence[Row]) -> str:
    """Milliseconds of each decision beside those of the peer."""
    header = ["gang", "cluster", "placed", "first ms", "later ms", "slowest ms", "peer ms", "peer placed", "bar"]
    return lines(header, [_decision(row) for row in rows])


def _decision(row: Row) -> list[str]:
    theirs = ["-", "-"] if row.peer is None else [f"{row.peer:.0f}", str(row.peer_placed)]
    ours = [f"{value:.1f}" for value in (row.first, row.later, row.slowest)]
    return [row.question.name, row.question.state, str(row.placed), *ours, *theirs, verdict(row)]


def verdict(row: Row) -> str:
    """``met`` if every decision took at most 100 ms, the first one, too; ``WRONG`` if the answer is wrong."""
    if not row.right:
        return "WRONG"
    return "met" if row.slowest <= MILLISECONDS else f"missed: {row.slowest:.0f} ms"
