"""Finds the chips of the node through DCMI. A chip that cannot be read is reported, and the others are found."""

import threading
from functools import partial

from driver.errors import TransientFault
from kubeletplugin.hardware.ascend.cards import Node
from kubeletplugin.hardware.ascend.dcmi import Dcmi, DcmiCode, DcmiError, Die
from kubeletplugin.hardware.ascend.dcmi.library import LACKING
from kubeletplugin.hardware.ascend.facts import Chip, Modes, Resources
from kubeletplugin.hardware.asking import Ask, call_directly

_NO_SUPER_POD = 0xFFFFFFFF


class Discovery:
    """The chips of a node. Permanent facts of a chip are read once. Thread-safe.

    Args:
        ask: bounds the time of calls about one chip.
    """

    def __init__(self, dcmi: Dcmi, ask: Ask = call_directly):
        self._dcmi = dcmi
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[tuple[Die, str, int], Chip] = {}
        """The chips by DCMI's name, hardware id and number of the device file."""
        self._version: str | None = None

    def node(self) -> Node:
        """Find the chips of the node.

        Raises:
            DcmiError: DCMI does not answer.
        """
        dies, faults = self._dcmi.dies()
        chips, problems = [], list(faults)
        for die in dies:
            try:
                chips.append(self._ask(_name(die), partial(self._chip, die)))
            except TransientFault as error:
                problems.append(f"card {die.card}, chip {die.device}: {error}")
        counts = {die.card: sum(other.card == die.card for other in dies) for die in dies}
        return Node(tuple(chips), counts, self._driver_version(), self._independent(), tuple(problems))

    def is_there(self, chip: Chip) -> bool:
        """Whether the chip is still where it was found; True where DCMI cannot be loaded.

        Raises:
            DcmiError: it does not answer.
        """
        die = Die(chip.card_id, chip.device_id)
        try:
            return (self._dcmi.vdie(die), self._dcmi.physical_id(die)) == (chip.vdie, chip.physical_id)
        except DcmiError as error:
            if error.code == DcmiCode.NO_LIBRARY:
                return True
            raise

    def modes(self, die: Die) -> Modes:
        """The modes of a chip, which an operator can change at any time.

        Raises:
            DcmiError: the chip does not answer.
        """
        dcmi = self._dcmi
        unknown: bool | None = None
        return Modes(
            dcmi.ask(unknown, dcmi.is_shared, die),
            dcmi.ask(unknown, dcmi.divides_for_machines),
            dcmi.ask(unknown, dcmi.is_symmetric, die.card),
        )

    def _chip(self, die: Die) -> Chip:
        vdie, physical_id = self._dcmi.vdie(die), self._dcmi.physical_id(die)
        key = (die, vdie, physical_id)
        with self._lock:
            known = self._known.get(key)
        chip = known or self._read(die, vdie, physical_id)
        with self._lock:
            self._known[key] = chip
        return chip

    def _read(self, die: Die, vdie: str, physical_id: int) -> Chip:
        dcmi = self._dcmi
        name, aicore = dcmi.chip_name(die)
        super_pod = dcmi.ask(_NO_SUPER_POD, dcmi.super_pod, die)
        return Chip(
            die.card,
            die.device,
            physical_id,
            vdie,
            name,
            board_id=dcmi.ask(-1, dcmi.board_id, die),
            aicore=aicore,
            memory_mib=dcmi.ask(0, dcmi.high_bandwidth_memory, die) or dcmi.ask(0, dcmi.memory, die),
            bus_id=dcmi.ask("", dcmi.bus_id, die),
            super_pod=None if super_pod == _NO_SUPER_POD else super_pod,
            templates=dcmi.ask(None, dcmi.templates, die.card),
            resources=dcmi.ask(Resources(), dcmi.resources, die),
        )

    def _driver_version(self) -> str:
        if self._version is None:
            self._version = self._dcmi.ask(None, self._dcmi.driver_version)
        return self._version or ""

    def _independent(self) -> bool:
        try:
            return self._dcmi.dies_are_independent()
        except DcmiError as error:
            if error.code not in LACKING:
                raise
            return False  # drivers without this policy give no die alone


def _name(die: Die) -> str:
    return f"card {die.card}, chip {die.device}"
