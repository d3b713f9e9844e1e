"""The work of ``lode inventory``: ask the hardware, print or record."""

import argparse
import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from cli import live
from cli.exitcodes import FAILED
from cli.inventory_report import CardFacts, InventoryReport, NodeFacts, report
from driver.clock import SystemClock
from driver.errors import LodeError, OperatorFault
from driver.files import SystemFiles
from driver.kube.api import NODES
from driver.observe import configure_logs, logger
from driver.settings import Settings, settings_from
from kubeletplugin.finding import find_hardware
from kubeletplugin.hardware import Card, CardState, Hardware, HardwareRefusal, Health
from kubeletplugin.hardware.guarded import GuardedHardware
from kubeletplugin.hardware.simulated import profile_of
from kubeletplugin.offers import Recorded
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.publish.other_drivers import serving

DONE = 0


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's arguments say; the exit status."""
    try:
        facts = _facts(arguments)
        if arguments.record:
            origin = (
                f"profile {arguments.profile}" if arguments.profile else f"node {arguments.node_name or '(no name)'}"
            )
            return _record(facts, arguments.record, f"Recorded from {origin}")
        found = report(facts)
    except (LodeError, OSError) as error:
        sys.stderr.write(f"lode inventory: {error}\n")
        return FAILED
    if arguments.output == "json":
        print(json.dumps(found.to_json(), indent=2))
    else:
        _print(found)
    return DONE


def _print(found: InventoryReport) -> None:
    for note in found.notes:
        sys.stderr.write(f"note: {note}\n")
    print(found.text())


def _record(facts: NodeFacts, target: str, description: str) -> int:
    text = profile_of([known.card for known in facts.cards], description)
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text)
        sys.stderr.write(f"note: {target}: {len(facts.cards)} cards recorded\n")
    return DONE


def _facts(arguments: argparse.Namespace) -> NodeFacts:
    """What the node says about itself.

    Raises:
        InvalidInput: the settings or the profile are not valid.
        TransientFault: the hardware does not answer.
    """
    settings = (
        settings_from(Path(arguments.settings).read_text(), arguments.settings) if arguments.settings else Settings()
    )
    notes: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    if arguments.profile:
        section = settings.kubeletplugin.model_copy(update={"hardware": "simulated", "profile": arguments.profile})
        settings = settings.model_copy(update={"kubeletplugin": section})
    elif arguments.node_name:
        labels, notes = _labels(arguments)
    else:
        notes = ("the node's name is not known, so its labels count as not set; give --node-name",)
    configure_logs("warning", "console")
    clock, log = SystemClock(), logger("inventory")
    hardware = GuardedHardware(
        partial(find_hardware, settings, labels, arguments.node_name, SystemFiles(), clock, log), clock
    )
    recorded, unread = (Recorded(), ()) if arguments.profile else _recorded(settings)
    return NodeFacts(arguments.node_name, settings, labels, _cards(hardware), (*notes, *unread), recorded)


def _recorded(settings: Settings) -> tuple[Recorded, tuple[str, ...]]:
    """What the plugin has recorded of claims, or a note that says why it is not known."""
    try:
        return ClaimStorage(SystemFiles(), settings).load().recorded, ()
    except (LodeError, OSError) as error:
        return Recorded(), (f"every partition counts as made by somebody else: {error}",)


def _cards(hardware: Hardware) -> tuple[CardFacts, ...]:
    cards, health = hardware.cards(), hardware.health()
    unknown = Health("unknown", "the hardware does not report it")
    return tuple(CardFacts(card, health.get(card.name, unknown), _state(hardware, card)) for card in cards)


def _state(hardware: Hardware, card: Card) -> CardState:
    """What is on the card; nothing if it does not answer: its health says that."""
    try:
        return hardware.observe(card)
    except HardwareRefusal:
        return CardState()


def _labels(arguments: argparse.Namespace) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The Node's labels, or a note that says why they are not known."""
    try:
        with live.cluster(arguments.kubeconfig) as (api, _):
            node = live.get_one(api, NODES, arguments.node_name, "")
    except OperatorFault as error:
        return {}, (f"the labels of node {arguments.node_name} count as not set: {error}",)
    if node is None:
        return {}, (f"node {arguments.node_name} does not exist in the cluster, so its labels count as not set",)
    others = serving(node, ())
    notes = (f"cards of {vendor} are not given to claims: {who} hands them out, too" for vendor, who in others.items())
    return node["metadata"].get("labels") or {}, tuple(notes)
