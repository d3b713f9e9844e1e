"""``lode simulate``: what would be allocated where, in what order, or why not. Nothing is written to any cluster."""

import argparse
import gc
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from driver.errors import LodeError
from driver.names import DEFAULT_DRIVER

if TYPE_CHECKING:
    from cli.checks import Given
    from cli.documents import BadInput
    from cli.outcomes import Json, Outcome
    from cli.world import World

ALL_PLACED: Final = 0
SOMETHING_WAITS: Final = 1
BAD_INPUT: Final = 2

_DESCRIPTION: Final = """\
Decide as the controller would, on objects from files or a cluster, and print what every pending pod and every unused
claim would get, in order, or why it has to wait. Nothing is written to any cluster."""
_EPILOG: Final = """\
exit status: 0 everything is placed, 1 something has to wait, 2 the input cannot be used
example: kubectl get resourceslices,deviceclasses,nodes -o yaml | lode simulate -f - -f pod.yaml"""


def main(argv: Sequence[str]) -> int:
    """Simulate; the exit status, as the command's help says."""
    arguments = _parser().parse_args(argv)
    if not arguments.file and not arguments.live:
        sys.stderr.write("lode simulate: nothing to read; give -f FILE, -f FOLDER, -f - (standard input) or --live\n")
        return BAD_INPUT
    # A fleet is millions of objects without cycles: looking for some takes half the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _run(arguments)
    finally:
        if collecting:
            gc.enable()


def _run(arguments: argparse.Namespace) -> int:
    from cli.documents import BadInput

    try:
        world = _world(arguments)
    except BadInput as error:
        _print_faults(error, arguments.output)
        return BAD_INPUT
    except LodeError as error:
        sys.stderr.write(f"lode simulate: {error}\n")
        return BAD_INPUT
    return _decide(world, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "lode simulate",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE|FOLDER|-",
        help="objects in YAML or JSON, as kubectl get -o yaml prints them; may be given several times",
    )
    parser.add_argument("--live", action="store_true", help="start from what is in the cluster; -f comes on top")
    parser.add_argument("-n", "--namespace", default="", help="of objects that name none; show only what is in it")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="for --live; default as for kubectl")
    parser.add_argument("--driver", default=DEFAULT_DRIVER, metavar="NAME", help=f"default: {DEFAULT_DRIVER}")
    return parser


def _world(arguments: argparse.Namespace) -> "World":
    """Everything read, checked and completed.

    Raises:
        BadInput: files cannot be used; carries every fault.
        LodeError: the cluster cannot be read.
    """
    from cli.world import world
    from driver.names import Names

    if not arguments.live:
        from cli.shipped import device_classes

        given, notes = _given(arguments.file, arguments.namespace or "default")
        made = world(given, Names(arguments.driver), device_classes())
        made.notes += notes
        return made
    from cli.live import cluster, read_given

    with cluster(arguments.kubeconfig) as (api, namespace):
        given, notes = _given(arguments.file, arguments.namespace or namespace)
        given, more = read_given(api, given)
        made = world(given, Names(arguments.driver), nodes=False)
        made.notes += [*more, *notes]
        return made


def _given(files: Sequence[str], namespace: str) -> "tuple[list[Given], list[str]]":
    from cli.checks import check
    from cli.documents import BadInput, read_documents

    documents = read_documents(files, sys.stdin)
    checked = check(documents.found, namespace)
    if faults := [*documents.faults, *checked.faults]:
        raise BadInput(faults)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(checked.ignored.items()))
    return checked.given, [f"left out, because it has no part in allocation: {kinds}"] if kinds else []


def _decide(world: "World", arguments: argparse.Namespace) -> int:
    from cli.trial import run

    shown = [
        [outcome for outcome in outcomes if arguments.namespace in ("", outcome.namespace)] for outcomes in run(world)
    ]
    pods, claims = shown
    if arguments.output == "json":
        print(json.dumps(_json(pods, claims, world.notes), indent=2))
    else:
        for note in world.notes:
            sys.stderr.write(f"note: {note}\n")
        print(_table(pods, claims))
    return ALL_PLACED if all(outcome.placed for outcome in (*pods, *claims)) else SOMETHING_WAITS


def _json(pods: Sequence["Outcome"], claims: Sequence["Outcome"], notes: Sequence[str]) -> "Json":
    outcomes = [*pods, *claims]
    waiting = sum(not outcome.placed for outcome in outcomes)
    return {
        "pods": [outcome.to_json() for outcome in pods],
        "claims": [outcome.to_json() for outcome in claims],
        "placed": len(outcomes) - waiting,
        "waiting": waiting,
        "notes": list(notes),
    }


def _table(pods: Sequence["Outcome"], claims: Sequence["Outcome"]) -> str:
    from cli.outcomes import DEVICE_HEADER, outcome_rows
    from cli.tables import table

    if not pods and not claims:
        return "Nothing waits for devices: there is no pending pod that asks for any, and no unallocated claim."
    parts = []
    if pods:
        parts.append(table(("NAMESPACE", "POD", "NODE", *DEVICE_HEADER), outcome_rows(pods)))
    if claims:
        rows = [row[:1] + row[2:] for row in outcome_rows(claims)]
        parts.append(table(("NAMESPACE", "NODE", *DEVICE_HEADER), rows))
    for outcome in (*pods, *claims):
        head = f"{outcome.kind} {outcome.namespace}/{outcome.name}"
        parts += [f"{head}: taken back from node {one.node}: {one.message}" for one in outcome.taken_back]
        if not outcome.placed:
            parts.append(outcome.why())
    return "\n\n".join(parts)


def _print_faults(error: "BadInput", output: str) -> None:
    if output == "json":
        faults = [
            {
                "file": fault.origin.file,
                "document": fault.origin.document,
                "item": fault.origin.item,
                "object": fault.subject,
                "field": fault.field,
                "message": fault.message,
            }
            for fault in error.faults
        ]
        print(json.dumps({"faults": faults}, indent=2))
    for fault in error.faults:
        sys.stderr.write(f"{fault}\n")
