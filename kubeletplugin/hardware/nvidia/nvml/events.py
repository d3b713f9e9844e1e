"""Reads what NVML says about faults of cards: events, and the conditions that stay."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pynvml

from kubeletplugin.hardware.nvidia.nvml.library import Code, Nvml, NvmlError

_KINDS = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
_WAIT_MILLISECONDS = 1
_MOST_EVENTS = 1000
"""The most events that one question takes; the rest is left to the next."""
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
class Condition:
    """What is wrong with a card now. None is what a driver does not say."""

    recovery_action: int | None = None
    """``NVML_FI_DEV_GET_GPU_RECOVERY_ACTION``; 0 is none."""
    remapping_failed: bool = False
    """A faulty row of memory could not be replaced by a spare one."""
    remapping_pending: bool = False
    """A faulty row of memory is replaced with the next reset."""
    retirement_pending: bool = False
    """A faulty page of memory is retired with the next reset: cards without spare rows."""
    retired_pages: int = 0
    """How many pages of memory are retired for good."""


class Events:
    """The events of all cards, in the order in which they happen. Not thread-safe."""

    def __init__(self, nvml: Nvml):
        self._nvml = nvml
        self._set: Any = None
        self._watched: set[str] = set()

    def take(self, cards: Iterable[str]) -> tuple[XidEvent, ...]:
        """The events since the last question, of these cards and of those named before.

        A driver without events has none. After an error, as when the driver was loaded anew, all begins again.
        """
        try:
            if self._set is None:
                self._set, self._watched = self._nvml.call("nvmlEventSetCreate"), set()
            for card in cards:
                self._watch(card)
            return self._waiting()
        except NvmlError:
            self._set = None
            return ()

    def _watch(self, card: str) -> None:
        if card in self._watched:
            return
        self._watched.add(card)
        handle = self._nvml.ask(None, "nvmlDeviceGetHandleByUUID", card)
        kinds = self._nvml.ask(0, "nvmlDeviceGetSupportedEventTypes", handle) & _KINDS if handle is not None else 0
        if kinds:
            self._nvml.ask(None, "nvmlDeviceRegisterEvents", handle, kinds, self._set)

    def _waiting(self) -> tuple[XidEvent, ...]:
        found: list[XidEvent] = []
        while len(found) < _MOST_EVENTS:
            try:
                event = self._nvml.call("nvmlEventSetWait_v2", self._set, _WAIT_MILLISECONDS)
            except NvmlError as error:
                if error.code != Code.TIMEOUT:
                    self._set = None
                break
            card = self._nvml.ask("", "nvmlDeviceGetUUID", event.device)
            if card and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                instance = None if event.gpuInstanceId == _NO_INSTANCE else event.gpuInstanceId
                found.append(XidEvent(card, event.eventData, instance))
        return tuple(found)


def read_condition(nvml: Nvml, card: str) -> Condition:
    """What is wrong with a card now.

    Raises:
        NvmlError: the card is lost.
    """
    handle = nvml.call("nvmlDeviceGetHandleByUUID", card)
    values = nvml.ask((), "nvmlDeviceGetFieldValues", handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    said = [value.value.uiVal for value in values if value.nvmlReturn == pynvml.NVML_SUCCESS]
    rows = nvml.ask((0, 0, 0, 0), "nvmlDeviceGetRemappedRows", handle)
    retired = [nvml.ask((), "nvmlDeviceGetRetiredPages", handle, cause) for cause in _RETIREMENT_CAUSES]
    return Condition(
        recovery_action=said[0] if said else None,
        remapping_failed=bool(rows[3]),
        remapping_pending=bool(rows[2]),
        retirement_pending=bool(nvml.ask(0, "nvmlDeviceGetRetiredPagesPendingStatus", handle)),
        retired_pages=sum(map(len, retired)),
    )
