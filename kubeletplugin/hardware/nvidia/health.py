"""Whether cards and MIG instances work: the recovery action that the driver asks for, memory, and Xid events."""

import threading
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final

from driver.errors import TransientFault
from kubeletplugin.hardware.asking import Ask, ask_patiently
from kubeletplugin.hardware.nvidia.nvml.events import Condition, Events, XidEvent, read_condition
from kubeletplugin.hardware.nvidia.nvml.library import Nvml
from kubeletplugin.hardware.port import Health, HealthState, Recovery

_OF_APPLICATIONS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Xids that applications cause: graphics engine exception, memory page fault, stopped processing, preemptive cleanup,
video processor exception, context switch timeout. Source: NVIDIA, "Xid Errors", and NVIDIA's device plugin."""
_ACTIONS: Mapping[int, tuple[HealthState, Recovery, str]] = {
    1: ("fatal", "reset", "the driver asks for a reset of the card"),
    2: ("fatal", "reboot", "the driver asks for a reboot of the node"),
    3: ("degraded", "drain", "the driver asks to end traffic between cards"),
    4: ("degraded", "drain", "the driver asks to drain and reset the card"),
    5: ("fatal", "drain", "the driver asks to recover the IMEX domain"),
    6: ("fatal", "reset", "the driver asks for a reset of the card's bus"),
    7: ("fatal", "reboot", "the driver asks for a reboot of the system"),
}
"""``NVML_GPU_RECOVERY_ACTION_*``; 0 is none."""


def health_of(condition: Condition, xids: Collection[int]) -> Health:
    """The health of a card. Pure.

    The recovery action comes first: it says what all faults together mean, and that they have passed. Xids count where
    the driver does not say it; then those that applications cause do not.

    Args:
        xids: of the whole card, the last one last.
    """
    code = f"Xid {list(xids)[-1]}" if xids else ""
    if condition.recovery_action:
        unknown: tuple[HealthState, Recovery, str] = ("fatal", "reset", "the driver asks for a recovery")
        state, recovery, message = _ACTIONS.get(condition.recovery_action, unknown)
        return Health(state, f"{message} (recovery action {condition.recovery_action})", code, recovery)
    if condition.remapping_failed:
        return Health("fatal", "a faulty row of memory could not be replaced", code, "replace")
    if condition.recovery_action is None and (faults := serious(xids)):
        return Health("fatal", f"the driver reported Xid {faults[-1]}", f"Xid {faults[-1]}", "reset")
    if condition.remapping_pending:
        return Health("degraded", "a faulty row of memory is replaced with the next reset of the card", code, "reset")
    return Health()


def serious(xids: Iterable[int]) -> list[int]:
    """The Xids that applications do not cause."""
    return [xid for xid in xids if xid not in _OF_APPLICATIONS]


class HealthWatch:
    """Remembers events until their card needs no recovery any more; where the driver does not say it, for good.

    Thread-safe.

    Args:
        ask: asks about one card.
    """

    def __init__(self, nvml: Nvml, ask: Ask = ask_patiently):
        self._nvml = nvml
        self._ask = ask
        self._lock = threading.Lock()
        self._events = Events(nvml)
        self._xids: dict[str, list[XidEvent]] = {}

    def ask(self, cards: Collection[str]) -> tuple[Mapping[str, Health], Mapping[tuple[str, int], Health]]:
        """The health of each card by uuid, and of GPU instances with faults of their own by uuid and id."""
        with self._lock:
            for event in self._events.take(cards):
                self._xids.setdefault(event.card, []).append(event)
            of_cards: dict[str, Health] = {}
            of_instances: dict[tuple[str, int], Health] = {}
            for card in cards:
                try:
                    condition = self._ask(f"card {card}", partial(read_condition, self._nvml, card))
                except TransientFault as error:
                    of_cards[card] = Health("fatal", str(error), recovery="reboot")
                    continue
                events = self._xids.get(card, [])
                of_cards[card] = health_of(condition, [event.xid for event in events if event.gpu_instance is None])
                if condition.recovery_action is None:
                    of_instances |= _instances(card, events)
                elif condition.recovery_action == 0:
                    self._xids.pop(card, None)
            return of_cards, of_instances


def _instances(card: str, events: Iterable[XidEvent]) -> Mapping[tuple[str, int], Health]:
    return {
        (card, event.gpu_instance): Health("fatal", f"the driver reported Xid {event.xid}", f"Xid {event.xid}", "reset")
        for event in events
        if event.gpu_instance is not None and serious([event.xid])
    }
