"""How long a decision about a gang takes on 5,000 nodes in 50 InfiniBand clusters with 500 leaves.

    make bench-gangs                                  # about half an hour
    python -m benchmarks.gangs --only waits           # how long gangs wait, beside those that start in order
    python -m benchmarks.gangs --without-peer --only 64 --profile

Every decision places all members of the gang in one cluster, if possible in one leaf, or refuses it with a verdict on
each domain. The peer is the allocator of kube-scheduler, which places the members one after the other anywhere.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gangs import table, waits, whole_loop
from benchmarks.gangs.measure import measure
from benchmarks.gangs.scenario import QUESTIONS
from driver.observe import configure_logs


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table; fails if a bar is missed."""
    arguments = parse(argv)
    configure_logs("error", "console")
    chosen = [one for one in QUESTIONS if arguments.only in f"{one.name} {one.state}"]
    with tempfile.TemporaryDirectory(prefix="lode-gangs-") as folder:
        rows = []
        for row in measure(chosen, Path(folder), with_peer=not arguments.without_peer, profile=arguments.profile):
            print(f"==> {row.question.name}, {row.question.state}", file=sys.stderr, flush=True)
            rows.append(row)
    if rows:
        print(table.decisions(rows))
    missed = any(table.verdict(row) != "met" for row in rows)
    if arguments.only in whole_loop.NAME:
        print(f"==> {whole_loop.NAME}", file=sys.stderr, flush=True)
        made = list(whole_loop.starts())
        print(whole_loop.table(made))
        missed = missed or any(whole_loop.verdict(one, made) != "met" for one in made)
    if arguments.only in waits.NAME:
        print(f"==> {waits.NAME}", file=sys.stderr, flush=True)
        found = list(waits.rows())
        print(waits.table(found))
        missed = missed or any(waits.verdict(row) != "met" for row in found)
    return int(missed)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gangs", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="gangs and clusters with this in their name")
    parser.add_argument("--without-peer", action="store_true", help="our side only")
    parser.add_argument("--profile", action="store_true", help="print a profile of the second decision")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
