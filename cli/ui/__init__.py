"""``lode ui``, ``kubectl lode ui``: a page of the fleet on this machine, with the rights of the user. Reads only.

run          follows the cluster and serves the page until it is interrupted
server       HTTP: connections, bounded in number, size and time
answers      the answer to each request, and who gets one
| watching   the threads that follow the fleet
access       who is let in, and what they may see
reviews      whose a token is and what its user may list, as the API server says it
publishing   the document as it is sent
| following  what is kept of the fleet, change by change
| kinds      one kind of the fleet, followed as far as the rights of the user go
document     the document: everything that the page shows, as JSON in columns
| questions  why something waits, and what would become of a manifest
contents     what the document is made of, as values
| waiting_line  who comes when, where several ask
"""

import argparse
from collections.abc import Sequence
from typing import Final

from cli.options import add_driver, cluster_options

_DESCRIPTION: Final = """\
Serve a page of the fleet on this machine: cards and who holds what of them, pods that wait and why, gangs, and what
would become of a manifest. It reads with your rights, follows changes, and writes nothing to the cluster. Only who has
the address that is printed, with its token, gets an answer."""
_EPILOG: Final = """\
exit status: 0 it was interrupted, 2 it cannot be served
example: kubectl lode ui --port 8800"""


def main(argv: Sequence[str]) -> int:
    """Serve the page; the exit status, as the command's help says."""
    arguments = parser().parse_args(argv)
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.ui.run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode ui",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[cluster_options()],
    )
    made.add_argument("--port", type=int, default=0, metavar="NUMBER", help="on 127.0.0.1; default: one that is free")
    spaced = "of a manifest that names none, and of what you may not list in all namespaces"
    made.add_argument("-n", "--namespace", default="", help=f"{spaced}; default: that of the kubeconfig's context")
    everybody = "serve everybody who can connect, each with the rights of the token that they send: for a pod"
    made.add_argument("--listen", default="", metavar="HOST:PORT", help=everybody)
    add_driver(made)
    return made
