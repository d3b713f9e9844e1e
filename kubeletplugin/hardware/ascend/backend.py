"""The backend of Ascend NPUs."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from driver.clock import Clock
from driver.errors import TransientFault
from driver.observe import Logger
from driver.parameters import GpuConfig
from kubeletplugin.hardware.actions import Action, Handle, VnpuInstance
from kubeletplugin.hardware.answer import if_read
from kubeletplugin.hardware.ascend import container, faults, npusmi, vnpus
from kubeletplugin.hardware.ascend.cards import Npu, npus_of
from kubeletplugin.hardware.ascend.dcmi import Dcmi, DcmiCode, DcmiError, Die
from kubeletplugin.hardware.ascend.dcmi.library import GONE, LACKING
from kubeletplugin.hardware.ascend.discovery import Discovery
from kubeletplugin.hardware.ascend.facts import Chip, Modes, Vnpu
from kubeletplugin.hardware.ascend.faults import Severities
from kubeletplugin.hardware.ascend.measuring import read_chip, read_with_tool
from kubeletplugin.hardware.ascend.watching import ChipHealth
from kubeletplugin.hardware.asking import Ask, call_directly
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.devices import DeviceFiles
from kubeletplugin.hardware.edits import Edits
from kubeletplugin.hardware.places import Places
from kubeletplugin.hardware.port import CardGone, CardState, Hardware, Health, InUse, NoRoom, Unsupported
from kubeletplugin.hardware.readings import Readings, together
from kubeletplugin.hardware.sysfs import Sysfs
from kubeletplugin.hardware.use import Use

DEFAULT_SEVERITIES = Severities()


@dataclass(frozen=True, slots=True)
class Host:
    """What the backend uses of the host besides DCMI."""

    sysfs: Sysfs
    devices: DeviceFiles
    clock: Clock
    root: str = "/"
    """Mount point of the host's file system, to see which of the driver's files it has."""
    npu_smi: npusmi.Run | None = None
    """Runs ``npu-smi``; None if it is not used."""


class AscendHardware(Hardware):
    """``Hardware`` with the NPUs that DCMI reports, or ``npu-smi`` if DCMI cannot be loaded.

    Args:
        ask: bounds the time of calls about one chip, so that a hanging chip does not hide the others.
    """

    def __init__(
        self,
        dcmi: Dcmi,
        host: Host,
        log: Logger,
        severities: Severities = DEFAULT_SEVERITIES,
        ask: Ask = call_directly,
    ):
        self._dcmi = dcmi
        self._discovery = Discovery(dcmi, host.clock, ask)
        self._watch = ChipHealth(dcmi, host.clock, severities, ask)
        self._tool = npusmi.NpuSmi(host.npu_smi, host.devices, host.clock) if host.npu_smi else None
        self._host = host
        self._log = log
        self._places = Places(host.sysfs)
        self._files: dict[str, str] = {}
        """What was known last of each chip's device file, by its hardware id; see ``_without_file``."""
        self._lock = threading.Lock()
        self._reported: frozenset[str] = frozenset()
        self._known: dict[str, Npu] = {}
        """The cards found last, by uuid."""
        self._silent: tuple[str, ...] = ()
        """Why there may be further cards."""

    def cards(self) -> tuple[Card, ...]:
        """See ``Hardware``. Problems are logged once."""
        return tuple(npu.card for npu in self._npus())

    def unread_cards(self) -> tuple[str, ...]:
        """See ``Hardware``."""
        with self._lock:
            return self._silent

    def health(self) -> Mapping[str, Health]:
        """See ``Hardware``. Reports the present faults of the chips, and what they did not answer."""
        return {npu.card.name: self._health(npu) for npu in self._npus()}

    def observe(self, card: Card) -> CardState:
        """See ``Hardware``."""
        npu = self._npu(card.uuid)
        try:
            found = [each for chip in npu.chips for each in vnpus.found_on(chip, self._vnpus(chip))]
            modes = self._discovery.modes(_die(npu.chips[0]))
        except DcmiError as error:
            if error.code != DcmiCode.NO_LIBRARY:
                raise _refusal(error, card.uuid) from error
            found, modes = [], Modes()
        return CardState(tuple(found), vnpus.excluded(npu, modes), vnpus.unread(npu, modes))

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        """See ``Hardware``: a vNPU for a partition, nothing for other devices."""
        npu = self._npu(use.card.uuid)
        if isinstance(use.config, GpuConfig):
            raise Unsupported(f"GpuConfig does not apply to card {npu.card.name}; remove it from the claim")
        if use.partition is None:
            return ()
        if len(npu.chips) > 1:
            raise Unsupported(f"card {npu.card.name} cannot be divided: its dies are given together")
        (chip,) = npu.chips
        return (vnpus.chosen(chip, npu.card, use.partition.profile, self._asked_vnpus(chip), taken),)

    def ensure(self, action: Action) -> Handle:
        """See ``Hardware``."""
        npu, chip, vnpu = self._vnpu(action)
        present = self._asked_vnpus(chip)
        if existing := _with_id(present, vnpu.id):
            if existing.template not in ("", vnpu.template):
                raise NoRoom(
                    f"vNPU {vnpu.id} exists already, and is of template {existing.template!r}; "
                    f"{vnpus.removal(chip, vnpu.id)}"
                )
            return vnpus.handle_of(vnpu.id)
        if npu.card.partitions_unread:
            raise TransientFault(
                f"card {npu.card.name}: its vNPU templates are not known: {npu.card.partitions_unread}"
            )
        if npu.card.scheme is None or not any(part.profile == vnpu.template for part in npu.card.scheme.partitions):
            raise Unsupported(f"card {npu.card.name} has no vNPU template {vnpu.template!r}")
        if lacking := vnpus.shortage(chip, npu.card, vnpu.template, present):
            raise NoRoom(lacking)
        self._create(chip, vnpu)
        return vnpus.handle_of(vnpu.id)

    def release(self, action: Action, handle: Handle | None) -> None:
        """See ``Hardware``."""
        _, chip, vnpu = self._vnpu(action)
        existing = _with_id(self._asked_vnpus(chip), vnpu.id)
        if existing is None or handle not in (None, vnpus.handle_of(vnpu.id)):
            return
        if existing.template not in ("", vnpu.template):
            return  # created by somebody else after ours was gone
        if existing.in_use:
            raise InUse(f"vNPU {vnpu.id} is used by a container")
        try:
            self._dcmi.destroy_vnpu(_die(chip), vnpu.id)
        except DcmiError as error:
            if _with_id(self._asked_vnpus(chip), vnpu.id) is None:
                return
            if error.code == DcmiCode.OCCUPIED:
                raise InUse(f"vNPU {vnpu.id} is in use: {error}") from error
            raise _refusal(error, chip.vdie) from error

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        """See ``Hardware``."""
        npu = self._npu(use.card.uuid)
        if use.partition is None or use.admin:
            files = [container.chip_file(chip.physical_id) for chip in npu.chips]
        else:
            files = [container.vnpu_file(int(handle["id"])) for handle in handles.values()]
        try:
            return container.edits(npu.generation, files, self._host.devices.find, self._has)
        except container.MissingDevice as error:
            raise CardGone(f"card {npu.card.name} ({npu.card.uuid}): the node has no device file {error}") from error

    def readings(self, card: Card) -> Readings:
        """See ``Hardware``. Of a card with vNPUs only its temperature and power."""
        npu = self._npu(card.uuid)
        try:
            divided = [bool(self._vnpus(chip)) for chip in npu.chips]
        except DcmiError as error:
            if error.code == DcmiCode.NO_LIBRARY and self._host.npu_smi is not None:
                return read_with_tool(self._host.npu_smi, npu.chips)
            raise _refusal(error, card.uuid) from error
        parts = zip(npu.chips, divided, strict=True)
        return together([read_chip(self._dcmi, _die(chip), divided=parted) for chip, parted in parts])

    def _create(self, chip: Chip, vnpu: VnpuInstance) -> None:
        try:
            made = self._dcmi.create_vnpu(_die(chip), vnpu.id, vnpu.template)
        except DcmiError as error:
            if _with_id(self._asked_vnpus(chip), vnpu.id):
                return  # an answer was lost, or another instance of this program was first
            raise _refusal(error, chip.vdie) from error
        if made != vnpu.id:
            self._dcmi.destroy_vnpu(_die(chip), made)
            raise NoRoom(f"the driver chose id {made} for vNPU {vnpu.id}; that id is not free")

    def _npus(self) -> tuple[Npu, ...]:
        try:
            node = self._discovery.node()
        except DcmiError as error:
            if error.code != DcmiCode.NO_LIBRARY or self._tool is None:
                raise
            self._report([f"{error}; cards are found with npu-smi, and cannot be divided"])
            node = self._tool.node()
        reasons = {chip.vdie: self._without_file(chip) for chip in node.chips}
        there = [chip for chip in node.chips if not reasons[chip.vdie]]
        missing = [f"chip {vdie}: {why}" for vdie, why in reasons.items() if why]
        places = {bus_id: self._places.place(bus_id) for chip in there if (bus_id := if_read(chip.bus_id))}
        found = npus_of(replace(node, chips=tuple(there)), places)
        self._report([*missing, *found.problems])
        with self._lock:
            self._known = {npu.card.uuid: npu for npu in found.npus}
            self._silent = (*found.silent, *missing)
        return found.npus

    def _npu(self, uuid: str) -> Npu:
        """The card. Other cards are read only if it is not known yet."""
        with self._lock:
            known = self._known.get(uuid)
        try:
            if known is not None and all(self._discovery.is_there(chip) for chip in known.chips):
                return known
            for npu in self._npus():
                if npu.card.uuid == uuid:
                    return npu
        except DcmiError as error:
            raise _refusal(error, uuid) from error
        if silent := self.unread_cards():
            raise TransientFault(f"card {uuid} is not among those that could be read: {'; '.join(silent)}")
        raise CardGone(f"card {uuid} is not there")

    def _vnpu(self, action: Action) -> tuple[Npu, Chip, VnpuInstance]:
        npu = self._npu(action.card)
        if not isinstance(action, VnpuInstance) or len(npu.chips) != 1:
            raise Unsupported(f"card {npu.card.name} cannot do this: {action.key}")
        return npu, npu.chips[0], action

    def _vnpus(self, chip: Chip) -> tuple[Vnpu, ...]:
        try:
            return self._dcmi.vnpus(_die(chip))
        except DcmiError as error:
            if error.code in LACKING:
                return ()
            raise

    def _asked_vnpus(self, chip: Chip) -> tuple[Vnpu, ...]:
        try:
            return self._vnpus(chip)
        except DcmiError as error:
            raise _refusal(error, chip.vdie) from error

    def _health(self, npu: Npu) -> Health:
        health = faults.worst([self._watch.health(chip) for chip in npu.chips])
        unread = [why for chip in npu.chips for why in (*chip.unread, *self._discovery.unread(_die(chip)))]
        return faults.with_unread(health, tuple(dict.fromkeys(unread)))

    def _without_file(self, chip: Chip) -> str:
        """Why containers cannot have the chip's device file; "" if they can, or could when it was looked at last."""
        try:
            why = "" if self._host.devices.find(chip.device) else f"the node has no device file /dev/{chip.device}"
        except OSError as error:
            return self._files.get(chip.vdie, f"its device file cannot be looked at: {error}")
        self._files[chip.vdie] = why
        return why

    def _has(self, path: str) -> bool:
        return (Path(self._host.root) / path.lstrip("/")).exists()

    def _report(self, problems: Sequence[str]) -> None:
        with self._lock:
            new = [problem for problem in problems if problem not in self._reported]
            self._reported = self._reported | frozenset(new)
        for problem in new:
            self._log.warning("Ascend NPU", problem=problem)


def _die(chip: Chip) -> Die:
    return Die(chip.card_id, chip.device_id)


def _with_id(present: Collection[Vnpu], number: int) -> Vnpu | None:
    return next((vnpu for vnpu in present if vnpu.id == number), None)


def _refusal(error: DcmiError, card: str) -> Exception:
    if error.code in GONE:
        return CardGone(f"card {card} does not answer: {error}")
    if error.code == DcmiCode.NOT_PERMITTED:
        return TransientFault(f"card {card}: {error}; vNPUs need a privileged pod (manifests/ascend)")
    if error.code in LACKING:
        return Unsupported(f"card {card}: {error}")
    return TransientFault(f"card {card}: {error}")
