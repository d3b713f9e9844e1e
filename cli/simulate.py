"""``lode simulate``: what would be allocated where, in what order, or why not. Nothing is written to any cluster."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from cli.exitcodes import FAILED
from cli.options import add_decision_settings, cluster_options

_DESCRIPTION: Final = """\
Decide as the controller would, on objects from files or a cluster, and print what every pending pod and every unused
claim would get, in order, or why it has to wait. Nothing is written to any cluster."""
_EPILOG: Final = """\
exit status: 0 everything is placed, 1 something has to wait, 2 the input cannot be used
example: kubectl get resourceslices,deviceclasses,nodes -o yaml | lode simulate -f - -f pod.yaml"""


def main(argv: Sequence[str]) -> int:
    """Simulate; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    if not arguments.file and not arguments.live:
        sys.stderr.write("lode simulate: nothing to read; give -f FILE, -f FOLDER, -f - (standard input) or --live\n")
        return FAILED
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.simulate_run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode simulate",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[cluster_options("for --live; ")],
    )
    made.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE|FOLDER|-",
        help="objects in YAML or JSON, as kubectl get -o yaml prints them; may be given several times",
    )
    made.add_argument("--live", action="store_true", help="start from what is in the cluster; -f comes on top")
    made.add_argument("-n", "--namespace", default="", help="of objects that name none; show only what is in it")
    made.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    add_decision_settings(made)
    return made
