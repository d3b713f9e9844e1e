"""Finds the chips of the node through DCMI. A chip that cannot be read is reported, and the others are found."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from driver.clock import Clock
from driver.errors import TransientFault
from kubeletplugin.hardware.answer import LACKS, Answer, Unread, if_read
from kubeletplugin.hardware.ascend.cards import Node
from kubeletplugin.hardware.ascend.dcmi import Dcmi, DcmiCode, DcmiError, Die
from kubeletplugin.hardware.ascend.dcmi.library import GONE
from kubeletplugin.hardware.ascend.facts import Chip, Modes
from kubeletplugin.hardware.asking import Ask, call_directly
from kubeletplugin.hardware.known_answers import KnownAnswers

_NO_SUPER_POD = 0xFFFFFFFF
_NODE = "node"


class Discovery:
    """The chips of a node. Thread-safe.

    Permanent facts of a chip are asked until they are read. A chip that does not answer for a moment stays as it was;
    one that DCMI says is gone is left out.

    Args:
        ask: bounds the time of calls about one chip.
    """

    def __init__(self, dcmi: Dcmi, clock: Clock, ask: Ask = call_directly):
        self._dcmi = dcmi
        self._ask = ask
        self._known = KnownAnswers(clock)
        self._lock = threading.Lock()
        self._chips: dict[Die, Chip] = {}
        """The chips found last, by DCMI's name."""

    def node(self) -> Node:
        """Find the chips of the node.

        Raises:
            TransientFault: DCMI does not answer, and has never said which cards there are.
        """
        counts, problems, silent = self._counts()
        dies = [Die(card, device) for card, count in counts.items() for device in range(count)]
        chips: list[Chip] = []
        for die in dies:
            try:
                chips.append(self._ask(_name(die), partial(self._chip, die)))
            except TransientFault as error:
                problem = f"{_name(die)}: {error}"
                if known := self._unless_gone(die, error):
                    chips.append(replace(known, silent=str(error)))
                elif not _is_gone(error) or _is_not_ready(error):
                    silent.append(problem)
                problems.append(problem)
        chips = [replace(chip, linked=self._linked(chip, chips)) for chip in chips]
        with self._lock:
            self._chips = {Die(chip.card_id, chip.device_id): chip for chip in chips}
        version, independent = self._of_node()
        return Node(tuple(chips), counts, version, independent, faults=tuple(problems), silent=tuple(silent))

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
            DcmiError: the chip is gone.
        """
        dcmi, known = self._dcmi, self._known
        return Modes(
            known.latest(die, "share", partial(dcmi.ask, dcmi.is_shared, die)),
            known.latest(die, "vnpu mode", partial(dcmi.ask, dcmi.divides_for_machines)),
            known.latest(die, "work mode", partial(dcmi.ask, dcmi.is_symmetric, die.card)),
        )

    def unread(self, die: Die) -> tuple[str, ...]:
        """Which of its modes the chip did not tell the last time: calls and codes."""
        return self._known.unread(die)

    def _counts(self) -> tuple[dict[int, int], list[str], list[str]]:
        """The number of chips of each card; messages for cards that did not say it, and for those that never did."""
        dcmi, known = self._dcmi, self._known
        cards = known.latest(_NODE, "cards", partial(dcmi.ask, dcmi.cards))
        if cards is LACKS:
            raise TransientFault("DCMI: dcmi_get_card_list: the driver lacks this function")
        if isinstance(cards, Unread):
            raise TransientFault(cards.why)
        counts: dict[int, int] = {}
        problems = list(known.unread(_NODE))
        silent: list[str] = []
        for card in cards:
            try:
                count = known.latest(("card", card), "chips", partial(dcmi.ask, dcmi.chips_on, card))
            except DcmiError as error:  # it is gone, or not ready
                problems.append(f"card {card}: {error}")
                if _is_not_ready(error):
                    silent.append(problems[-1])
                continue
            problems += [f"card {card}: {why}" for why in known.unread(("card", card))]
            if count is LACKS or isinstance(count, Unread):
                silent += [f"card {card}: {why}" for why in known.unread(("card", card))]
            else:
                counts[card] = count
        return counts, problems, silent

    def _unless_gone(self, die: Die, error: TransientFault) -> Chip | None:
        """The chip as it was known, unless the library says that it is gone."""
        with self._lock:
            return None if _is_gone(error) else self._chips.get(die)

    def _chip(self, die: Die) -> Chip:
        dcmi = self._dcmi
        vdie, physical_id = dcmi.vdie(die), dcmi.physical_id(die)
        fact = partial(self._known.fact, (die, vdie, physical_id))
        named = fact("chip info", partial(dcmi.ask, dcmi.chip_name, die))
        if named is LACKS:
            raise TransientFault("DCMI: the driver does not say what chip it is")
        if isinstance(named, Unread):
            raise TransientFault(named.why)
        name, aicore = named
        super_pod: Answer[int] = fact("super pod", partial(dcmi.ask, dcmi.super_pod, die))
        hbm: Answer[int] = fact("hbm", partial(dcmi.ask, dcmi.high_bandwidth_memory, die))
        has_hbm = hbm is not LACKS and not isinstance(hbm, Unread) and hbm > 0
        return Chip(
            die.card,
            die.device,
            physical_id,
            vdie,
            name,
            board_id=fact("board", partial(dcmi.ask, dcmi.board_id, die)),
            aicore=aicore,
            hbm_mib=hbm,
            ddr_mib=LACKS if has_hbm else fact("memory", partial(dcmi.ask, dcmi.memory, die)),
            bus_id=fact("bus id", partial(dcmi.ask, dcmi.bus_id, die)),
            super_pod=LACKS if super_pod == _NO_SUPER_POD else super_pod,
            templates=fact("templates", partial(dcmi.ask, dcmi.templates, die.card)),
            resources=fact("resources", partial(dcmi.ask, dcmi.resources, die)),
        )

    def _linked(self, chip: Chip, chips: Sequence[Chip]) -> Answer[frozenset[str]]:
        """The chips that this one is linked to; no answer as long as one of them is missing."""
        answers = {other.vdie: self._are_linked(chip, other) for other in chips if other is not chip}
        unread = [answer for answer in answers.values() if isinstance(answer, Unread)]
        if unread or all(answer is LACKS for answer in answers.values()):
            return unread[0] if unread else LACKS
        return frozenset(vdie for vdie, answer in answers.items() if answer is True)

    def _are_linked(self, one: Chip, other: Chip) -> Answer[bool]:
        first, second = sorted((Die(chip.card_id, chip.device_id), chip.vdie) for chip in (one, other))
        question = partial(self._dcmi.ask, self._dcmi.is_linked, first[0], second[0])
        try:
            return self._ask(_name(first[0]), partial(self._known.fact, (first, second), "linked", question))
        except TransientFault as error:
            return Unread(str(error))

    def _of_node(self) -> tuple[str, Answer[bool]]:
        """The version of the driver, and whether the dies of a 910C are given alone."""
        dcmi, known = self._dcmi, self._known
        version = known.fact(_NODE, "driver version", partial(dcmi.ask, dcmi.driver_version))
        independent = known.latest(_NODE, "dies", partial(dcmi.ask, dcmi.dies_are_independent))
        return if_read(version) or "", independent


def _is_gone(error: TransientFault) -> bool:
    return isinstance(error, DcmiError) and error.code in GONE


def _is_not_ready(error: TransientFault) -> bool:
    """Whether the chip may come: so it answers for a while when its driver starts. Later, that is a fault of it."""
    return isinstance(error, DcmiError) and error.code == DcmiCode.NOT_READY


def _name(die: Die) -> str:
    return f"card {die.card}, chip {die.device}"
