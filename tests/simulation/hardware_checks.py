"""What must exist on the cards of a node when nothing is under way."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import assert_never

from kubeletplugin.hardware import Action, Card, Partition
from kubeletplugin.hardware.actions import MigInstance, MigMode, VnpuInstance
from kubeletplugin.hardware.vendors import facts_of
from kubeletplugin.prepare.checkpoint import PreparedClaim
from tests.simulation.hardware import NodeHardware
from tests.simulation.node import MemoryNode

Place = tuple[str, str, int]
"""A card, a profile, and the first memory slice; 0 for a vNPU, because slots of one template are interchangeable."""


def hardware_violations(hardware: NodeHardware, node: MemoryNode, stopping: Sequence[PreparedClaim]) -> Iterator[str]:
    """How the partitions on the cards differ from those that containers use and those that somebody else made.

    Args:
        stopping: claims that the plugin has given up. They can be there only while their hardware cannot release them.
    """
    if not hardware.answers:
        return
    state = hardware.store.load()
    lost = {card.uuid for card in hardware.cards_of_node.cards() if card.name in hardware.lost}
    held = [claim for claim in stopping if any(step.action.card in lost for step in claim.steps)]
    held += [claim for claim in stopping if claim.keys & state.in_use]
    for claim in stopping:
        if claim not in held:
            yield f"{node.name}: what {claim.plan.ref} had is not released: {sorted(claim.keys)}"
    excused = {key for claim in held for key in claim.keys} | hardware.foreign
    places = {
        card.part_name(partition): _place(card, partition)
        for card in hardware.cards_of_node.cards()
        for partition in (card.scheme.partitions if card.scheme else ())
    }
    devices = {
        (claim, result.device.device)
        for container in node.containers.values()
        for claim, result in container.devices
        if not result.admin_access
    }
    used = Counter(places[device] for _, device in devices if device in places)
    existing = [action for action, _ in state.existing.values() if action.key not in excused]
    found = Counter(place for action in existing if (place := _place_of(action)))
    if found != used:
        yield f"{node.name}: partitions {sorted(found.elements())} exist, containers use {sorted(used.elements())}"
    modes = {action.card for action in existing if isinstance(action, MigMode)}
    cards = {action.card for action in existing if isinstance(action, MigInstance)}
    if modes != cards and not held and not hardware.foreign:
        yield f"{node.name}: cards {sorted(modes)} are in MIG mode, cards {sorted(cards)} have instances"


def _place(card: Card, partition: Partition) -> Place:
    match kind := facts_of(card.vendor).partition_kind:
        case "mig":
            return card.uuid, partition.profile, partition.slot
        case "vnpu":
            return card.uuid, partition.profile, 0
        case None:
            raise AssertionError(f"{card.name} has no partitions")
        case _:
            assert_never(kind)


def _place_of(action: Action) -> Place | None:
    match action:
        case MigInstance(card=card, profile=profile, start=start):
            return card, profile, start
        case VnpuInstance(card=card, template=template):
            return card, template, 0
        case _:
            return None
