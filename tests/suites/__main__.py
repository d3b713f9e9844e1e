"""``make suites``: plays suites that others wrote on a kind cluster, and prints tables of what came of them.

Exit status 0 if each test comes to the same with Lode as without, and no test of AI conformance fails; otherwise 1.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from testclusters.kind import KindCluster
from tests.suites import accelerators
from tests.suites.outcomes import FAILED, HEAD, NotPlayed, details, row_of
from tests.suites.running import ACCELERATORS, SUITES, Chosen, Played, fresh, play


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    chosen = Chosen(arguments.suites or SUITES, fresh(arguments.results), arguments.processes, arguments.focus)
    try:
        played = play(KindCluster.attach(), chosen)
    except NotPlayed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(report(played, chosen.suites))
    differing = any(comparison.differing for comparison in played.comparisons)
    failing = any(outcome.state == FAILED for outcome in played.accelerators.values())
    return int(differing or failing)


def report(played: Played, suites: Sequence[str]) -> str:
    """Tables in Markdown."""
    parts = []
    if played.comparisons:
        parts.append("\n".join([HEAD, *(comparison.row() for comparison in played.comparisons)]))
        parts += [f"{it.suite}:\n\n{text}" for it in played.comparisons if (text := details(it))]
        parts.append("Images that cannot be built here: " + ", ".join(played.missing_images))
    if played.accelerators:
        rows = (row_of(name, outcome) for name, outcome in sorted(played.accelerators.items()))
        parts.append("\n".join(["| test of AI conformance | with Lode |", "|---|---|", *rows]))
    elif ACCELERATORS in suites:
        parts.append(f"{ACCELERATORS}: not played: {accelerators.VARIABLE} names no checkout")
    return "\n\n".join(parts)


def _suite(name: str) -> str:
    if name not in SUITES:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(SUITES)}")
    return name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=sys.modules["tests.suites"].__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", type=_suite, help=f"{', '.join(SUITES)}; default: all")
    parser.add_argument("--focus", default="", help="only tests of Kubernetes whose names match this expression")
    parser.add_argument("--processes", type=int, default=4, help="how many tests run at once (%(default)s)")
    parser.add_argument(
        "--results", type=Path, default=Path("build/suites"), help="folder of reports and logs (%(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
