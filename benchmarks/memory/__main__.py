"""Memory and time of the controller's start by the size of the cluster, the program of an earlier commit first.

    make bench-memory                                  # all sizes, both programs, about ten minutes
    python -m benchmarks.memory --sizes all-100 --before ""

Each program runs as its own process against a small API server that serves generated objects: nodes, slices, claims
that hold a card each, running pods with two containers, and one pod that waits behind the gate. It is ready when the
waiting pod is let go.
"""

import argparse
import sys
from contextlib import ExitStack

from benchmarks.allocation import table
from benchmarks.memory.measure import Start, measure
from benchmarks.memory.objects import devices
from benchmarks.memory.sizes import SIZES, Size
from benchmarks.versions import BEFORE, CURRENT, versions

_MEASURED = "peak MiB", "settled MiB", "ready s", "CPU s", "slowest health s"
HEADER = ("cluster", "nodes", "devices", "claims", "pods", "program", *_MEASURED, "bar")


def main() -> int:
    """Measure and print the table. The status is 1 if the new program misses a bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="", help="names, separated by commas; default: all of them")
    parser.add_argument("--before", default=BEFORE, help="commit of the program to compare with; empty: none")
    arguments = parser.parse_args()
    names = arguments.sizes.split(",") if arguments.sizes else [size.name for size in SIZES]
    chosen = [size for size in SIZES if size.name in names]
    rows, missed = [], False
    with ExitStack() as ending:
        compared = list(versions(arguments.before, ending))
        for size in chosen:
            for version in compared:
                print(f"==> {size.name}, {version.name}", file=sys.stderr, flush=True)
                start = measure(version.root, size)
                verdict = judge(size, start) if version is CURRENT else "-"
                missed |= verdict not in ("-", "met")
                rows.append(row(size, version.name, start, verdict))
                print("    " + " ".join(rows[-1]), file=sys.stderr, flush=True)
    print(table.lines(HEADER, rows))
    return int(missed)


def judge(size: Size, start: Start) -> str:
    """Whether the bars are met, or which are not."""
    bars = (
        ("peak", start.peak, size.peak_bar),
        ("settled", start.settled, size.settled_bar),
        ("ready", start.ready, size.ready_bar),
    )
    if not any(bar for _, _, bar in bars):
        return "-"
    missed = [f"{name} {value:.0f} > {bar}" for name, value, bar in bars if bar and value > bar]
    return ", ".join(missed) or "met"


def row(size: Size, program: str, start: Start, verdict: str) -> list[str]:
    """A line of the table."""
    counts = (size.nodes, devices(size), size.claims, size.pods)
    times = (start.ready, start.processor, start.longest)
    return [
        size.name,
        *(f"{count:,}" for count in counts),
        program,
        f"{start.peak:.0f}",
        f"{start.settled:.0f}",
        *(f"{seconds:.1f}" for seconds in times),
        verdict,
    ]


if __name__ == "__main__":
    sys.exit(main())
