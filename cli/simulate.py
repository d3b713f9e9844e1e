"""The work of ``lode simulate``: read the input, decide, print."""

import argparse
import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cli import live
from cli.decisions.allowance import UNLIMITED, Allowance
from cli.decisions.outcomes import DEVICE_HEADER, Outcome, outcome_rows
from cli.decisions.settings import settings_in, settings_of_cluster
from cli.decisions.simulator import simulate_all
from cli.decisions.snapshot import ClusterSnapshot, snapshot_of
from cli.exitcodes import FAILED, PLACED, WAITS
from cli.objects.checks import InputObject, check
from cli.objects.documents import BadInput, Documents, read_documents
from cli.shipped import device_classes
from cli.tables import table
from controller.state import DecisionSettings
from driver.errors import OperatorFault
from driver.kube.api import Api
from driver.names import Names
from driver.wire import Json


def run(arguments: argparse.Namespace) -> int:
    """Simulate as the command's arguments say; the exit status."""
    if not arguments.file and not arguments.live:
        raise OperatorFault("nothing to read; give -f FILE, -f FOLDER, -f - (standard input) or --live")
    # A fleet is millions of objects without cycles. The search for cycles would take half the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _simulate(arguments)
    finally:
        if collecting:
            gc.enable()


def _simulate(arguments: argparse.Namespace) -> int:
    try:
        snapshot = read_input(arguments).snapshot
    except BadInput as error:
        print_faults(error, arguments.output)
        return FAILED
    return _print_outcomes(snapshot, arguments)


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """What was read.

    Attributes:
        namespace: of the kubeconfig's context, or ``default``.
    """

    snapshot: ClusterSnapshot
    objects: Sequence[InputObject]
    namespace: str


def read_input(arguments: argparse.Namespace) -> ClusterInput:
    """Everything read, checked and completed, as ``--file``, ``--live`` and the options of the cluster say.

    Raises:
        BadInput: files cannot be used; carries every fault.
        LodeError: the cluster cannot be read.
    """
    names, settings = Names(arguments.driver), settings_in(arguments.settings)
    if not arguments.live:
        objects, notes = _read_files(arguments.file, arguments.namespace or "default")
        snapshot = snapshot_of(objects, names, device_classes(), settings=settings or DecisionSettings())
        snapshot.notes += notes
        return ClusterInput(snapshot, objects, "default")
    with live.cluster(arguments.kubeconfig, arguments.context) as (api, namespace):
        from_files, notes = _read_files(arguments.file, arguments.namespace or namespace)
        found = with_cluster(api, from_files, names, settings)
        found.snapshot.notes += notes
        return replace(found, namespace=namespace)


def with_cluster(
    api: Api,
    given: Sequence[InputObject],
    names: Names,
    settings: DecisionSettings | None = None,
    allowance: Allowance = UNLIMITED,
) -> ClusterInput:
    """Return the cluster with these objects in it.

    Args:
        settings: of the controller; None for those of the controller that is installed.
        allowance: of the simulation; its seconds count from when the cluster has been read.

    Raises:
        BadInput: the objects cannot be used; carries every fault.
        AsksTooMuch: the simulation has no time left.
        LodeError: the cluster cannot be read.
    """
    objects, live_notes = live.read_all(api, given)
    more, missing = live.read_what_may_be_read(api)
    unread = [right.resource for right in missing]
    every = [*more, *objects]
    settings, unknown = (settings, ()) if settings is not None else settings_of_cluster(api, every)
    allowance.begin()
    snapshot = snapshot_of(every, names, None, unread=unread, settings=settings, allowance=allowance)
    snapshot.notes += [*unknown, *live_notes, *live.consequences(missing, snapshot.state)]
    return ClusterInput(snapshot, every, "default")


def _read_files(files: Sequence[str], namespace: str) -> tuple[list[InputObject], list[str]]:
    return checked_objects(read_documents(files, sys.stdin), namespace)


def checked_objects(documents: Documents, namespace: str) -> tuple[list[InputObject], list[str]]:
    """Return the objects, those without a namespace in this one, and notes on what was left out.

    Raises:
        BadInput: they cannot be used; carries every fault.
    """
    checked = check(documents.found, namespace)
    if faults := [*documents.faults, *checked.faults]:
        raise BadInput(faults)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(checked.ignored.items()))
    return checked.objects, [f"left out, because it has no part in allocation: {kinds}"] if kinds else []


def _print_outcomes(snapshot: ClusterSnapshot, arguments: argparse.Namespace) -> int:
    pods, claims = [
        [outcome for outcome in outcomes if arguments.namespace in ("", outcome.namespace)]
        for outcomes in simulate_all(snapshot)
    ]
    if arguments.output == "json":
        print(json.dumps(outcomes_json(pods, claims, snapshot.notes), indent=2))
    else:
        for note in snapshot.notes:
            sys.stderr.write(f"note: {note}\n")
        print(outcomes_text(pods, claims))
    return PLACED if all(outcome.placed for outcome in (*pods, *claims)) else WAITS


def outcomes_json(pods: Sequence[Outcome], claims: Sequence[Outcome], notes: Sequence[str]) -> Json:
    """Return the outcomes with the keys of docs/simulate.md."""
    outcomes = [*pods, *claims]
    waiting = sum(not outcome.placed for outcome in outcomes)
    return {
        "pods": [outcome.to_json() for outcome in pods],
        "claims": [outcome.to_json() for outcome in claims],
        "placed": len(outcomes) - waiting,
        "waiting": waiting,
        "notes": list(notes),
    }


def outcomes_text(pods: Sequence[Outcome], claims: Sequence[Outcome]) -> str:
    """Return the outcomes as a table, and below it why there are no closer cards, and why pods and claims wait."""
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
        parts += [f"{head}: taken back from node {lost.node}: {lost.message}" for lost in outcome.taken_back]
        parts += [f"{head}: {sentence}" for sentence in outcome.closeness]
        if not outcome.placed:
            parts.append(outcome.wait_text())
    return "\n\n".join(parts)


def faults_json(error: BadInput) -> Json:
    """Return what is wrong with the input, with the keys of docs/simulate.md."""
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
    return {"faults": faults}


def print_faults(error: BadInput, output: str) -> None:
    """Print what is wrong with the input, for JSON also to the output."""
    if output == "json":
        print(json.dumps(faults_json(error), indent=2))
    for fault in error.faults:
        sys.stderr.write(f"{fault}\n")
