"""Builds ``Card`` from the facts of NVML and of the kernel. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts, SystemFacts
from kubeletplugin.hardware.nvidia.schemes import scheme_of

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
    if gpu.architecture is not None and gpu.architecture in _ARCHITECTURES:
        return _ARCHITECTURES[gpu.architecture]
    if gpu.capability is None:
        return UNKNOWN
    return _OF_EXACT_CAPABILITY.get(gpu.capability) or _OF_CAPABILITY.get(gpu.capability[0], UNKNOWN)


def card_from(gpu: GpuFacts, system: SystemFacts, nvlink_domain: str, pcie_root: str, numa_node: int | None) -> Card:
    """The card.

    Args:
        nvlink_domain: see ``nvlink_domains``; ``pcie_root``, ``numa_node``: from the kernel, "" and None if unknown.
    """
    major, minor = gpu.capability or (0, 0)
    return Card(
        index=gpu.index if gpu.minor is None else gpu.minor,
        uuid=gpu.uuid,
        vendor="nvidia",
        type=family_of(gpu.name),
        model=gpu.name or UNKNOWN,
        architecture=architecture_of(gpu),
        memory_mib=gpu.memory_mib or 0,
        pci_bus_id=gpu.bus_id,
        pcie_root=pcie_root,
        driver_version=system.driver_version or UNKNOWN,
        numa_node=numa_node,
        nvlink_domain=nvlink_domain,
        compute_capability=f"{major}.{minor}.0",
        cuda_version=system.cuda_version or "0.0.0",
        scheme=scheme_of(gpu, family_of(gpu.name)),
    )


def nvlink_domains(gpus: Iterable[GpuFacts]) -> Mapping[str, str]:
    """The NVLink domain of each card, by uuid; "" for a card without active links.

    In a fabric of several nodes, the domain is the fabric's clique. Elsewhere, cards that reach one another over links,
    through other cards or switches, are one domain. It is named after its first card, so that the domains of two nodes
    have different names.
    """
    cards = sorted(gpus, key=lambda gpu: gpu.uuid)
    domains: dict[str, str] = {}
    for gpu in cards:
        if gpu.fabric:
            domains[gpu.uuid] = gpu.fabric
        elif gpu.uuid not in domains:
            name = f"nvlink-{gpu.uuid.removeprefix('GPU-')}" if gpu.peers else ""
            linked = _reached(gpu, cards) if gpu.peers else [gpu]
            domains |= {card.uuid: name for card in linked if not card.fabric}
    return domains


def _reached(start: GpuFacts, cards: Iterable[GpuFacts]) -> list[GpuFacts]:
    reached, rest = [start], [card for card in cards if card.uuid != start.uuid]
    for gpu in reached:
        ends = gpu.peers | {gpu.bus_id}
        near = [card for card in rest if ends & (card.peers | {card.bus_id})]
        reached += near
        rest = [card for card in rest if card not in near]
    return reached
