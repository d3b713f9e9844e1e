"""Health of cards and MIG instances: by the driver's recovery action, memory faults, and Xid events."""

import json
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from driver.errors import TransientFault
from kubeletplugin.hardware.answer import if_read, kept_facts, unread_in
from kubeletplugin.hardware.asking import Ask, call_directly
from kubeletplugin.hardware.nvidia.nvml.events import Events, LastingFaults, XidEvent, read_condition
from kubeletplugin.hardware.nvidia.nvml.library import Nvml
from kubeletplugin.hardware.nvidia.runfolder import RunFolder
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
_MOST_RETIRED_PAGES: Final = 64
"""Most pages of a card that can be retired. Source: NVIDIA, "Dynamic Page Retirement"."""
_FILE = "xids.json"


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard of a card at one look."""

    condition: LastingFaults
    """Its lasting faults, as far as they were read."""
    deaf: str = ""
    """Why its events cannot be read; "" if they are."""


def health_of(heard: Heard, condition: LastingFaults, xids: Collection[int]) -> Health:
    """The health of a card. Pure.

    The recovery action comes first: it stands for all faults together, and ends when they have passed. If the driver
    does not report it now, Xids count, except those that applications cause.

    Args:
        condition: its lasting faults, with those that were known before where they were not read now.
        xids: of the whole card, the last one last.
    """
    code = f"Xid {list(xids)[-1]}" if xids else ""
    action = if_read(condition.recovery_action)
    if action:
        unknown: tuple[HealthState, Recovery, str] = ("fatal", "reset", "the driver asks for a recovery")
        state, recovery, message = _ACTIONS.get(action, unknown)
        return Health(state, f"{message} (recovery action {action})", code, recovery)
    if if_read(condition.remapping_failed):
        return Health("fatal", "a faulty row of memory could not be replaced", code, "replace")
    if if_read(heard.condition.recovery_action) is None and (faults := serious(xids)):
        return Health("fatal", f"the driver reported Xid {faults[-1]}", f"Xid {faults[-1]}", "reset")
    if (pages := if_read(condition.retired_pages) or 0) >= _MOST_RETIRED_PAGES:
        message = f"{pages} pages of memory are retired, and no further one can be"
        return Health("degraded", message, code, "replace")
    if if_read(condition.remapping_pending):
        return Health("degraded", "a faulty row of memory is replaced with the next reset of the card", code, "reset")
    if if_read(condition.retirement_pending):
        return Health("degraded", "a faulty page of memory is retired with the next reset of the card", code, "reset")
    return _unheard(heard, condition)


def _unheard(heard: Heard, condition: LastingFaults) -> Health:
    """The health of a card without a known fault, which depends on what could be read of it."""
    reasons = "; ".join((*unread_in(heard.condition), *filter(None, [heard.deaf])))
    if not reasons:
        return Health()
    message = f"not everything about the card's health is known: {reasons}"
    if if_read(condition.recovery_action) is None and (heard.deaf or unread_in(condition)):
        return Health("unknown", message, away=True)
    return Health(message=message)


def serious(xids: Iterable[int]) -> list[int]:
    """The Xids without those that applications cause."""
    return [xid for xid in xids if xid not in _OF_APPLICATIONS]


class HealthWatch:
    """Remembers events until their card needs no recovery any more.

    A driver that does not report the recovery action does not report its end, either. Then events count until the
    machine reboots: they are kept in ``run``. Thread-safe.

    Args:
        run: a folder that a reboot empties.
        ask: bounds the time of calls about one card.
    """

    def __init__(self, nvml: Nvml, run: RunFolder, ask: Ask = call_directly):
        self._nvml = nvml
        self._run = run
        self._ask = ask
        self._lock = threading.Lock()
        self._events = Events(nvml)
        self._stored: Mapping[str, tuple[XidEvent, ...]] | None = None
        """What the file has; None until it was read."""
        self._found: dict[str, tuple[XidEvent, ...]] = {}
        """Events by the uuid of the card; each event once, the latest one last."""
        self._saying: set[str] = set()
        """The cards whose driver reports a recovery action."""
        self._conditions: dict[str, LastingFaults] = {}
        """The lasting faults of each card, as far as they were ever read."""

    def ask(self, cards: Collection[str]) -> tuple[Mapping[str, Health], Mapping[tuple[str, int], Health]]:
        """The health of each card by uuid, and of GPU instances with faults of their own by uuid and id."""
        with self._lock:
            deaf, forgetful = dict[str, str](), self._recall()
            for card in cards:
                try:
                    deaf[card] = self._ask(f"card {card}", partial(self._events.read, card))
                except TransientFault as fault:
                    deaf[card] = str(fault)
            for event in self._events.take():
                others = (known for known in self._found.get(event.card, ()) if known != event)
                self._found[event.card] = (*others, event)
            of_cards: dict[str, Health] = {}
            of_instances: dict[tuple[str, int], Health] = {}
            for card in cards:
                try:
                    now = self._ask(f"card {card}", partial(read_condition, self._nvml, card))
                except TransientFault as error:
                    of_cards[card] = Health("fatal", str(error), recovery="reboot")
                    continue
                condition = self._conditions[card] = kept_facts(self._conditions.get(card, now), now)
                events = self._found.get(card, ())
                xids = [event.xid for event in events if event.gpu_instance is None]
                of_cards[card] = health_of(Heard(now, forgetful or deaf[card]), condition, xids)
                action = if_read(now.recovery_action)
                if action is None:
                    of_instances |= _instances(card, events)
                    continue
                self._saying.add(card)
                if action == 0:
                    self._found.pop(card, None)
            self._store()
            return of_cards, of_instances

    def forget_others(self, card: str, instances: Collection[int]) -> None:
        """Forget the faults of GPU instances that no longer exist: a new instance with the same number has none of
        them."""
        with self._lock:
            kept = [e for e in self._found.get(card, ()) if e.gpu_instance is None or e.gpu_instance in instances]
            self._found[card] = tuple(kept)
            self._store()

    def _recall(self) -> str:
        """Take up the stored events, unless that was done before; returns why they cannot be read, "" if they are."""
        if self._stored is None:
            try:
                self._stored = _read(self._run)
            except TransientFault as fault:
                return str(fault)
            for card, events in self._stored.items():
                self._found[card] = (*events, *(event for event in self._found.get(card, ()) if event not in events))
        return ""

    def _store(self) -> None:
        if self._stored is None:  # it would replace what was not read yet
            return
        lasting = {
            card: kept
            for card, events in sorted(self._found.items())
            if card not in self._saying and (kept := tuple(event for event in events if serious([event.xid])))
        }
        if lasting == self._stored:
            return
        lines = [[event.card, event.xid, event.gpu_instance] for events in lasting.values() for event in events]
        with suppress(TransientFault):  # then they count as long as this program runs
            self._run.write(_FILE, text=json.dumps(lines))
            self._stored = lasting


def _read(run: RunFolder) -> dict[str, tuple[XidEvent, ...]]:
    """The stored events of this boot, by card; raises TransientFault."""
    found: dict[str, tuple[XidEvent, ...]] = {}
    text = run.read(_FILE) or "[]"
    with suppress(ValueError, TypeError):
        for card, xid, instance in json.loads(text):
            event = XidEvent(str(card), int(xid), None if instance is None else int(instance))
            found[event.card] = (*found.get(event.card, ()), event)
    return found


def _instances(card: str, events: Iterable[XidEvent]) -> Mapping[tuple[str, int], Health]:
    return {
        (card, event.gpu_instance): Health("fatal", f"the driver reported Xid {event.xid}", f"Xid {event.xid}", "reset")
        for event in events
        if event.gpu_instance is not None and serious([event.xid])
    }
