"""Builds cards from chips. Containers get a card as a whole. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kubeletplugin.hardware.ascend.facts import Chip
from kubeletplugin.hardware.ascend.generations import Generation, generation_of
from kubeletplugin.hardware.ascend.templates import scheme_of
from kubeletplugin.hardware.card import Card


@dataclass(frozen=True, slots=True)
class PciLocation:
    """Location of a PCI function in the machine."""

    root: str = ""
    """``pci0000:c0``; "" if it is not known."""
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """The chips found on a node."""

    chips: tuple[Chip, ...] = ()
    chips_on_card: Mapping[int, int] = field(default_factory=dict)
    """Number of chips on each card, including chips that could not be read."""
    driver_version: str = ""
    independent: bool = False
    """Whether a container may have one of the two dies of a 910C."""
    faults: tuple[str, ...] = ()
    """Chips that could not be read, with the reasons."""


@dataclass(frozen=True, slots=True)
class Npu:
    """A card with its chips: both dies of a 910C if they are allocated together, else one chip."""

    card: Card
    chips: tuple[Chip, ...]
    generation: Generation


def npus_of(node: Node, locations: Mapping[str, PciLocation]) -> tuple[tuple[Npu, ...], tuple[str, ...]]:
    """The cards of a node in order of index, and warnings for the operator.

    Args:
        locations: by PCI address.
    """
    npus: list[Npu] = []
    problems = list(node.faults)
    for card_id in sorted({chip.card_id for chip in node.chips}):
        count = node.chips_on_card.get(card_id, 1)
        chips = sorted((chip for chip in node.chips if chip.card_id == card_id), key=lambda chip: chip.device_id)
        generation = generation_of(chips[0].name, chips[0].board_id, count)
        if generation.in_pairs and not node.independent:
            if len(chips) == count == 2:
                npus.append(_pair(chips, generation, node, locations))
            else:
                problems.append(f"card {card_id}: {len(chips)} of its {count} dies can be used, and both are needed")
            continue
        for chip in chips:
            npu, warnings = _single(chip, generation, node, locations)
            npus.append(npu)
            problems += warnings
    return tuple(sorted(npus, key=lambda npu: npu.card.index)), tuple(problems)


def _single(
    chip: Chip, generation: Generation, node: Node, locations: Mapping[str, PciLocation]
) -> tuple[Npu, tuple[str, ...]]:
    scheme, warnings = scheme_of(chip, generation)
    card = replace(_card((chip,), generation, node, locations), scheme=scheme)
    return Npu(card, (chip,), generation), warnings


def _pair(chips: Iterable[Chip], generation: Generation, node: Node, locations: Mapping[str, PciLocation]) -> Npu:
    # A vNPU is a part of one die, which the node's policy gives to nobody alone.
    both = tuple(chips)
    return Npu(_card(both, generation, node, locations), both, generation)


def _card(chips: tuple[Chip, ...], generation: Generation, node: Node, locations: Mapping[str, PciLocation]) -> Card:
    first = min(chips, key=lambda chip: chip.physical_id)
    location = locations.get(first.bus_id, PciLocation())
    pods = {chip.super_pod for chip in chips}
    return Card(
        index=first.physical_id,
        uuid=first.vdie,
        vendor="huawei",
        type=generation.type,
        model=first.name if first.name.startswith("Ascend") else f"Ascend {first.name}",
        architecture="Da Vinci",
        memory_mib=sum(chip.memory_mib for chip in chips),
        pci_bus_id=first.bus_id,
        pcie_root=location.root,
        driver_version=node.driver_version,
        numa_node=location.numa_node,
        nvlink_domain=f"super-pod-{first.super_pod}" if len(pods) == 1 and first.super_pod is not None else "",
    )
