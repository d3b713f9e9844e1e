"""``lode explain``, ``kubectl lode explain``: what a pod, claim, gang, card or namespace holds, or why it waits. Reads
only."""

import argparse
from collections.abc import Sequence
from typing import Final

from cli.options import add_decision_settings, cluster_options

_DESCRIPTION: Final = """\
Say what a pod, claim or gang in the cluster holds, where, and who uses it; or, while it waits, what would be decided
about it now and every reason against it, node by node. Of a card, say who holds what of it and what closes it; of a
namespace, what it holds and who waits in it. Nothing is written."""
_EPILOG: Final = """\
exit status: 0 it has its devices or could have them now, 1 it waits (a pod of the namespace waits, the card is closed),
  2 it cannot be explained
example: kubectl lode explain pod/train -n team-a"""


def main(argv: Sequence[str]) -> int:
    """Explain; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.explain_run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode explain",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[cluster_options()],
    )
    made.add_argument(
        "what",
        metavar="pod/NAME|claim/NAME|gang/NAME|card/NODE/CARD|namespace/NAME|NAME",
        help="NAME alone is a pod or a claim",
    )
    made.add_argument("-n", "--namespace", default="", help="default: that of the kubeconfig's context")
    made.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    add_decision_settings(made)
    return made
