"""``lode advise``: what would let pods run that wait, and what is idle. Nothing is moved."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from cli.exitcodes import FAILED
from cli.options import add_decision_settings, cluster_options

_DESCRIPTION: Final = """\
Say for pods and gangs that wait for devices which running pods would have to move, to which node, or would have to end,
so that they can run; and which cards are idle. Each answer is checked as the controller decides. Nothing is moved.
By default the cluster is read; with -f, files as for `lode simulate`."""
_EPILOG: Final = """\
exit status: 0 nothing waits, or there is an answer for all that was asked, 1 there is none for something, 2 it failed
example: kubectl lode advise gang/train -n team-a"""


def main(argv: Sequence[str]) -> int:
    """Advise; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    if arguments.most < 1:
        sys.stderr.write(f"lode advise: --most {arguments.most}: must be at least 1\n")
        return FAILED
    arguments.live = arguments.live or not arguments.file
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.advice.run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode advise",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[cluster_options()],
    )
    made.add_argument(
        "what",
        nargs="?",
        default="",
        metavar="pod/NAME|gang/NAME",
        help="default: those that wait, the first in turn first",
    )
    made.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE|FOLDER|-",
        help="objects in YAML or JSON instead of the cluster; may be given several times",
    )
    made.add_argument("--live", action="store_true", help="with -f: the cluster, and the files on top")
    made.add_argument("--most", type=int, default=5, metavar="N", help="pods and gangs that are looked at; default: 5")
    made.add_argument("-n", "--namespace", default="", help="only what waits in it; default with NAME: as for kubectl")
    made.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
    add_decision_settings(made)
    return made
