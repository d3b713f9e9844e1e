"""How long it takes to find out who has to go for pods of higher priority.

make bench-preemption                             # about three minutes
python -m benchmarks.preemption --only burst      # a burst of equal preemptors, through the whole controller
python -m benchmarks.preemption --before 9d4eba5e # the decisions of an earlier commit in the same run, too
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.preemption import burst, decisions
from benchmarks.versions import Version, at_commit
from driver.observe import configure_logs


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the tables; fails if a bar is missed."""
    arguments = parse(argv)
    configure_logs("error", "console")
    missed = False
    if arguments.before:
        with at_commit(arguments.before) as version:
            print(f"==> {version.name}", file=sys.stderr, flush=True)
            print(f"{version.name}:\n{decisions_of(version)}")
    if arguments.only in decisions.NAME:
        print(f"==> {decisions.NAME}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="lode-preemption-") as folder:
            rows = [decisions.measure(question, Path(folder)) for question in decisions.QUESTIONS]
        print(decisions.table(rows))
        missed = any(decisions.verdict(row) != "met" for row in rows)
    if arguments.only in burst.NAME:
        print(f"==> {burst.NAME}", file=sys.stderr, flush=True)
        made = list(burst.costs())
        print(burst.table(made))
        missed = missed or any(burst.verdict(one) != "met" for one in made)
    return int(missed)


def decisions_of(version: Version) -> str:
    """The table of decisions that the program of another version prints."""
    command = [sys.executable, "-m", "benchmarks.preemption"]
    done = subprocess.run(command, cwd=version.root, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemption", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="tables with this in their name: decisions, burst")
    parser.add_argument("--before", default="", help="commit of the program to compare with; default: none")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
