"""A fleet that is followed: reflectors tell it of changes, and any thread can read what is known."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from cli.fleetview import FleetView, ViewBuilder
from cli.fleetview.published import UNREADABLE, SliceReader, left_out
from cli.top import gangs
from cli.top.question import Question
from cli.ui.contents import FleetContents, KindGap, ShownNode, shown_claims, shown_pods
from controller.allocation import Fleet
from controller.state import DEVICE_TAINT_RULES_BETA, GANG_RESOURCES, State
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
    Resource,
)
from driver.kube.objects import object_key
from driver.kube.reflector import Delta, Missing, Removed, Synced, Upserted
from driver.names import Names

OF_STATE: Final = (RESOURCE_CLAIMS, PODS, *GANG_RESOURCES)
"""Kinds that are kept as the controller keeps them."""
FOLLOWED: Final = (RESOURCE_SLICES, NODES, DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA, *OF_STATE)


class FollowedFleet:
    """Keeps of each object what its document needs. Thread-safe."""

    def __init__(self, names: Names):
        self._names = names
        self._lock = threading.Lock()
        self._state = State(Fleet(names=names), names)
        slices = SliceReader(names)
        self._tables = {
            RESOURCE_SLICES: _Table(RESOURCE_SLICES, slices.read),
            NODES: _Table(NODES, _node),
            DEVICE_TAINT_RULES: _Table(DEVICE_TAINT_RULES, _itself),
            DEVICE_TAINT_RULES_BETA: _Table(DEVICE_TAINT_RULES_BETA, _itself),
        }
        self.revision = 0
        """Grows with each change."""

    def take(self, delta: Delta) -> None:
        """Take in a report of a reflector."""
        if delta.resource in OF_STATE:
            decoded = self._state.decode(delta)
            with self._lock:
                self._state.apply(decoded)
                self.revision += 1
        else:
            with self._lock:
                self._tables[delta.resource].take(delta)
                self.revision += 1

    def contents(self, missing: Sequence[KindGap] = (), problems: Sequence[KindGap] = ()) -> FleetContents:
        """Return everything that is known now."""
        with self._lock:
            view = self._view()
            found = gangs.report_on(self._state, view, Question(self._names))
            return FleetContents(
                view=view,
                nodes=dict(self._tables[NODES].values),
                claims=tuple(shown_claims(self._state)),
                pods=tuple(shown_pods(self._state)),
                gangs=found.items,
                missing=tuple(missing),
                problems=tuple(problems),
                notes=(*view.notes, *(f"{one}: left out" for one in self._state.unreadable.of())),
            )

    def _view(self) -> FleetView:
        builder = ViewBuilder(self._names)
        builder.add_read(self._tables[RESOURCE_SLICES].values.values())
        for resource in (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA):
            builder.add_rules(self._tables[resource].values.values())
        builder.close_nodes(name for name, node in self._tables[NODES].values.items() if not node.open)
        for record in self._state.claims.values():
            builder.add_held(record.claim)
        for table in self._tables.values():
            for note in table.notes.values():
                builder.note(note)
        return builder.view()


class _Table:
    """What is kept of the objects of a kind."""

    def __init__(self, resource: Resource, read: Callable[[Object], Any]):
        self._resource = resource
        self._read = read
        self.values: dict[str, Any] = {}
        """By key; nothing of an object that does not count."""
        self.notes: dict[str, str] = {}
        """By key of an object that cannot be read."""

    def take(self, delta: Delta) -> None:
        match delta:
            case Upserted(_, raw):
                self._put(object_key(raw), raw)
            case Removed(_, raw):
                self._drop(object_key(raw))
            case Synced(_, keys):
                for key in (self.values.keys() | self.notes.keys()) - keys:
                    self._drop(key)
            case Missing():
                self.values.clear()
                self.notes.clear()

    def _put(self, key: str, raw: Object) -> None:
        self._drop(key)
        try:
            value = self._read(raw)
        except UNREADABLE as error:
            self.notes[key] = left_out(self._resource, raw, error)
            return
        if value is not None:
            self.values[key] = value

    def _drop(self, key: str) -> None:
        self.values.pop(key, None)
        self.notes.pop(key, None)


def _node(raw: Object) -> ShownNode:
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    return ShownNode(ready, open=spec.get("unschedulable") is not True)


def _itself(raw: Object) -> Object:
    return raw
