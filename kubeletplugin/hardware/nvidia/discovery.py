"""Builds ``Card`` from the facts of NVML and of the kernel. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kubeletplugin.hardware.answer import Unread, if_read
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts, SystemFacts
from kubeletplugin.hardware.nvidia.schemes import scheme_of
from kubeletplugin.hardware.place import Place

UNKNOWN: Final = "unknown"
_ARCHITECTURES: Mapping[int, str] = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
"""``NVML_DEVICE_ARCH_*``"""
_OF_CAPABILITY: Mapping[int, str] = {
    3: "Kepler",
    5: "Maxwell",
    6: "Pascal",
    7: "Volta",
    8: "Ampere",
    9: "Hopper",
    10: "Blackwell",
    12: "Blackwell",
}
"""Architectures by the major number of the compute capability, for drivers that do not report the architecture."""
_OF_EXACT_CAPABILITY: Mapping[tuple[int, int], str] = {(7, 5): "Turing", (8, 9): "Ada Lovelace"}
_BRANDS = re.compile(r"^(NVIDIA|Tesla|GeForce|Quadro|GRID)\s+", re.IGNORECASE)
_SERIES: Mapping[str, str] = {word.upper(): word for word in ("RTX", "PRO", "TITAN", "GTX", "DGX", "CMP", "Jetson")}
"""Words of a product's name before the family: the family of ``RTX PRO 6000`` includes them."""
_GENERATION = "Ada"
"""The word by which products have another generation than older ones of the same number: ``Quadro RTX 6000`` has half
of the memory of an ``RTX 6000 Ada``."""
_NO_NAME = "Graphics Device"
"""What a driver says of a card that it has no name for."""


def family_of(name: str) -> str:
    """The product family in a product's name, also as guests with a vGPU see it.

    >>> [family_of(name) for name in ("NVIDIA A100-SXM4-40GB", "GRID T4-16C", "NVIDIA RTX 6000 Ada Generation")]
    ['A100', 'T4', 'RTX-6000-Ada']
    """
    rest, previous = name.strip(), ""
    while rest != previous:
        previous, rest = rest, _BRANDS.sub("", rest)
    if rest.lower() == _NO_NAME.lower():
        return UNKNOWN
    family: list[str] = []
    words = rest.split()
    for word in words:
        series = _SERIES.get(word.upper(), "")
        family.append(series or (word if family else word.split("-")[0]))
        if not series:
            break
    return "-".join([*family, *([_GENERATION] if _GENERATION in words[len(family) :] else [])]) or UNKNOWN


def is_display(name: str) -> bool:
    """Whether a product is only there for a display, as that of a DGX Station. NVIDIA's own tools skip it, too."""
    return name in ("DGX Display", "NVIDIA DGX Display")


def architecture_of(gpu: GpuFacts) -> str:
    """The architecture's name, by NVML's number, or by the compute capability; ``unknown`` without both."""
    architecture, capability = if_read(gpu.architecture), if_read(gpu.capability)
    if architecture is not None and architecture in _ARCHITECTURES:
        return _ARCHITECTURES[architecture]
    if capability is None:
        return UNKNOWN
    return _OF_EXACT_CAPABILITY.get(capability) or _OF_CAPABILITY.get(capability[0], UNKNOWN)


def card_from(gpu: GpuFacts, system: SystemFacts, place: Place, domain: str, links: Mapping[int, int]) -> Card:
    """The card.

    Args:
        place: from the kernel.
        domain: see ``nvlink_domains``.
        links: see ``link_matrix``.
    """
    major, minor = if_read(gpu.capability) or (0, 0)
    name, memory, profiles = if_read(gpu.name) or "", if_read(gpu.memory_mib), gpu.partitioning
    return Card(
        index=gpu.number,
        uuid=gpu.uuid,
        vendor="nvidia",
        type=family_of(name),
        model=name or UNKNOWN,
        architecture=architecture_of(gpu),
        memory_mib=memory or 0,
        pci_bus_id=if_read(gpu.bus_id) or "",
        pcie_root=place.root,
        pcie_switch=place.switch,
        driver_version=if_read(system.driver_version) or UNKNOWN,
        numa_node=place.numa_node,
        nvlink_domain=domain,
        links=links,
        compute_capability=f"{major}.{minor}.0",
        cuda_version=if_read(system.cuda_version) or "0.0.0",
        scheme=scheme_of(gpu, family_of(name)),
        partitions_unread=profiles.why if isinstance(profiles, Unread) else "",
        memory_unread=gpu.memory_mib.why if isinstance(gpu.memory_mib, Unread) else "",
    )


def nvlink_domains(gpus: Iterable[GpuFacts]) -> Mapping[str, str]:
    """The NVLink domain of each card, by uuid; "" for a card without active links, or if these could not be read.

    In a fabric of several nodes, the domain is the fabric's clique. Elsewhere, cards that reach one another over links,
    through other cards or switches, are one domain. It is named after its first card, so that the domains of two nodes
    have different names.
    """
    cards = sorted(gpus, key=lambda gpu: gpu.uuid)
    domains = {gpu.uuid: if_read(gpu.fabric) or "" for gpu in cards}
    # A card whose fabric is not known may be in one.
    others = {gpu.uuid: gpu for gpu in cards if not domains[gpu.uuid] and not isinstance(gpu.fabric, Unread)}
    ends = {uuid: _ends(gpu) for uuid, gpu in others.items()}
    for uuid, gpu in others.items():
        if if_read(gpu.links) and not domains[uuid]:
            domains |= dict.fromkeys(_reached(uuid, ends), f"nvlink-{uuid.removeprefix('GPU-')}")
    return domains


def link_matrix(gpus: Iterable[GpuFacts], domains: Mapping[str, str]) -> Mapping[str, Mapping[int, int]]:
    """The number of NVLinks of each card, by uuid, to each card that it is linked to, by ``Card.index``.

    Only of cards whose domain does not say it all: some of its pairs have more links than others. Cards behind an
    NVSwitch reach all others alike. Nothing is said of a domain until the links of all its cards were read.

    Args:
        domains: see ``nvlink_domains``.
    """
    found: dict[str, Mapping[int, int]] = {}
    members: dict[str, list[GpuFacts]] = {}
    for gpu in gpus:
        members.setdefault(domains[gpu.uuid], []).append(gpu)
    for domain, cards in members.items():
        rows = {gpu.uuid: _row(gpu, cards) for gpu in cards} if domain else {}
        pairs = len(cards) * (len(cards) - 1)
        counts = [number for row in rows.values() if row is not None for number in row.values()]
        is_uniform = len(counts) == pairs and len(set(counts)) < 2
        if not is_uniform:
            found |= {uuid: row for uuid, row in rows.items() if row} if None not in rows.values() else {}
    return found


def _row(gpu: GpuFacts, cards: Iterable[GpuFacts]) -> Mapping[int, int] | None:
    """The links of a card to the others; None if they are not known, or one leads to something else than a card."""
    numbers = {if_read(other.bus_id) or "": other.number for other in cards}
    links = if_read(gpu.links)
    if links is None or not links.keys() <= numbers.keys():
        return None
    return {number: links[bus_id] for bus_id, number in numbers.items() if bus_id in links}


def _ends(gpu: GpuFacts) -> frozenset[str]:
    """The bus ids of a card and of what it is linked to."""
    own = if_read(gpu.bus_id)
    return frozenset(if_read(gpu.links) or ()) | ({own} if own else frozenset())


def _reached(start: str, ends: Mapping[str, frozenset[str]]) -> list[str]:
    reached = [start]
    for uuid in reached:
        reached += [other for other in ends if other not in reached and ends[other] & ends[uuid]]
    return reached
