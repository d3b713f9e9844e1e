"""Finds the cards through NVML; a card is read once and kept while it stays the same."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from driver.errors import TransientFault
from kubeletplugin.hardware.asking import Ask, call_directly
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.nvidia.discovery import card_from, is_display, nvlink_domains
from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts, SystemFacts
from kubeletplugin.hardware.nvidia.nvml.instances import MigCard
from kubeletplugin.hardware.nvidia.nvml.library import Nvml
from kubeletplugin.hardware.nvidia.nvml.reading import count, read_gpu, read_identity, read_system
from kubeletplugin.hardware.nvidia.schemes import says_placements
from kubeletplugin.hardware.sysfs import Sysfs


@dataclass(frozen=True, slots=True)
class FoundCards:
    """The cards of the node now."""

    cards: tuple[Card, ...]
    """The cards in order of index, including lost ones that were found before, and without display cards."""
    gpus: Mapping[str, GpuFacts] = field(default_factory=dict)
    """The facts of each card from NVML, by uuid."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """The reason why a card is lost, by uuid."""
    unread: Mapping[int, str] = field(default_factory=dict)
    """The reason why a card could not be read and is left out, by NVML's index."""


class Finder:
    """Finds the cards. Thread-safe.

    The facts of a card do not change while the driver is loaded, and reading them takes tens of calls. So they are read
    when the card is first seen, and again when the driver's version or the card's number changes; and in MIG mode, as
    long as the driver has not said the placements of all instances.

    Args:
        ask: bounds the time of calls about one card.
    """

    def __init__(self, nvml: Nvml, sysfs: Sysfs, ask: Ask = call_directly):
        self._nvml = nvml
        self._sysfs = sysfs
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, tuple[SystemFacts, GpuFacts]] = {}

    def find(self) -> FoundCards:
        """The cards now.

        Raises:
            NvmlError: NVML answers nothing at all.
        """
        with self._lock:
            system = read_system(self._nvml)
            present: dict[str, GpuFacts] = {}
            unread: dict[int, str] = {}
            for index in range(count(self._nvml)):
                try:
                    gpu = self._ask(f"card {index}", partial(self._read, index, system))
                except TransientFault as error:
                    unread[index] = str(error)
                else:
                    present[gpu.uuid] = gpu
            lost = self._lost(present, unread)
            gpus = present | {identity: self._known[identity][1] for identity in lost}
            return FoundCards(self._cards(gpus, system), gpus, lost, unread)

    def known(self, uuid: str) -> GpuFacts | None:
        """The facts of a card; None if it was not found yet. Never waits for another card."""
        known = self._known.get(uuid)
        return known[1] if known else None

    def _read(self, index: int, system: SystemFacts) -> GpuFacts:
        identity, minor = read_identity(self._nvml, index)
        known = self._known.get(identity)
        if known and known[0] == system and (known[1].index, known[1].minor) == (index, minor):
            gpu = known[1]
            # In MIG mode the driver says the placements, so those of the manual count no longer.
            again = not says_placements(gpu) and MigCard(self._nvml, identity).mode()
            if not again:
                return gpu
        gpu = read_gpu(self._nvml, index)
        self._known[identity] = (system, gpu)
        return gpu

    def _lost(self, present: Mapping[str, GpuFacts], unread: dict[int, str]) -> Mapping[str, str]:
        """Cards found earlier that cannot be read now. Renumbered and removed cards are forgotten."""
        lost: dict[str, str] = {}
        for identity, (_, gpu) in list(self._known.items()):
            if identity in present:
                continue
            if gpu.index in unread:
                lost[identity] = unread.pop(gpu.index)
            else:
                del self._known[identity]
        return lost

    def _cards(self, gpus: Mapping[str, GpuFacts], system: SystemFacts) -> tuple[Card, ...]:
        domains = nvlink_domains(gpus.values())
        cards = [self._card(gpu, system, domains[gpu.uuid]) for gpu in gpus.values() if not is_display(gpu.name)]
        return tuple(sorted(cards, key=lambda card: card.index))

    def _card(self, gpu: GpuFacts, system: SystemFacts, domain: str) -> Card:
        way = self._sysfs.path_of(gpu.bus_id)
        return card_from(gpu, system, domain, way[0] if way else "", self._sysfs.numa_node(gpu.bus_id))
