"""Builds cards from chips. Containers get a card as a whole. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubeletplugin.hardware.answer import LACKS, Answer, Unread, if_read
from kubeletplugin.hardware.ascend.facts import Chip
from kubeletplugin.hardware.ascend.generations import Generation, generation_of
from kubeletplugin.hardware.ascend.templates import memory_of, scheme_of
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Scheme
from kubeletplugin.hardware.place import Place


@dataclass(frozen=True, slots=True)
class Node:
    """The chips found on a node."""

    chips: tuple[Chip, ...] = ()
    chips_on_card: Mapping[int, int] = field(default_factory=dict)
    """Number of chips on each card, including chips that could not be read."""
    driver_version: str = ""
    independent: Answer[bool] = LACKS
    """Whether a container may have one of the two dies of a 910C; drivers without this policy give none alone."""
    faults: tuple[str, ...] = ()
    """Chips that could not be read, with the reasons."""
    silent: tuple[str, ...] = ()
    """Why there may be further chips: cards and chips that did not answer and were never read."""


@dataclass(frozen=True, slots=True)
class Npu:
    """A card with its chips: both dies of a 910C if they are allocated together, else one chip."""

    card: Card
    chips: tuple[Chip, ...]
    generation: Generation
    memory: Answer[int]
    """What the card's memory is made of, in MiB."""


@dataclass(frozen=True, slots=True)
class Npus:
    """The cards of a node."""

    npus: tuple[Npu, ...]
    """In order of index."""
    problems: tuple[str, ...]
    """Warnings for the operator."""
    silent: tuple[str, ...]
    """Why there may be further cards: what they are is not known."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What is around the chips of a node: the place of each by its PCI address, and ``hccs_domains``."""

    places: Mapping[str, Place]
    domains: Mapping[str, str]


def hccs_domains(chips: Sequence[Chip]) -> Mapping[str, str]:
    """The chips that reach one another over HCCS, as the name of their domain by ``vdie``; only of such chips.

    A domain is named after its first chip, so that the domains of two nodes have different names.
    """
    links = {chip.vdie: linked for chip in chips if (linked := if_read(chip.linked))}
    found: dict[str, str] = {}
    for vdie in sorted(links):
        reached = [vdie] if vdie not in found else []
        for one in reached:
            found[one] = f"hccs-{vdie}"
            reached += [other for other in sorted(links[one]) if other in links and other not in reached]
    return found


def _domain(chips: Sequence[Chip], around: Neighbours) -> str:
    pods = {if_read(chip.super_pod) for chip in chips}
    pod = pods.pop() if len(pods) == 1 else None
    if pod is not None:
        return f"super-pod-{pod}"
    # A chip whose super pod is not known may be in one.
    return "" if any(isinstance(chip.super_pod, Unread) for chip in chips) else around.domains.get(chips[0].vdie, "")


def npus_of(node: Node, places: Mapping[str, Place]) -> Npus:
    """The cards of a node.

    Args:
        places: by PCI address.
    """
    npus: list[Npu] = []
    domains = hccs_domains(node.chips)
    problems, unknown = list(node.faults), list[str]()
    for card_id in sorted({chip.card_id for chip in node.chips}):
        count = node.chips_on_card.get(card_id, 1)
        chips = sorted((chip for chip in node.chips if chip.card_id == card_id), key=lambda chip: chip.device_id)
        generation = generation_of(chips[0].name, chips[0].board_id, count)
        if isinstance(generation, Unread):
            unknown.append(f"card {card_id}: which product it is is not known: {generation.why}")
            continue
        if generation.in_pairs and isinstance(node.independent, Unread):
            unknown.append(f"card {card_id}: whether its dies are given alone is not known: {node.independent.why}")
            continue
        if generation.in_pairs and node.independent is not True:
            if len(chips) == count == 2:
                npus.append(_npu(chips, generation, node, Neighbours(places, domains)))
            else:
                problems.append(f"card {card_id}: {len(chips)} of its {count} dies can be used, and both are needed")
            continue
        for chip in chips:
            scheme, warnings = scheme_of(chip, generation)
            npus.append(_npu((chip,), generation, node, Neighbours(places, domains), scheme))
            problems += warnings
    ordered = sorted(npus, key=lambda npu: npu.card.index)
    return Npus(tuple(ordered), (*problems, *unknown), (*node.silent, *unknown))


def _npu(
    chips: Sequence[Chip],
    generation: Generation,
    node: Node,
    around: Neighbours,
    scheme: Answer[Scheme] = LACKS,
) -> Npu:
    """A card with these chips. Two have no scheme: a vNPU is a part of one die, which the node's policy gives to nobody
    alone."""
    memory = _sum([memory_of(chip, generation) for chip in chips])
    card = _card(chips, generation, node, around)
    card = replace(card, memory_mib=if_read(memory) or 0, scheme=if_read(scheme))
    if isinstance(scheme, Unread):
        card = replace(card, partitions_unread=f"{scheme.why}; it is asked again")
    if isinstance(memory, Unread):
        card = replace(card, memory_unread=memory.why)
    return Npu(card, tuple(chips), generation, memory)


def _sum(amounts: Sequence[Answer[int]]) -> Answer[int]:
    total = 0
    for amount in amounts:
        if amount is LACKS or isinstance(amount, Unread):
            return amount
        total += amount
    return total


def _card(chips: Sequence[Chip], generation: Generation, node: Node, around: Neighbours) -> Card:
    first = min(chips, key=lambda chip: chip.physical_id)
    bus_id = if_read(first.bus_id) or ""
    place = around.places.get(bus_id, Place())
    return Card(
        index=first.physical_id,
        uuid=first.vdie,
        vendor="huawei",
        type=generation.type,
        model=first.name if first.name.startswith("Ascend") else f"Ascend {first.name}",
        architecture="Da Vinci",
        memory_mib=0,
        pci_bus_id=bus_id,
        pcie_root=place.root,
        pcie_switch=place.switch,
        driver_version=node.driver_version,
        numa_node=place.numa_node,
        nvlink_domain=_domain(chips, around),
    )
