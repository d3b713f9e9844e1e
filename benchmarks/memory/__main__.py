"""Memory and time of the controller's start by the size of the cluster, the program of an earlier commit first.

    make bench-memory                                  # all sizes, both programs, about ten minutes
    python -m benchmarks.memory --sizes all-100 --old ""

Each program runs as its own process against a small API server that serves generated objects: nodes, slices, claims
that hold a card each, running pods with two containers, and one pod that waits behind the gate. It is ready when the
waiting pod is let go.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from benchmarks.allocation import table
from benchmarks.memory.measure import Start, measure
from benchmarks.memory.objects import devices
from benchmarks.memory.sizes import SIZES, Size

ROOT = Path(__file__).parent.parent.parent
OLD = "1e91279"
"""The last commit whose controller read whole lists."""
HEADER = (
    "cluster", "nodes", "devices", "claims", "pods", "program", "peak MiB", "settled MiB", "ready s", "CPU s",
    "slowest health s", "bar",
)  # fmt: skip


def main() -> int:
    """Measure and print the table. The status is 1 if the new program misses a bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="", help="names, separated by commas; default: all of them")
    parser.add_argument("--old", default=OLD, help="commit of the program to compare with; empty: none")
    arguments = parser.parse_args()
    names = arguments.sizes.split(",") if arguments.sizes else [size.name for size in SIZES]
    chosen = [size for size in SIZES if size.name in names]
    rows, missed = [], False
    with checkout(arguments.old) as old:
        for size in chosen:
            for name, program in ((arguments.old, old), ("new", ROOT)):
                if program is None:
                    continue
                print(f"==> {size.name}, {name}", file=sys.stderr, flush=True)
                start = measure(program, size)
                verdict = judge(size, start) if program is ROOT else "-"
                missed |= verdict not in ("-", "met")
                rows.append(row(size, name, start, verdict))
                print("    " + " ".join(rows[-1]), file=sys.stderr, flush=True)
    print(table.lines(HEADER, rows))
    return int(missed)


@contextmanager
def checkout(commit: str) -> Iterator[Path | None]:
    """The files of a commit in a temporary folder; None without a commit."""
    if not commit:
        yield None
        return
    command = ["git", "-C", str(ROOT), "archive", commit]
    content = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
        yield Path(folder)


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
