"""The backend of NVIDIA's cards."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from driver.errors import TransientFault
from driver.kinds import EVERY_OFFER, Offer
from driver.observe import Logger
from driver.parameters import GpuConfig
from kubeletplugin.hardware.actions import (
    Action,
    HamiRegion,
    Handle,
    MigInstance,
    MigMode,
    MpsDaemon,
    TimeSlice,
)
from kubeletplugin.hardware.answer import LACKS, Unread, read
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.nvidia.devices import DeviceNodes
from kubeletplugin.hardware.nvidia.discovery import UNKNOWN
from kubeletplugin.hardware.nvidia.driverfiles import DriverFiles
from kubeletplugin.hardware.nvidia.found import Finder, FoundCards
from kubeletplugin.hardware.nvidia.health import HealthWatch
from kubeletplugin.hardware.nvidia.mig import MigPartitions, mode_needs_reset, placements_unknown, switches_in_place
from kubeletplugin.hardware.nvidia.nvml.facts import GpuFacts
from kubeletplugin.hardware.nvidia.nvml.library import LOST, Nvml, NvmlCode, NvmlError
from kubeletplugin.hardware.nvidia.nvml.measuring import read_measures
from kubeletplugin.hardware.nvidia.schemes import knows_placements
from kubeletplugin.hardware.nvidia.sharing.hami import HamiRegions
from kubeletplugin.hardware.nvidia.sharing.mps import MpsDaemons
from kubeletplugin.hardware.nvidia.sharing.timeslicing import TimeSlices
from kubeletplugin.hardware.partitions import Scheme
from kubeletplugin.hardware.port import CardGone, CardState, Hardware, Health, Unsupported
from kubeletplugin.hardware.readings import Readings
from kubeletplugin.hardware.silence import silent
from kubeletplugin.hardware.use import Use

MigUse = Literal["dynamic", "static"]
"""``dynamic``: instances are created for claims. ``static``: the instances that the operator created are offered."""
_VOID = ("NVIDIA_VISIBLE_DEVICES", "void")
"""Keeps NVIDIA's runtime from adding the cards that an image asks for: CUDA images ask for all cards."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The strategies of sharing, each with its state on the node."""

    slices: TimeSlices
    daemons: MpsDaemons
    regions: HamiRegions


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of the backend, which ``assembly`` puts together."""

    nvml: Nvml
    finder: Finder
    watch: HealthWatch
    nodes: DeviceNodes
    driver_files: DriverFiles
    sharing: Sharing


class NvidiaHardware(Hardware):
    """``Hardware`` of NVIDIA's cards, through NVML and the driver's files."""

    def __init__(self, parts: Parts, mig: MigUse, log: Logger):
        self._nvml = parts.nvml
        self._finder = parts.finder
        self._nodes = parts.nodes
        self._files = parts.driver_files
        self._sharing = parts.sharing
        self._watch = parts.watch
        self._mig = mig
        self._log = log
        self._reported: frozenset[str] = frozenset()
        self._incomplete: frozenset[str] = frozenset()
        self._schemes: dict[str, Scheme | None] = {}
        """The partitions of each card that were offered last, by uuid."""
        self._faults: dict[str, Mapping[str, Health]] = {}
        """The health of each card's partitions with faults as it was read last, by uuid."""
        self._without_nodes: dict[str, str] = {}
        """What was known last of each card's device nodes, by uuid; see ``_missing``."""
        self._unread: tuple[str, ...] = ()
        self._guessed: frozenset[str] = frozenset()
        """Uuids of the cards whose driver does not report the placements of MIG instances."""

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``. A card without device nodes is left out; a lost card stays."""
        found = self._finder.find()
        missing = {card.uuid: why for card in found.cards if (why := self._missing(card))}
        self._report(found, missing)
        away = found.lost.keys() | found.silent.keys()
        self._unread = (*_unread(found), *(why for uuid, why in missing.items() if uuid not in away))
        cards = (card for card in found.cards if card.uuid in away or card.uuid not in missing)
        return tuple(self._offered(card, found.gpus[card.uuid]) for card in cards)

    def unread_cards(self) -> tuple[str, ...]:
        """See ``Hardware``."""
        return self._unread

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``."""
        found = self._finder.find()
        of_cards, of_instances = self._watch.ask([card.uuid for card in found.cards])
        away = {uuid: Health("fatal", why, recovery="reboot") for uuid, why in found.lost.items()}
        away |= {uuid: silent(None, why, seconds) for uuid, (why, seconds) in found.silent.items()}
        health = {
            card.name: away[card.uuid] if card.uuid in away and of_cards[card.uuid].healthy else of_cards[card.uuid]
            for card in found.cards
        }
        faulty = {uuid for uuid, _ in of_instances}
        for card in found.cards:
            if card.uuid in faulty and card.uuid not in away:
                health |= self._of_instances(card, found.gpus[card.uuid], of_instances, health)
            if (why := found.incomplete.get(card.uuid)) and health[card.name] == Health():
                health[card.name] = Health(message=f"not everything about the card is known: {why}")
        return health

    def observe(self, card: Card) -> CardState:
        """See ``Hardware``."""
        with _answers(card.uuid):
            gpu = self._gpu(card.uuid)
            partitions = MigPartitions(self._nvml, gpu)
            mode, instances = partitions.mode(), partitions.found() if self._mig == "dynamic" else ()
            sharing = self._sharing
            kept = (finding.found(card.uuid) for finding in (sharing.slices, sharing.daemons, sharing.regions))
            found = (*instances, *(each for group in kept for each in group))
            return CardState(found, self._excluded(card, gpu, mode), self._unread_offers(gpu, mode))

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``Hardware``."""
        card, config = use.card, use.config or GpuConfig()
        if not isinstance(config, GpuConfig):
            raise Unsupported(f"{type(config).__name__} does not apply to card {card.name}; remove it from the claim")
        with _answers(card.uuid):
            gpu = self._gpu(card.uuid)
            partitions = MigPartitions(self._nvml, gpu)
            mode = partitions.mode()
            if use.partition is not None:
                return self._partition_actions(use, config, gpu, mode, taken)
            if mode:
                raise Unsupported(
                    f"card {card.name} is in MIG mode, so it cannot be used whole or shared; ask for a partition, or "
                    f"turn the mode off with nvidia-smi -i {card.uuid} -mig 0"
                )
            return self._sharing_actions(use, config)

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        with _answers(action.card):
            gpu = self._gpu(action.card)
            match action:
                case MigMode():
                    return MigPartitions(self._nvml, gpu).ensure_mode()
                case MigInstance():
                    return MigPartitions(self._nvml, gpu).ensure(action)
                case TimeSlice():
                    self._sharing.slices.ensure(action)
                case MpsDaemon():
                    self._sharing.daemons.ensure(action)
                case HamiRegion():
                    self._sharing.regions.check()
                    self._sharing.regions.ensure(action)
                case _:
                    raise Unsupported(f"{action.key}: NVIDIA's cards have nothing of this kind")
            return {}

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        with _answers(action.card):
            gpu = self._gpu(action.card)
            match action:
                case MigMode():
                    MigPartitions(self._nvml, gpu).release_mode()
                case MigInstance():
                    MigPartitions(self._nvml, gpu).release(action, handle)
                case TimeSlice():
                    self._sharing.slices.release(action)
                case MpsDaemon():
                    self._sharing.daemons.release(action)
                case HamiRegion():
                    self._sharing.regions.release(action)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``Hardware``."""
        card = use.card
        with _answers(card.uuid):
            gpu = self._gpu(card.uuid)
            handle = self._handle(use, gpu, handles)
            nodes = self._nodes.of_instance(card, handle) if handle else self._nodes.of_card(card)
            version = read(self._finder.driver_version())
            of_driver = self._files.edits(UNKNOWN if version is LACKS else version)
            own = self._sharing_edits(use)
            return replace(
                of_driver,
                env=(_VOID, *of_driver.env, *own.env),
                device_nodes=nodes,
                mounts=(*of_driver.mounts, *own.mounts),
                mig_uuid=handle.get("uuid", ""),
            )

    def readings(self, card: Card) -> Readings:
        """See ``Hardware``. In MIG mode a card has no utilization."""
        with _answers(card.uuid):
            self._gpu(card.uuid)
            return read_measures(self._nvml, card.uuid)

    def _gpu(self, uuid: str) -> GpuFacts:
        """The facts of a card that answers; raises Gone, TransientFault if it was not read, or NvmlError."""
        try:
            self._nvml.call("nvmlDeviceGetUUID", self._nvml.device(uuid))
        except NvmlError as error:
            if error.code in (NvmlCode.NOT_FOUND, NvmlCode.INVALID_ARGUMENT):
                raise CardGone(f"card {uuid} is not there: {error}") from error
            raise
        if known := self._finder.known(uuid):
            return known
        found = self._finder.find()
        if uuid in found.gpus:
            return found.gpus[uuid]
        if found.unread:
            raise TransientFault(f"card {uuid} is not known yet: {'; '.join(_unread(found))}")
        raise CardGone(f"card {uuid} is not there")

    def _of_instances(
        self, card: Card, gpu: GpuFacts, faults: Mapping[tuple[str, int], Health], health: Mapping[str, Health]
    ) -> Mapping[str, Health]:
        """Health of the partitions of a card whose instances have faults, by name; as it was before while the card does
        not answer, and that of the card if it was not known before."""
        try:
            found = MigPartitions(self._nvml, gpu).found()
        except TransientFault as fault:
            why = f"a MIG instance has a fault, and which one it is cannot be read: {fault}"
            unknown = {card.name: Health("unknown", why, away=True)} if health[card.name].healthy else {}
            return self._faults.get(card.uuid, unknown)
        numbers = {
            (each.action.profile, each.action.start): int(each.handle["gpuInstance"])
            for each in found
            if isinstance(each.action, MigInstance) and each.complete
        }
        self._watch.forget_others(card.uuid, frozenset(numbers.values()))
        self._faults[card.uuid] = {
            card.part_name(part): faults[card.uuid, number]
            for part in (card.scheme.partitions if card.scheme else ())
            if (number := numbers.get((part.profile, part.slot))) is not None and (card.uuid, number) in faults
        }
        return self._faults[card.uuid]

    def _offered(self, card: Card, gpu: GpuFacts) -> Card:
        """The card as offered: without partitions while MIG mode is off and needs a reset to be turned on, and with
        static MIG only with the existing instances. While the card does not say which these are, with those of before.
        """
        if card.scheme is None:
            return card
        try:
            scheme = self._schemes[card.uuid] = self._possible(card.scheme, gpu)
        except TransientFault as fault:
            if card.uuid not in self._schemes:
                return replace(card, scheme=None, partitions_unread=str(fault))
            scheme = self._schemes[card.uuid]
        return replace(card, scheme=scheme)

    def _possible(self, scheme: Scheme, gpu: GpuFacts) -> Scheme | None:
        """The partitions of the scheme that can be had now; raises TransientFault while that is not known."""
        if self._mig == "dynamic" and switches_in_place(gpu):
            return scheme
        partitions = MigPartitions(self._nvml, gpu)
        if self._mig == "dynamic":
            return scheme if partitions.mode() else None
        found = partitions.found()
        places = {(a.profile, a.start) for each in found if isinstance(a := each.action, MigInstance) and each.complete}
        parts = tuple(part for part in scheme.partitions if (part.profile, part.slot) in places)
        return replace(scheme, partitions=parts) if parts else None

    def _missing(self, card: Card) -> str:
        """Why containers cannot have the card's device nodes; "" if they can. What was seen last holds."""
        try:
            why = self._without_nodes[card.uuid] = self._nodes.missing(card)
        except TransientFault as fault:
            return self._without_nodes.get(card.uuid, str(fault))
        return why

    def _excluded(self, card: Card, gpu: GpuFacts, mode: bool | None) -> Mapping[Offer, str]:
        if missing := self._nodes.missing(card):
            return dict.fromkeys(EVERY_OFFER, missing)
        excluded: dict[Offer, str] = {}
        if mode and self._mig == "static":
            reason = f"the card is in MIG mode; turn it off with nvidia-smi -i {card.uuid} -mig 0"
            excluded = {"whole": reason, "share": reason}
        profiles = gpu.partitioning
        is_divided = profiles is not LACKS and not isinstance(profiles, Unread) and bool(profiles)
        if is_divided and (why := self._not_divisible(gpu, mode)):
            excluded["partitions"] = why
        if not card.memory_mib and not isinstance(gpu.memory_mib, Unread):
            excluded["share"] = "the driver does not say how much memory the card has"
        return excluded

    def _unread_offers(self, gpu: GpuFacts, mode: bool | None) -> Mapping[Offer, str]:
        """The offers that depend on facts that were never read, each with the call that failed."""
        unread: dict[Offer, str] = {}
        if isinstance(gpu.partitioning, Unread):
            unread["partitions"] = f"the card's partitions: {gpu.partitioning.why}"
        elif gpu.partitioning not in (LACKS, ()) and self._turns_on(mode) and isinstance(gpu.capability, Unread):
            unread["partitions"] = f"how MIG mode is turned on: {gpu.capability.why}"
        if isinstance(gpu.memory_mib, Unread):
            unread["share"] = f"the card's memory: {gpu.memory_mib.why}"
        return unread

    def _turns_on(self, mode: bool | None) -> bool:
        """Whether MIG mode has to be turned on for a claim."""
        return mode is False and self._mig == "dynamic"

    def _not_divisible(self, gpu: GpuFacts, mode: bool | None) -> str:
        """Why a card with profiles cannot have partitions now; "" if it can, or if that is not known."""
        if self._turns_on(mode):
            if isinstance(gpu.capability, Unread):
                return ""
            if not switches_in_place(gpu):
                return mode_needs_reset(gpu)
        return "" if knows_placements(gpu) else placements_unknown(gpu)

    def _partition_actions(
        self, use: Use, config: GpuConfig, gpu: GpuFacts, mode: bool | None, taken: Collection[str]
    ) -> tuple[Action, ...]:
        if config.sharing != "none":
            raise Unsupported(
                f"sharing {config.sharing} does not apply to a partition of card {use.card.name}; use sharing none"
            )
        if self._mig == "static" or use.partition is None:
            return ()
        read(gpu.partitioning)
        switch = MigMode(gpu.uuid)
        if not mode and not switches_in_place(gpu):
            raise Unsupported(mode_needs_reset(gpu))
        instance = MigInstance(gpu.uuid, use.partition.profile, use.partition.slot)
        return (switch, instance) if not mode or switch.key in taken else (instance,)

    def _sharing_actions(self, use: Use, config: GpuConfig) -> tuple[Action, ...]:
        card = use.card.uuid
        match config.sharing:
            case "timeSlicing":
                return (TimeSlice(card, config.interval or "default"),)
            case "mps":
                return (MpsDaemon(card),)
            case "hamiCore":
                if use.share is None:
                    raise Unsupported(
                        "sharing hamiCore limits shares only; ask for a share of a card, or use sharing none"
                    )
                self._sharing.regions.check()
                return (HamiRegion((use.cards_of_request or (card,))[0], use.claim),)
            case _:
                return ()

    def _sharing_edits(self, use: Use) -> Edits:
        config = use.config or GpuConfig()
        if config.sharing == "mps":
            return self._sharing.daemons.edits(use.card.uuid, use.share)
        if config.sharing == "hamiCore" and use.share is not None:
            together = use.cards_of_request or (use.card.uuid,)
            return self._sharing.regions.edits(use.claim, use.share, use.card.uuid, together)
        return Edits()

    def _handle(self, use: Use, gpu: GpuFacts, handles: Mapping[str, Handle]) -> Handle:
        partition = use.partition
        if partition is None:
            return {}
        action = MigInstance(gpu.uuid, partition.profile, partition.slot)
        handle = handles.get(action.key) or MigPartitions(self._nvml, gpu).handle_of(partition.profile, partition.slot)
        if handle is None and not use.admin:
            raise CardGone(f"{action.key}: the instance does not exist")
        return handle or {}

    def _report(self, found: FoundCards, missing: Mapping[str, str]) -> None:
        """Log faults of cards, and facts that their driver does not report, when they change."""
        reasons = {f"card {index}: {why}" for index, why in found.unread.items()}
        reasons |= {f"card {uuid}: {why}" for uuid, why in {**missing, **found.lost}.items()}
        reasons |= {f"card {uuid}: {why}" for uuid, (why, _) in found.silent.items()}
        if new := reasons - self._reported:
            self._log.warning("cards that cannot be used", reasons=sorted(new))
        self._reported = frozenset(reasons)
        incomplete = frozenset(f"card {uuid}: {why}" for uuid, why in found.incomplete.items())
        if asked := incomplete - self._incomplete:
            self._log.warning("not everything about cards is known; it is asked again", reasons=sorted(asked))
        self._incomplete = incomplete
        if unsaid := found.guessed - self._guessed:
            self._log.warning("placements of MIG instances are those of NVIDIA's manual", cards=sorted(unsaid))
        self._guessed = found.guessed


def _unread(found: FoundCards) -> tuple[str, ...]:
    """Why cards could not be read."""
    return tuple(f"card {index}: {why}" for index, why in found.unread.items())


@contextmanager
def _answers(card: str) -> Iterator[None]:
    """Raise Gone for a card that NVML has lost, and TransientFault for every other error."""
    try:
        yield
    except NvmlError as error:
        if error.code in LOST:
            raise CardGone(f"card {card}: {error}") from error
        raise TransientFault(f"card {card}: {error}") from error
