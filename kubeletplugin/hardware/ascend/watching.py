"""Watches the health of chips. What was known of a chip holds while it does not answer."""

import threading

from driver.clock import Clock
from driver.errors import TransientFault
from kubeletplugin.hardware.answer import LACKS, Answer, Unread
from kubeletplugin.hardware.ascend import faults
from kubeletplugin.hardware.ascend.dcmi import Dcmi, DcmiCode, DcmiError, Die
from kubeletplugin.hardware.ascend.dcmi.library import GONE
from kubeletplugin.hardware.ascend.facts import ActiveFault, Chip
from kubeletplugin.hardware.ascend.faults import Severities
from kubeletplugin.hardware.asking import Ask
from kubeletplugin.hardware.port import Health
from kubeletplugin.hardware.silence import silent

_NOT_THERE = 0xFFFFFFFF
_LEVEL_UNKNOWN = len(faults.LEVELS)

Faults = Answer[tuple[ActiveFault, ...]]


class ChipHealth:
    """The health of chips, as DCMI says it. Thread-safe.

    Args:
        ask: bounds the time of calls about one chip.
    """

    def __init__(self, dcmi: Dcmi, clock: Clock, severities: Severities, ask: Ask):
        self._dcmi = dcmi
        self._clock = clock
        self._severities = severities
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, Health] = {}
        """What each chip said last, by its hardware id."""
        self._silent: dict[str, float] = {}
        """Since when chips do not answer, by hardware id; seconds of ``Clock.monotonic``."""

    def health(self, chip: Chip) -> Health:
        """The health of a chip now."""
        if chip.silent:
            return self._without_answer(chip, chip.silent)
        try:
            active = self._ask(f"chip {chip.vdie}", lambda: self._faults(Die(chip.card_id, chip.device_id)))
        except DcmiError as error:
            if error.code == DcmiCode.NO_LIBRARY:
                return self._answered(chip, Health())  # npu-smi found the chip, and nothing watches it
            if error.code in GONE:
                return self._answered(chip, faults.LOST)
            return self._without_answer(chip, str(error))
        except TransientFault as fault:  # it hangs, and whoever uses it waits
            return Health("fatal", str(fault))
        if isinstance(active, Unread):
            return self._without_answer(chip, active.why)
        health = faults.UNKNOWN if active is LACKS else faults.health_of(active, self._severities)
        return self._answered(chip, health)

    def _answered(self, chip: Chip, health: Health) -> Health:
        with self._lock:
            self._known[chip.vdie] = health
            self._silent.pop(chip.vdie, None)
        return health

    def _without_answer(self, chip: Chip, why: str) -> Health:
        now = self._clock.monotonic()
        with self._lock:
            since = self._silent.setdefault(chip.vdie, now)
            return silent(self._known.get(chip.vdie), why, now - since)

    def _faults(self, die: Die) -> Faults:
        """The present faults. A driver without events tells the numbers of faults, or only the level of the worst."""
        dcmi = self._dcmi
        level = dcmi.ask(dcmi.alarm_level, die)
        if level == _NOT_THERE:
            raise DcmiError("dcmi_get_device_health", DcmiCode.NO_DEVICE)
        events = dcmi.ask(dcmi.fault_events, die)
        if events is not LACKS:
            return events
        codes = dcmi.ask(dcmi.fault_codes, die)
        if isinstance(codes, Unread):
            return codes
        if isinstance(level, Unread):
            return level
        if level is LACKS:
            return LACKS if codes is LACKS else faults.with_level(codes, _LEVEL_UNKNOWN)
        return faults.with_level(() if codes is LACKS else codes, level)
