"""``lode inventory``: which cards a node has, and what it offers of them. Reads only."""

import argparse
import os
from collections.abc import Sequence
from typing import Final

_DESCRIPTION: Final = """\
Print the cards that this node has, what each is offered as, and why it is not offered as something else. Nothing is
changed on the node. With --record, write a profile that simulated hardware can play elsewhere."""
_EPILOG: Final = """\
exit status: 0 the hardware was read, 2 it could not be read
example, in the plugin's pod on the node (docs/operating.md says how to find it):
  kubectl -n lode-plugin exec lode-kubeletplugin-xxxxx -- lode inventory --settings /etc/lode/settings.yaml"""


def main(argv: Sequence[str]) -> int:
    """Print the inventory; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.inventory_run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode inventory",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--settings", default="", metavar="FILE", help="the plugin's settings; default: the defaults")
    made.add_argument(
        "--profile", default="", metavar="NAME|FILE", help="the simulated cards of a profile, instead of this node's"
    )
    made.add_argument("--node-name", default=os.environ.get("NODE_NAME", ""), help="default: $NODE_NAME")
    made.add_argument("--kubeconfig", default="", metavar="FILE", help="to read the Node's labels; default: as kubectl")
    made.add_argument("--record", default="", metavar="FILE", help="write a profile of the cards there; -: print it")
    made.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    return made
