"""``lode top``, ``kubectl lode top``: what is used, as a table. Reads only.

run         reads a subject, prints its report
claims      which card each claim has, and how much of it
| namespaces  what the claims of each namespace hold, what its quotas allow, and how many pods wait
report      rows of a subject, as a table, JSON and YAML
"""

import argparse
from collections.abc import Sequence
from typing import Final

from cli.options import add_driver, cluster_options

SUBJECTS: Final = {
    "claims": "which card each claim has, and how much of it",
    "namespaces": "what the claims of each namespace hold, what its quotas allow, and how many pods wait",
}
"""What can be asked for, each with its help. The module of the same name has ``COLUMNS`` and ``report``."""
_DESCRIPTION: Final = "Show what is used of the cards in the cluster. Nothing is written."
_EPILOG: Final = """\
exit status: 0 it is shown, 2 it cannot be read
example: kubectl lode top claims -A -o wide"""


def main(argv: Sequence[str]) -> int:
    """Print what is used; the exit status, as the command's help says."""
    parser = argparse.ArgumentParser(
        "lode top",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="SUBJECT")
    for name, text in SUBJECTS.items():
        _add_options(subjects.add_parser(name, help=text, description=text, parents=[cluster_options()]))
    arguments = parser.parse_args(_subject_first(argv))
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.top.run import run

    return run(arguments)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", default="", help="default: that of the kubeconfig's context")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    formats = ("table", "wide", "json", "yaml")
    parser.add_argument("-o", "--output", choices=formats, default="table", help="default: table")
    add_driver(parser)


def _subject_first(argv: Sequence[str]) -> list[str]:
    """Move the subject to the front: users of kubectl write some options before it."""
    at = next((index for index, word in enumerate(argv) if word in SUBJECTS), None)
    return [*argv] if at is None else [argv[at], *argv[:at], *argv[at + 1 :]]
