"""Finds the cards through NVML; a card is read once and kept while it stays the same."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from driver.backoff import delay
from driver.clock import Clock
from driver.errors import TransientFault
from kubeletplugin.hardware.answer import LACKS, Answer, Unread, if_read, kept_facts, unread_in
from kubeletplugin.hardware.asking import Ask, call_directly
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.nvidia.discovery import card_from, is_display, link_matrix, nvlink_domains
from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts, SystemFacts
from kubeletplugin.hardware.nvidia.nvml.library import LOST, Nvml, NvmlError
from kubeletplugin.hardware.nvidia.nvml.reading import count, is_divided, read_gpu, read_identity, read_system
from kubeletplugin.hardware.nvidia.schemes import knows_placements, says_placements
from kubeletplugin.hardware.place import Place
from kubeletplugin.hardware.places import Places
from kubeletplugin.hardware.sysfs import Sysfs

_AGAIN_SECONDS = 1.0
_LONGEST_AGAIN_SECONDS = 60.0
"""The first and the longest pause before a card is read again of which something was not answered twice."""


@dataclass(frozen=True, slots=True)
class FoundCards:
    """The cards of the node now."""

    cards: tuple[Card, ...]
    """The cards in order of index, including lost ones that were found before, and without display cards."""
    gpus: Mapping[str, GpuFacts] = field(default_factory=dict)
    """The facts of each card from NVML, by uuid."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """The reason why a card is lost, by uuid: NVML says so, or whoever asks it waits."""
    silent: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """The reason why a card that was found before could not be read this time, and for how many seconds it has not been
    read, by uuid. Nothing is learned of it."""
    unread: Mapping[int, str] = field(default_factory=dict)
    """The reason why a card could not be read and is left out, by NVML's index."""
    guessed: frozenset[str] = frozenset()
    """Uuids of the cards whose driver does not say where MIG instances can be."""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """The calls that were not answered when a card was read last, by uuid. What they would have said is as it was
    known before, or not known."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The facts of a card, and how it was read."""

    system: SystemFacts
    gpu: GpuFacts
    unread: tuple[str, ...] = ()
    """The reasons of what was not answered when it was read last."""
    failures: int = 0
    """How often in a row something was not answered."""
    again: float = 0.0
    """Time from which it is read again, if something was not answered."""
    divided: bool = False
    """Whether it was read while MIG mode was on."""


class Finder:
    """Finds the cards. Thread-safe.

    The facts of a card do not change while the driver is loaded, and reading them takes tens of calls. So they are read
    when the card is first seen, and again when the driver's version or the card's number changes; and once in MIG mode,
    if the driver has not said the placements of all instances. What was not answered is asked again at the next look,
    and after that with growing pauses; meanwhile it is as it was known before.

    Args:
        ask: bounds the time of calls about one card.
    """

    def __init__(self, nvml: Nvml, sysfs: Sysfs, clock: Clock, ask: Ask = call_directly):
        self._nvml = nvml
        self._places = Places(sysfs)
        self._clock = clock
        self._ask = ask
        self._lock = threading.Lock()
        self._system: SystemFacts | None = None
        self._known: dict[str, _Known] = {}
        self._silent: dict[str, float] = {}
        """Since when cards could not be read, by uuid; seconds of ``Clock.monotonic``."""

    def find(self) -> FoundCards:
        """The cards now.

        Raises:
            NvmlError: NVML answers nothing at all.
        """
        with self._lock:
            now = read_system(self._nvml)
            system = self._system = kept_facts(self._system, now) if self._system else now
            present: dict[str, GpuFacts] = {}
            unread: dict[int, TransientFault] = {}
            for index in range(count(self._nvml)):
                try:
                    gpu = self._ask(f"card {index}", partial(self._read, index, system))
                except TransientFault as error:
                    unread[index] = error
                else:
                    present[gpu.uuid] = gpu
            away = self._away(present, unread)
            lost = {uuid: str(error) for uuid, error in away.items() if _is_lost(error)}
            silent = self._silences({uuid: str(error) for uuid, error in away.items() if uuid not in lost})
            gpus = present | {uuid: self._known[uuid].gpu for uuid in away}
            incomplete = {
                uuid: "; ".join(reasons) for uuid in gpus if (reasons := (*unread_in(now), *self._known[uuid].unread))
            }
            guesses = (uuid for uuid, gpu in gpus.items() if knows_placements(gpu) and not says_placements(gpu))
            return FoundCards(
                self._cards(gpus, system),
                gpus,
                lost,
                silent,
                {index: str(error) for index, error in unread.items()},
                guessed=frozenset(guesses),
                incomplete=incomplete,
            )

    def known(self, uuid: str) -> GpuFacts | None:
        """The facts of a card; None if it was not found yet. Never waits for another card."""
        known = self._known.get(uuid)
        return known.gpu if known else None

    def driver_version(self) -> Answer[str]:
        """The version of the driver, as far as it is known."""
        return self._system.driver_version if self._system else Unread("the driver's version was not asked for yet")

    def _read(self, index: int, system: SystemFacts) -> GpuFacts:
        uuid, answer = read_identity(self._nvml, index)
        known = self._known.get(uuid)
        if isinstance(answer, Unread):
            if known is None:  # another card's device node must not be taken for its own
                raise TransientFault(answer.why)
            minor = known.gpu.minor
        else:
            minor = None if answer is LACKS else answer
        is_same = known is not None and (known.system, known.gpu.index, known.gpu.minor) == (system, index, minor)
        if known is not None and is_same and not self._is_due(known):
            return known.gpu
        read = read_gpu(self._nvml, index, uuid, minor)
        gpu, unread = kept_facts(known.gpu, read) if known else read, unread_in(read)
        failures = (known.failures if known else 0) + 1 if unread else 0
        again = self._clock.monotonic() + delay(failures - 1, base=_AGAIN_SECONDS, bound=_LONGEST_AGAIN_SECONDS)
        divided = not says_placements(gpu) and is_divided(self._nvml, index) is True
        self._known[uuid] = _Known(system, gpu, unread, failures=failures, again=again, divided=divided)
        return gpu

    def _is_due(self, known: _Known) -> bool:
        """Whether a card is to be read again: something was not answered, or its driver may say more now, because MIG
        mode was turned on."""
        if known.unread and self._clock.monotonic() >= known.again:
            return True
        return not says_placements(known.gpu) and not known.divided and is_divided(self._nvml, known.gpu.index) is True

    def _away(self, present: Mapping[str, GpuFacts], unread: dict[int, TransientFault]) -> Mapping[str, TransientFault]:
        """Cards found earlier that cannot be read now. Renumbered and removed cards are forgotten."""
        away: dict[str, TransientFault] = {}
        for uuid, known in list(self._known.items()):
            if uuid in present:
                continue
            if known.gpu.index in unread:
                away[uuid] = unread.pop(known.gpu.index)
            else:
                del self._known[uuid]
        return away

    def _silences(self, reasons: Mapping[str, str]) -> Mapping[str, tuple[str, float]]:
        """Each reason with for how long its card has not been read. The silence of all other cards has ended."""
        time = self._clock.monotonic()
        self._silent = {uuid: self._silent.get(uuid, time) for uuid in reasons}
        return {uuid: (why, time - self._silent[uuid]) for uuid, why in reasons.items()}

    def _cards(self, gpus: Mapping[str, GpuFacts], system: SystemFacts) -> tuple[Card, ...]:
        domains = nvlink_domains(gpus.values())
        matrix = link_matrix(gpus.values(), domains)
        cards = [
            card_from(gpu, system, self._place(gpu), domains[gpu.uuid], matrix.get(gpu.uuid, {}))
            for gpu in gpus.values()
            if not is_display(if_read(gpu.name) or "")
        ]
        return tuple(sorted(cards, key=lambda card: card.index))

    def _place(self, gpu: GpuFacts) -> Place:
        bus_id = if_read(gpu.bus_id)
        return self._places.place(bus_id) if bus_id else Place()


def _is_lost(error: TransientFault) -> bool:
    return not isinstance(error, NvmlError) or error.code in LOST
