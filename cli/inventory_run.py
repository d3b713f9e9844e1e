"""The work of ``lode inventory``: ask the hardware, print or record."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from cli import live
from cli.exitcodes import FAILED
from cli.inventory_report import CardFacts, InventoryNode, InventoryReport, report
from driver.clock import SystemClock
from driver.errors import LodeError, OperatorFault, TransientFault
from driver.files import SystemFiles
from driver.kube.api import NODES, Object
from driver.observe import Logger, configure_logs, logger
from driver.settings import Settings, settings_from
from kubeletplugin.finding import FoundNode, find_hardware, profile_name
from kubeletplugin.hardware import Card, CardState, Hardware, HardwareRefusal, Health
from kubeletplugin.hardware.answer import Unread
from kubeletplugin.hardware.guarded import GuardedHardware
from kubeletplugin.hardware.simulated import profile_of
from kubeletplugin.offers import Recorded
from kubeletplugin.podresources import PodResources, socket_paths
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory
from kubeletplugin.publish.other_drivers import known_card
from kubeletplugin.publish.other_programs import OtherPrograms, file_of_signs

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


def _record(facts: InventoryNode, target: str, description: str) -> int:
    text = profile_of([known.card for known in facts.cards], description)
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text)
        sys.stderr.write(f"note: {target}: {len(facts.cards)} cards recorded\n")
    return DONE


def _facts(arguments: argparse.Namespace) -> InventoryNode:
    """Read the facts of the node for the report.

    Raises:
        InvalidInput: the settings or the profile are not valid.
        TransientFault: the hardware does not answer.
    """
    settings = (
        settings_from(Path(arguments.settings).read_text(), arguments.settings) if arguments.settings else Settings()
    )
    notes: tuple[str, ...] = ()
    node: Object = {}
    if arguments.profile:
        section = settings.kubeletplugin.model_copy(update={"hardware": "simulated", "profile": arguments.profile})
        settings = settings.model_copy(update={"kubeletplugin": section})
    elif arguments.node_name:
        node, notes = _node(arguments)
    else:
        notes = ("the node's name is not known, so its labels count as not set; give --node-name",)
    configure_logs("warning", "console")
    clock, log = SystemClock(), logger("inventory")
    labels = (node.get("metadata") or {}).get("labels") or {}
    found = FoundNode(arguments.node_name, profile_name(settings, node), lambda: labels)
    find = partial(find_hardware, settings, found, files=SystemFiles(), clock=clock, log=log)
    hardware = GuardedHardware(find, clock)
    recorded, unread = (Recorded(), ()) if arguments.profile else _recorded(settings)
    cards = _cards(hardware)
    others = () if arguments.profile else _others(settings, node, cards, log)
    notes = (*notes, *others, *unread)
    return InventoryNode(arguments.node_name, settings, labels, cards, notes=notes, recorded=recorded)


def _recorded(settings: Settings) -> tuple[Recorded, tuple[str, ...]]:
    """The plugin's records of claims, or a note that says why they cannot be read."""
    try:
        return ClaimStorage(SystemFiles(), settings).load().recorded, ()
    except (LodeError, OSError) as error:
        return Recorded(), (f"every partition counts as made by somebody else: {error}",)


def _cards(hardware: Hardware) -> tuple[CardFacts, ...]:
    cards, health = hardware.cards(), hardware.health()
    unknown = Health("unknown", "the hardware does not report it")
    return tuple(CardFacts(card, health.get(card.name, unknown), _state(hardware, card)) for card in cards)


def _state(hardware: Hardware, card: Card) -> CardState | Unread:
    """The state of the card; an empty one if the card is gone, which its health says."""
    try:
        return hardware.observe(card)
    except HardwareRefusal:
        return CardState()
    except TransientFault as fault:
        return Unread(str(fault))


def _others(settings: Settings, node: Object, cards: Sequence[CardFacts], log: Logger) -> Iterator[str]:
    """Notes on cards that other drivers hand out, too, by what the plugin of the node remembers of them."""
    if settings.kubeletplugin.hardware == "simulated" or not cards:
        return
    known = [known_card(facts.card, CardState() if isinstance(facts.state, Unread) else facts.state) for facts in cards]
    ask = PodResources(socket_paths(settings), log).devices
    file = file_of_signs(SystemFiles(), plugin_directory(settings), log)
    for card, programs in OtherPrograms(SystemClock(), ask, file, writes=False).of(known, node, ()).items():
        yield f"{card} is not given to claims: {', '.join(program.text for program in programs)} hand it out, too"


def _node(arguments: argparse.Namespace) -> tuple[Object, tuple[str, ...]]:
    """The Node, or {} and a note that says why its labels are not known."""
    try:
        with live.cluster(arguments.kubeconfig) as (api, _):
            node = live.get_one(api, NODES, arguments.node_name, "")
    except OperatorFault as error:
        return {}, (f"the labels of node {arguments.node_name} count as not set: {error}",)
    if node is None:
        return {}, (f"node {arguments.node_name} does not exist in the cluster, so its labels count as not set",)
    return node, ()
