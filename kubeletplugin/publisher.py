"""Keeps this node's ResourceSlices as they should be: watches, recomputes, compares, writes what differs.

Steppable: whoever owns it runs the reflectors and calls ``step`` when ``next_due`` says so. Nothing it knows has to
survive: a new instance lists and compares. Two instances at once (a rolling update) want the same, so that the second
finds nothing to do; should they differ, each waits longer and longer before it overrules the other.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from driver.clock import Clock
from driver.errors import TransientFault
from driver.kinds import Offer
from driver.kube.api import (
    NODES,
    RESOURCE_SLICES,
    AlreadyExists,
    Api,
    ApiError,
    Conflict,
    NotFound,
    Object,
)
from driver.kube.reflector import Delta, Reflector, Synced
from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin.hardware import Card, Hardware, Health
from kubeletplugin.inventory import Inventory, devices, facts_from
from kubeletplugin.metrics import PublishingMetrics
from kubeletplugin.poolview import DroppedFields, Pace, View
from kubeletplugin.slices import Action, Create, Delete, Update, Wanted, cut, plan
from kubeletplugin.validation import faults

SETTLE_SECONDS = 0.2
"""How long events are gathered before acting on them: a kubelet wipes slices one by one."""
HEALTH_SECONDS = 5.0
"""How often the hardware is asked for its health."""
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 60.0


class _Abandoned(Exception):
    """The rest of a plan must not be carried out; planning anew will differ."""


class Publisher:
    """Publishes the devices of one node.

    Args:
        wake: called, from any thread, when ``next_due`` may have come nearer.
    """

    def __init__(
        self,
        api: Api,
        clock: Clock,
        node_name: str,
        settings: Settings,
        hardware: Hardware,
        metrics: PublishingMetrics,
        log: Logger,
        wake: Callable[[], None] = lambda: None,
    ):
        self._api = api
        self._clock = clock
        self._node_name = node_name
        self._settings = settings
        self._names = settings.names
        self._hardware = hardware
        self._metrics = metrics
        self._log = log
        self._wake = wake
        self.reflectors = [
            Reflector(api, NODES, self.handle, field_selector=f"metadata.name={node_name}"),
            Reflector(
                api,
                RESOURCE_SLICES,
                self.handle,
                field_selector=f"spec.nodeName={node_name},spec.driver={settings.driver_name}",
            ),
        ]
        self._lock = threading.Lock()
        self._view = View(node_name)
        self._due: float | None = clock.monotonic()
        self._not_before = 0.0
        self._failures = 0
        self._pace = Pace()
        self._dropped = DroppedFields()
        self.published = False
        """Whether all that this node offers was found published when last compared."""
        self._dirty = True
        self._seen: tuple[tuple[Card, ...], dict[str, Health]] = ((), {})
        self._told: set[str] = set()

    def handle(self, delta: Delta) -> None:
        """Take note of a change of the Node or of the slices; may be called from another thread than ``step``."""
        with self._lock:
            if not self._view.take(delta):
                return
            self._dirty = True
            # A list is complete in itself; single events come in groups.
            self._hasten(self._clock.monotonic() + (0.0 if isinstance(delta, Synced) else SETTLE_SECONDS))
        self._wake()

    def republish_now(self) -> None:
        """Look again at once, whatever went before; to be called after each registration with the kubelet.

        A kubelet deletes the node's slices when it starts, and its back-off must not become ours.
        """
        with self._lock:
            self._not_before = 0.0
            self._pace = Pace()
            self._dirty = True
            self._due = self._clock.monotonic()
        self._wake()

    def next_due(self) -> float | None:
        """When ``step`` has something to do next, in seconds of ``Clock.monotonic``; None: only after an event."""
        with self._lock:
            return self._due

    def step(self) -> bool:
        """Compare and write, if that is due. True if anything was written or tried.

        Errors of the API and of the hardware are logged and tried again after a growing pause; what is published
        stays meanwhile.
        """
        with self._lock:
            now = self._clock.monotonic()
            if self._due is None or now < self._due:
                return False
            self._due = None
            if not self._view.complete:
                return False
            node, published = self._view.node, list(self._view.slices.values())
            dirty, self._dirty = self._dirty, False
        if node is None:
            return False
        try:
            cards, health = self._hardware.cards(), dict(self._hardware.health())
            if dirty or not self.published or (cards, health) != self._seen:
                return self._reconcile(node, published, cards, health)
            self._again(HEALTH_SECONDS)
            return False
        except TransientFault as error:
            self._failed("the hardware gives no answer", error)
        except (Conflict, AlreadyExists, NotFound) as error:
            self._failed("another writer was faster", error)
        except ApiError as error:
            self._failed("cannot write slices", error)
        return True

    def _reconcile(
        self, node: Object, published: list[Object], cards: tuple[Card, ...], health: dict[str, Health]
    ) -> bool:
        self._report_health(health)
        self._seen = (cards, health)
        inventory = self._inventory(node)
        parts = cut(inventory.devices, inventory.counter_sets, self._node_name, self._names)
        wanted = Wanted(self._node_name, node["metadata"]["uid"], self._dropped.adopt(parts))
        if not self._acceptable(wanted):
            self.published = False
            self._again(LONGEST_RETRY_SECONDS)
            return False
        actions = plan(wanted, published)
        self.published = not actions
        if actions and not self._may_write(wanted):
            return False
        try:
            for action in actions:
                self._write(action)
        except _Abandoned:
            self._again(0.0)
            return True
        with self._lock:
            self._failures, self._not_before = 0, 0.0
            self._pace.confirmed = wanted
        self.published = True
        self._measure(inventory)
        if actions:
            self._log.info("slices published", pool=self._names.pool(self._node_name), writes=len(actions))
        self._again(HEALTH_SECONDS)
        return bool(actions)

    def _inventory(self, node: Object) -> Inventory:
        settings = self._settings.kubeletplugin
        cards, health = self._seen
        inventory = devices(
            cards,
            facts_from(node["metadata"].get("labels") or {}, settings.node_labels),
            self._offer(),
            settings.slots,
            self._names,
            {name for name, state in health.items() if not state.healthy},
        )
        offered = {item.card.name for item in inventory.offered}
        for card in cards:
            if card.name not in offered:
                self._once("card is not offered", card=card.name, offer=list(self._offer()))
        return inventory

    def _offer(self) -> tuple[Offer, ...]:
        offer = self._settings.kubeletplugin.offer
        if not self._dropped.counters:
            return offer
        # Without counters nothing keeps two kinds off one card, so each card is offered as one kind only.
        return next(((kind,) for kind in ("whole", "share") if kind in offer), ())

    def _acceptable(self, wanted: Wanted) -> bool:
        found = faults(wanted.slices)
        for fault in found:
            self._once("inventory breaks a rule of the API", field=fault.field, reason=fault.message)
        if found:
            self._metrics.refusals.inc()
        return not found

    def _may_write(self, wanted: Wanted) -> bool:
        with self._lock:
            wait = self._pace.wait(wanted, self._clock.monotonic())
        if wait > 0:
            self._again(wait)
        return wait <= 0

    def _write(self, action: Action) -> None:
        operation = type(action).__name__.lower()
        try:
            match action:
                case Delete(name, uid, version):
                    self._delete(name, uid, version)
                case Create(body):
                    self._stored(body, self._api.create(RESOURCE_SLICES, body))
                case Update(body):
                    self._stored(body, self._api.update(RESOURCE_SLICES, body))
        except ApiError as error:
            self._metrics.writes.labels(operation, type(error).__name__).inc()
            if isinstance(error, (Conflict, AlreadyExists, NotFound)):
                self._look_again(action.name if isinstance(action, Delete) else action.object["metadata"]["name"])
            raise
        self._metrics.writes.labels(operation, "ok").inc()

    def _delete(self, name: str, uid: str, version: str) -> None:
        with suppress(NotFound):
            self._api.delete(RESOURCE_SLICES, name, uid=uid, resource_version=version)
        with self._lock:
            self._view.forget(name)

    def _look_again(self, name: str) -> None:
        """Another writer was faster: see what is there, rather than wait for a watch that may lag."""
        try:
            found = self._api.get(RESOURCE_SLICES, name)
        except NotFound:
            found = None
        spec = found["spec"] if found else {}
        ours = spec.get("driver") == self._names.driver and spec.get("nodeName") == self._node_name
        with self._lock:
            if found and ours:
                self._view.slices[name] = found
            else:
                self._view.forget(name)
        if found and not ours:
            self._once("slice name is taken by another driver or node", slice=name, driver=spec.get("driver"))

    def _stored(self, sent: Object, stored: Object) -> None:
        with self._lock:
            self._view.slices[stored["metadata"]["name"]] = stored
        lost_counters = self._dropped.counters
        for field in self._dropped.compare(sent, stored):
            self._metrics.dropped_fields.labels(field).inc()
            self._log.error(
                "field not stored by the API server",
                field=f"spec.{field}",
                remedy="the API server has this field's feature gate off; switch it on and restart this plugin",
            )
        if self._dropped.counters and not lost_counters:
            raise _Abandoned

    def _failed(self, event: str, error: Exception) -> None:
        with self._lock:
            pause = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(self._failures, 16))
            self._failures += 1
            self._dirty = True
            self._due = self._not_before = self._clock.monotonic() + pause
        self._log.warning(event, reason=str(error), status=getattr(error, "status", 0), retry_seconds=pause)

    def _again(self, seconds: float) -> None:
        with self._lock:
            self._hasten(self._clock.monotonic() + seconds)

    def _hasten(self, moment: float) -> None:
        moment = max(moment, self._not_before)
        self._due = moment if self._due is None else min(self._due, moment)

    def _once(self, event: str, **fields: Any) -> None:
        key = f"{event} {fields}"
        if key not in self._told:
            self._told.add(key)
            self._log.error(event, **fields)

    def _report_health(self, health: dict[str, Health]) -> None:
        _, before = self._seen
        for name, state in health.items():
            if state != before.get(name, Health(healthy=True)):
                say = self._log.info if state.healthy else self._log.warning
                say("health of a card changed", card=name, healthy=state.healthy, reason=state.message)

    def _measure(self, inventory: Inventory) -> None:
        kinds = [item.kind for item in inventory.offered]
        self._metrics.devices.clear()
        for kind in set(kinds):
            self._metrics.devices.labels(kind).set(kinds.count(kind))
        health = self._seen[1].values()
        well = sum(state.healthy for state in health)
        self._metrics.cards.labels("healthy").set(well)
        self._metrics.cards.labels("unhealthy").set(len(health) - well)
        with self._lock:
            generations = [item["spec"]["pool"].get("generation", 0) for item in self._view.slices.values()]
        self._metrics.generation.set(max(generations, default=0))
