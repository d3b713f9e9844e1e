"""Reads faults of cards from NVML: events, and lasting conditions."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import pynvml

from kubeletplugin.hardware.answer import LACKS, Answer, Unread, then
from kubeletplugin.hardware.nvidia.nvml.library import LOST, NO_SUCH, Nvml, NvmlCode, NvmlError

_KINDS = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
_WAIT_MILLISECONDS = 1
_MOST_EVENTS = 1000
"""Most events that one call reads; the rest is left to the next call."""
_NO_INSTANCE = 0xFFFFFFFF
_RETIREMENT_CAUSES = (
    pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
    pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
)


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A fault that the driver reported (``Xid``)."""

    card: str
    """uuid"""
    xid: int
    gpu_instance: int | None
    """None if it is about the whole card."""


@dataclass(frozen=True, slots=True)
class LastingFaults:
    """The lasting faults of a card, as far as its driver reports them."""

    recovery_action: Answer[int] = LACKS
    """``NVML_FI_DEV_GET_GPU_RECOVERY_ACTION``; 0 is none."""
    remapping_failed: Answer[bool] = LACKS
    """A faulty row of memory could not be replaced by a spare one."""
    remapping_pending: Answer[bool] = LACKS
    """A faulty row of memory is replaced with the next reset."""
    retirement_pending: Answer[bool] = LACKS
    """A faulty page of memory is retired with the next reset: cards without spare rows."""
    retired_pages: Answer[int] = LACKS
    """Number of retired pages of memory."""


class Events:
    """The events of each card, in the order in which they happen.

    Every card has an event set of its own, so a lost card does not keep events of others. Safe to use from several
    threads, if no two call about the same card.
    """

    def __init__(self, nvml: Nvml):
        self._nvml = nvml
        self._sets: dict[str, _Set] = {}
        self._read: SimpleQueue[XidEvent] = SimpleQueue()

    def read(self, card: str) -> str:
        """Read the events of the card since the last time, for ``take``. A driver without events has none.

        Returns why they cannot be read, and "" if they are. After an error of a card, for example when it is lost, its
        set is created anew once it answers.
        """
        try:
            if card not in self._sets or self._sets[card].loads != self._nvml.loads:
                self._sets[card] = self._registered(card)
            event_set = self._sets[card].handle
            for _ in range(_MOST_EVENTS if event_set is not None else 0):
                event = self._nvml.call("nvmlEventSetWait_v2", event_set, _WAIT_MILLISECONDS)
                if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                    instance = None if event.gpuInstanceId == _NO_INSTANCE else event.gpuInstanceId
                    self._read.put(XidEvent(card, event.eventData, instance))
        except NvmlError as error:
            if error.code != NvmlCode.TIMEOUT:
                self._forget(card)
                return str(error)
        return ""

    def take(self) -> Iterator[XidEvent]:
        """The events that were read since the last time."""
        with suppress(Empty):
            while True:
                yield self._read.get_nowait()

    def _registered(self, card: str) -> "_Set":
        nvml = self._nvml
        device = nvml.device(card)
        supported = nvml.need("nvmlDeviceGetSupportedEventTypes", device)
        kinds = 0 if supported is LACKS else supported & _KINDS
        loads = nvml.loads
        event_set = nvml.need("nvmlEventSetCreate") if kinds else LACKS
        if event_set is LACKS:
            return _Set(loads, None)
        try:
            nvml.call("nvmlDeviceRegisterEvents", device, kinds, event_set)
        except NvmlError:
            self._free(_Set(loads, event_set))
            raise
        return _Set(loads, event_set)

    def _forget(self, card: str) -> None:
        if (known := self._sets.pop(card, None)) is not None:
            self._free(known)

    def _free(self, known: "_Set") -> None:
        """Free a set, unless the driver that it belongs to is gone."""
        if known.handle is not None and known.loads == self._nvml.loads:
            with suppress(NvmlError):
                self._nvml.call("nvmlEventSetFree", known.handle)


@dataclass(frozen=True, slots=True)
class _Set:
    """An event set of one card, of the library that was loaded at that time; None for a card without events."""

    loads: int
    handle: Any


def read_condition(nvml: Nvml, card: str) -> LastingFaults:
    """Read the lasting faults of a card.

    Raises:
        NvmlError: the card is lost.
    """
    handle = nvml.device(card)
    rows = nvml.ask("nvmlDeviceGetRemappedRows", handle)
    pending = nvml.ask("nvmlDeviceGetRetiredPagesPendingStatus", handle)
    return LastingFaults(
        recovery_action=_recovery_action(nvml, handle),
        remapping_failed=then(rows, lambda numbers: bool(numbers[3])),
        remapping_pending=then(rows, lambda numbers: bool(numbers[2])),
        retirement_pending=then(pending, bool),
        retired_pages=_retired_pages(nvml, handle),
    )


def _recovery_action(nvml: Nvml, handle: Any) -> Answer[int]:
    function = "nvmlDeviceGetFieldValues"
    values = nvml.ask(function, handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if values is LACKS or isinstance(values, Unread):
        return values
    (value,) = values
    if value.nvmlReturn == pynvml.NVML_SUCCESS:
        number: int = value.value.uiVal
        return number
    if value.nvmlReturn in NO_SUCH:
        return LACKS
    error = NvmlError(function, value.nvmlReturn, "the recovery action was not read")
    if error.code in LOST:
        raise error
    return Unread(str(error))


def _retired_pages(nvml: Nvml, handle: Any) -> Answer[int]:
    number: Answer[int] = LACKS
    for cause in _RETIREMENT_CAUSES:
        pages = nvml.ask("nvmlDeviceGetRetiredPages", handle, cause)
        if isinstance(pages, Unread):
            return pages
        if pages is not LACKS:
            number = len(pages) + (0 if number is LACKS or isinstance(number, Unread) else number)
    return number
