"""The work of ``lode inventory``: ask the hardware; print the cards and what is offered of them, or a profile."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from cli import live
from cli.tables import table
from driver.clock import SystemClock
from driver.errors import LodeError, OperatorFault, TransientFault
from driver.files import SystemFiles
from driver.kinds import EVERY_OFFER, Offer
from driver.kube.api import NODES, Object
from driver.observe import Logger, configure_logs, logger
from driver.settings import Settings
from driver.settings_file import settings_in
from driver.wire import Json
from kubeletplugin.finding import FoundNode, find_hardware, profile_name
from kubeletplugin.hardware import Card, CardState, Hardware, HardwareRefusal, Health
from kubeletplugin.hardware.answer import Unread
from kubeletplugin.hardware.guarded import GuardedHardware
from kubeletplugin.hardware.simulated import profile_of
from kubeletplugin.inventory import OfferedDevice, Restrictions, build_inventory, fabric_from, offer_from, taints_of
from kubeletplugin.offers import CardOffer, Recorded, offer_of
from kubeletplugin.podresources import PodResources, socket_paths
from kubeletplugin.prepare.storage import ClaimStorage, plugin_directory
from kubeletplugin.publish.other_drivers import known_card
from kubeletplugin.publish.other_programs import OtherPrograms, file_of_signs
from kubeletplugin.publish.slices import build_slices
from kubeletplugin.publish.validation import faults

_HEADER: Final = ("CARD", "TYPE", "MODEL", "MEMORY", "NUMA", "PCI", "HEALTH", "OFFERED AS")
_NAMELESS: Final = "node"
"""Stands for the node's name in slices that are only validated."""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """The answers of the hardware about one card."""

    card: Card
    health: Health
    state: CardState | Unread = field(default_factory=CardState)
    """The objects on the card now."""


@dataclass(frozen=True, slots=True)
class InventoryNode:
    """The facts of one node that the report depends on."""

    node: str
    """"" if it is not known."""
    settings: Settings
    labels: Mapping[str, str]
    cards: tuple[CardFacts, ...]
    notes: tuple[str, ...] = ()
    """Notes on facts that are not known, with the reasons."""
    recorded: Recorded = field(default_factory=Recorded)
    """The plugin's records of claims; other objects on the cards are foreign."""


@dataclass(frozen=True, slots=True)
class CardReport:
    """A card, its offers, and the reasons for missing offers."""

    facts: CardFacts
    offered: tuple[OfferedDevice, ...]
    withheld: Mapping[Offer, str]
    """The reason for each kind of offer that no device is published for."""
    taken: str = ""
    """The reason why foreign partitions take part of the card; "" if there are none."""

    @property
    def summary(self) -> str:
        """The offers in words: ``whole, share, 7x 1g.10gb``."""
        bridged = self.facts.card.bridged
        if bridged and bridged.is_shared and self.offered:
            return f"{len(bridged.ids)} slots"
        profiles = Counter(item.profile for item in self.offered if item.profile)
        plain = ["share" if item.device.allow_multiple else "whole" for item in self.offered if not item.profile]
        return ", ".join([*plain, *(f"{count}x {profile}" for profile, count in profiles.items())]) or "nothing"

    def to_json(self) -> Json:
        """The card with all its fields; the names of its devices by kind."""
        card = asdict(self.facts.card) | {"name": self.facts.card.name, "unit": self.facts.card.unit}
        scheme = card.pop("scheme")
        kinds: dict[str, list[str]] = {}
        for item in self.offered:
            kinds.setdefault(item.kind, []).append(item.device.name)
        return {
            **{_camel(name): value for name, value in card.items()},
            "partitions": scheme["name"] if scheme else "",
            "health": asdict(self.facts.health),
            "devices": kinds,
            "notOffered": [{"as": offer, "reason": reason} for offer, reason in self.withheld.items()],
            "taken": self.taken,
        }


@dataclass(frozen=True, slots=True)
class InventoryReport:
    """The whole node."""

    facts: InventoryNode
    offer: tuple[Offer, ...]
    cards: tuple[CardReport, ...]
    refused: tuple[str, ...]
    """Faults for which the API server would refuse the slices; then nothing can be published."""
    notes: tuple[str, ...]

    def text(self) -> str:
        """The node, a table of its cards, and below it the reasons for missing offers, each with its cards."""
        node = f"node {self.facts.node}" if self.facts.node else "this node"
        lines = [f"{node}:", table(_HEADER, [_row(report) for report in self.cards])]
        if not self.cards:
            lines = [f"{node} has no cards"]
        reasons: dict[str, list[str]] = {}
        for report in self.cards:
            for offer, reason in report.withheld.items():
                reasons.setdefault(f"not offered as {offer}: {reason}", []).append(report.facts.card.name)
            if report.taken:
                reason = f"not everything can be allocated: {report.taken}"
                reasons.setdefault(reason, []).append(report.facts.card.name)
            if any(item.device.taints for item in report.offered):
                taint = self.facts.settings.names.unhealthy
                reason = f"not given to new claims: it has the taint {taint} ({_told(report.facts.health)})"
                reasons.setdefault(reason, []).append(report.facts.card.name)
        lines += [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        return "\n".join([*lines, *(f"nothing is published: {reason}" for reason in self.refused)])

    def to_json(self) -> Json:
        """The report as a JSON object."""
        return {
            "node": self.facts.node,
            "driver": self.facts.settings.driver_name,
            "hardware": self.facts.settings.kubeletplugin.hardware,
            "offer": list(self.offer),
            "cards": [report.to_json() for report in self.cards],
            "refused": list(self.refused),
            "notes": list(self.notes),
        }


def report(facts: InventoryNode) -> InventoryReport:
    """Build the report with the functions by which the plugin decides its offers."""
    section, notes = facts.settings.kubeletplugin, list(facts.notes)
    key = section.node_labels.offer
    label = facts.labels.get(key, "")
    chosen = offer_from(label) if label else None
    if label and chosen is None:
        notes.append(
            f"the node label {key}={label} is not valid and ignored; use one or more of {', '.join(EVERY_OFFER)}, each "
            "once, joined by -"
        )
    offer = section.offer if chosen is None else chosen
    source = (
        f"the setting kubeletplugin.offer is [{', '.join(offer)}]"
        if chosen is None
        else f"the node has the label {key}={label}"
    )
    offers = [offer_of(known.card, known.state, facts.recorded) for known in facts.cards]
    cards = [item.card for item in offers]
    names, fabric = facts.settings.names, fabric_from(facts.labels, section.node_labels)
    taints = taints_of({known.card.name: known.health for known in facts.cards}, section.health_taints, (), names)
    restrictions = Restrictions(
        taints=taints,
        withheld={item.card.name: tuple(item.withheld) for item in offers},
        taken={item.card.name: item.taken for item in offers},
    )
    contents = build_inventory(cards, fabric, offer, section.slots, names, restrictions=restrictions)
    slices = build_slices(contents.devices, contents.counter_sets, facts.node or _NAMELESS, names)
    reports = []
    for known, item in zip(facts.cards, offers, strict=True):
        offered = tuple(device for device in contents.allocatable if device.card == item.card)
        reports.append(CardReport(known, offered, _withheld(item, offered, offer, source), item.reason))
    return InventoryReport(facts, offer, tuple(reports), tuple(map(str, faults(slices))), tuple(notes))


def _withheld(
    card: CardOffer, offered: Collection[OfferedDevice], offer: Collection[Offer], source: str
) -> Mapping[Offer, str]:
    if card.card.bridged:
        return {}  # a device plugin has it in one way only
    present = {
        "partitions" if item.partition else "share" if item.device.allow_multiple else "whole" for item in offered
    }
    reasons: dict[Offer, str] = {}
    for kind in EVERY_OFFER:
        if kind in present:
            continue
        if kind == "partitions" and card.card.partitions_unread:
            reasons[kind] = f"its partitions are not known: {card.card.partitions_unread}"
        elif kind == "partitions" and card.card.scheme is None and kind not in card.withheld:
            reasons[kind] = f"no partitions are known for a {card.card.type}"
        elif kind not in offer:
            reasons[kind] = source
        else:
            reasons[kind] = card.withheld.get(kind, card.reason or "the card cannot be this at present")
    return reasons


def _row(report: CardReport) -> tuple[str, ...]:
    card, health = report.facts.card, report.facts.health
    numa = "-" if card.numa_node is None else str(card.numa_node)
    memory = f"{card.memory_mib}Mi" if card.memory_mib else "-"
    model = card.model or (card.bridged.resource if card.bridged else "-")
    return (card.name, card.type, model, memory, numa, card.pci_bus_id or "-", health.state, report.summary)


def _told(health: Health) -> str:
    words = [health.state, health.code, health.message]
    remedy = "" if health.recovery == "none" else f"it takes a {health.recovery}"
    return ", ".join(word for word in (*words, remedy) if word)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join({"mib": "MiB", "id": "ID"}.get(part, part.capitalize()) for part in tail)


DONE = 0


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's arguments say; the exit status."""
    facts = _facts(arguments)
    if arguments.record:
        origin = f"profile {arguments.profile}" if arguments.profile else f"node {arguments.node_name or '(no name)'}"
        return _record(facts, arguments.record, f"Recorded from {origin}")
    found = report(facts)
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
    settings = settings_in(arguments.settings)
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
    for card, programs in OtherPrograms(SystemClock(), ask, file, writes=False).find(known, node, ()).items():
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
