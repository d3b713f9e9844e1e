"""The work of ``lode advise``: read, decide, print."""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import yaml

from cli.advise.idle import IdleNode, idle_nodes
from cli.advise.movable import movable_pods
from cli.advise.moves import NoMoves, best_moves
from cli.advise.printed import Advice, idle_json, idle_text, stay_notes
from cli.advise.waiting import WaitingGang, WaitingPod, waiting_in_turn
from cli.decisions.simulator import LATER, Simulator, latest_time
from cli.decisions.snapshot import ClusterSnapshot
from cli.exitcodes import FAILED, PLACED, WAITS
from cli.objects.documents import BadInput
from cli.simulate import ClusterInput, print_faults, read_input
from driver.errors import OperatorFault
from driver.kube.api import NODES, RESOURCE_SLICES
from driver.names import Names

_MOST_IDLE: Final = 20
"""Nodes with idle cards in the table."""


def run(arguments: argparse.Namespace) -> int:
    """Advise as the command's arguments say; the exit status."""
    if arguments.most < 1:
        raise OperatorFault(f"--most {arguments.most}: must be at least 1")
    arguments.live = arguments.live or not arguments.file
    try:
        given = read_input(arguments)
        names = Names(arguments.driver)
        idle = _idle(given, names)
        advice = list(_advice(given.snapshot, arguments, given.namespace))
    except BadInput as error:
        print_faults(error, "json" if arguments.output == "json" else "table")
        return FAILED
    if arguments.output == "table":
        _print_text(given.snapshot, advice, idle, time.time() if arguments.live else latest_time(given.snapshot.state))
    else:
        found = {"advice": [one.to_json() for one in advice], "idle": idle_json(idle), "notes": given.snapshot.notes}
        as_json = arguments.output == "json"
        print(json.dumps(found, indent=2) if as_json else yaml.safe_dump(found, sort_keys=False).rstrip())
    return WAITS if any(isinstance(one.found, NoMoves) for one in advice) else PLACED


def _idle(given: ClusterInput, names: Names) -> list[IdleNode]:
    used = [(device.pool, device.device) for device in given.snapshot.state.devices.ledger.usage_snapshot()]
    slices = [item.object for item in given.objects if item.resource == RESOURCE_SLICES]
    nodes = [item.object["metadata"] for item in given.objects if item.resource == NODES]
    return idle_nodes(slices, {it["name"]: it.get("creationTimestamp") or "" for it in nodes}, used, names)


def _advice(snapshot: ClusterSnapshot, arguments: argparse.Namespace, namespace: str) -> Iterator[Advice]:
    """Advise about each pod and gang that waits after everything was placed that can be.

    Raises:
        OperatorFault: what was asked for does not wait.
    """
    now = latest_time(snapshot.state) + LATER
    outcomes = Simulator(snapshot, now).pods()
    state = snapshot.state
    keys = [one.key for one in outcomes if not one.placed and arguments.namespace in ("", one.namespace)]
    waiting: Sequence[WaitingPod | WaitingGang] = list(waiting_in_turn(state, keys, now))
    if arguments.what:
        waiting = [_named(waiting, arguments.what, arguments.namespace or namespace)]
    pods, stay = movable_pods(state, snapshot.pods)
    if len(waiting) > arguments.most:
        snapshot.notes.append(f"only the first {arguments.most} of {len(waiting)} that wait are looked at (--most)")
    for one in waiting[: arguments.most]:
        yield Advice(one.kind, one.key, best_moves(state, one, pods))
    snapshot.notes += stay_notes(stay) if waiting else ()


def _named(waiting: Sequence[WaitingPod | WaitingGang], what: str, namespace: str) -> WaitingPod | WaitingGang:
    word, _, name = what.partition("/") if "/" in what else ("", "", what)
    kinds = {"pod": "Pod", "pods": "Pod", "po": "Pod", "gang": "Gang", "gangs": "Gang", "": ""}
    if not name or word.lower() not in kinds or ("/" in name and kinds[word.lower()] != "Gang"):
        raise OperatorFault(f"{what!r} names nothing; write pod/NAME or gang/NAME")
    key, kind = f"{namespace}/{name}", kinds[word.lower()]
    for one in waiting:
        if kind in ("", one.kind) and one.key == key:
            return one
        if kind != "Gang" and key in one.pods:
            return one
    raise OperatorFault(f"no {kind.lower() or 'pod or gang'} {key} waits for devices; `lode explain` says what it does")


def _print_text(snapshot: ClusterSnapshot, advice: Sequence[Advice], idle: Sequence[IdleNode], now: float) -> None:
    for note in snapshot.notes:
        sys.stderr.write(f"note: {note}\n")
    parts = [one.text(now) for one in advice] or ["Nothing waits for devices."]
    print("\n\n".join([*parts, idle_text(idle, now, _MOST_IDLE)]))
