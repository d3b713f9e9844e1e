"""``lode top``, ``kubectl lode top``: what is used, as a table. Reads only.

run           reads a subject, prints its report, once or again and again
nodes         the cards of each node, by what they are in
| claims      which card each claim has, and how much of it
| namespaces  what the claims of each namespace hold, what its quotas allow, and how many pods wait
| costs       what the cards cost that each namespace or workload holds, and idle ones
| gangs       how many members each gang has and needs, where they are, and why it waits
cards         what each card is in, and who holds it
question      what is asked for
| report      rows of a subject, as a table, JSON and YAML
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cli.options import add_driver, cluster_options


@dataclass(frozen=True, slots=True)
class Subject:
    """What can be asked for. The module of the same name has ``COLUMNS`` and ``report``.

    Attributes:
        names: what the names on the command line are.
        labels: whose labels ``-l`` selects by; "" without ``-l``.
    """

    text: str
    names: str
    labels: str
    namespaced: bool = True
    measured: str = ""
    """What Prometheus knows about it; "" if it is not asked."""


SUBJECTS: Final = {
    "nodes": Subject("the cards of each node, by what they are in", "NODE", "nodes", namespaced=False, measured="UTIL"),
    "cards": Subject(
        "what each card is in, and who holds it",
        "NODE[/CARD]|UUID",
        "nodes",
        namespaced=False,
        measured="UTIL and IDLE",
    ),
    "claims": Subject("which card each claim has, and how much of it", "CLAIM", "claims"),
    "namespaces": Subject(
        "what the claims of each namespace hold, what its quotas allow, and how many pods wait",
        "NAMESPACE",
        "namespaces",
        measured="CARD-HOURS",
    ),
    "gangs": Subject("how many members each gang has and needs, where they are, and why it waits", "GANG", "pods"),
    "costs": Subject(
        "what the cards cost that each namespace or workload holds, and those that nobody holds",
        "NAMESPACE",
        "",
        measured="CARD-HOURS and COST",
    ),
}
_WORDS: Final = {word: name for name in SUBJECTS for word in (name, name[:-1])} | {"no": "nodes", "ns": "namespaces"}
"""What may be written for a subject, as for kubectl."""
_DESCRIPTION: Final = "Show what is used of the cards in the cluster. Nothing is written."
_EPILOG: Final = """\
exit status: 0 it is shown, 2 it cannot be read
example: kubectl lode top cards -l pool=training --sort-by memoryHeld"""


def main(argv: Sequence[str]) -> int:
    """Print what is used; the exit status, as the command's help says."""
    arguments = parser().parse_args(_subject_first(argv))
    # Imported only here, so that --help and wrong options are answered at once.
    from cli.top.run import run

    return run(arguments)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        "lode top",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subjects = made.add_subparsers(dest="subject", required=True, metavar="SUBJECT")
    for name, subject in SUBJECTS.items():
        _add_options(
            subjects.add_parser(name, help=subject.text, description=subject.text, parents=[cluster_options()]), subject
        )
    return made


def _add_options(parser: argparse.ArgumentParser, subject: Subject) -> None:
    parser.add_argument("only", nargs="*", metavar=subject.names, help="default: all")
    if subject.namespaced:
        parser.add_argument("-n", "--namespace", default="", help="default: that of the kubeconfig's context")
        parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    if subject.labels:
        selected = f"labels of {subject.labels}, as for kubectl"
        parser.add_argument("-l", "--selector", default="", metavar="LABELS", help=selected)
    else:
        parser.add_argument("--prices", required=True, metavar="FILE", help="what a card costs for an hour, by type")
        parser.add_argument("--by", choices=("namespace", "workload"), default="namespace", help="default: namespace")
    formats = ("table", "wide", "json", "yaml")
    parser.add_argument("-o", "--output", choices=formats, default="table", help="default: table")
    parser.add_argument("--no-headers", action="store_true", help="without the line of headers")
    parser.add_argument(
        "--sort-by", default="", metavar="COLUMN", help="a header, or a key of the JSON; numbers largest first"
    )
    parser.add_argument("-w", "--watch", action="store_true", help="print again and again, until interrupted")
    if subject.measured:
        add_measuring(parser, subject.measured)
    if subject.names.startswith("NODE["):
        idle = "only cards that claims hold and that did nothing for so long, such as 2h; needs --prometheus"
        parser.add_argument("--idle", default="", metavar="DURATION", help=idle)
    add_driver(parser)


def add_measuring(parser: argparse.ArgumentParser, columns: str) -> None:
    """Add the options that name a Prometheus and a window."""
    parser.add_argument("--prometheus", default="", metavar="URL", help=f"for {columns}, which nobody else knows")
    parser.add_argument("--prometheus-token-file", default="", metavar="FILE", help="with a token to send to it")
    parser.add_argument(
        "--since", default="", metavar="DURATION", help="the window, such as 2h or 7d; default: 1h; needs --prometheus"
    )


def _subject_first(argv: Sequence[str]) -> list[str]:
    """Move the subject to the front, in the plural: users of kubectl write some options before it."""
    at = next((index for index, word in enumerate(argv) if word in _WORDS), None)
    return [*argv] if at is None else [_WORDS[argv[at]], *argv[:at], *argv[at + 1 :]]
