"""The controller: takes in what changes, and decides about one pod or claim at a time.

It has no threads and never sleeps: its owner feeds ``handle`` and calls ``step``. Except for retry times, it keeps only
what is rebuilt from the API, so an instance may be dropped at any moment and a new one continues its work.
"""

from collections.abc import Callable, Mapping
from typing import Final

from controller.allocation import Fleet, Use
from controller.election import Deposed
from controller.loop.claimsync import ClaimSync
from controller.loop.claimwriter import ClaimWriter
from controller.loop.metrics import ControllerMetrics
from controller.loop.podsync import PodSync
from controller.loop.podwriter import PodWriter
from controller.loop.queue import Key, KeyedQueue
from controller.loop.reader import ObjectReader
from controller.loop.report import Reporter
from controller.state import OPTIONAL_RESOURCES, Changes, State, StateDelta
from driver.clock import Clock
from driver.kube.api import PODS, RESOURCE_SLICES, Api
from driver.kube.reflector import PAGE_SIZE, Delta, Reflector
from driver.model import DeviceId
from driver.observe import Logger, Metrics
from driver.settings import Settings

_GAUGE_SECONDS = 5.0
"""Least time between two updates of the gauge of allocated devices."""
_FIELD_SELECTORS: Final = {PODS: "status.phase!=Succeeded,status.phase!=Failed"}
"""A pod that has ended uses nothing. The API reports it as deleted when it ends."""
_PAGE_SIZES: Final = {RESOURCE_SLICES: 20}
"""A slice has up to 128 devices and some 100 kB of JSON."""


class Controller:
    """One controller.

    Args:
        api: writes go through it; with several replicas, an ``election.Fence``.
        identity: of this run of the program, for Events.
        deliver: where the reflectors put what they see, decoded, if they run in other threads than ``step``; its owner
            passes everything on to ``handle``.
    """

    def __init__(
        self,
        api: Api,
        clock: Clock,
        settings: Settings,
        metrics: Metrics,
        log: Logger,
        identity: str,
        deliver: Callable[[StateDelta], None] | None = None,
    ):
        self._api = api
        self._clock = clock
        self._settings = settings
        self._metrics = ControllerMetrics(metrics)
        self._log = log
        self._identity = identity
        self._deliver = deliver or self.handle
        self._paused = False
        self._start()

    def _start(self) -> None:
        """Start from nothing: an empty state, an empty queue and new reflectors."""
        self._fleet = Fleet(names=self._settings.names)
        self._state = State(self._fleet, self._settings.names)
        self._queue: KeyedQueue[Key] = KeyedQueue()
        self._gauge_at = 0.0
        self._first = Changes()
        """What to look at once everything has been listed."""
        api, clock, state, log = self._api, self._clock, self._state, self._log
        reader = ObjectReader(api, state, self._requeue)
        claim_writer = ClaimWriter(api, state, reader, self._requeue)
        pod_writer = PodWriter(api, clock, state, reader, self._requeue)
        reporter = Reporter(api, clock, state, pod_writer, log, self._identity)
        max_wait = self._settings.controller.max_retry_seconds
        self._pods = PodSync(
            state, self._queue, reader, claim_writer, pod_writer, reporter, clock, self._metrics, log, max_wait
        )
        self._claims = ClaimSync(state, self._queue, claim_writer, clock, self._metrics, log)

        def sink(delta: Delta) -> None:
            # Reflectors of an earlier leadership may still be running; what they report is out of date.
            if state is self._state:
                self._deliver(state.decode(delta))

        self.reflectors = [
            Reflector(
                api,
                resource,
                sink,
                field_selector=_FIELD_SELECTORS.get(resource, ""),
                page_size=_PAGE_SIZES.get(resource, PAGE_SIZE),
                optional=resource in OPTIONAL_RESOURCES,
            )
            for resource in state.resources
        ]
        """The owner steps them; ``resume`` replaces them."""

    # Running

    def handle(self, delta: StateDelta) -> None:
        """Take in what a reflector saw, as it was delivered. Must not be called while ``step`` runs."""
        listed = self._state.complete
        changes = self._state.apply(delta)
        if listed:
            self._requeue(changes)
            return
        self._first.add(changes)
        if self._state.complete:
            # Pods are listed by name, and served by age.
            self._first.pods = dict.fromkeys(sorted(self._first.pods, key=self._created))
            self._requeue(self._first)
            self._first = Changes()

    def _created(self, key: str) -> str:
        pod = self._state.pods.get(key)
        return pod.created if pod else ""

    def step(self) -> bool:
        """Do the next due piece of work; False if nothing is due, or if nothing may be done yet."""
        if self._paused or not self._state.complete:
            return False
        started = self._clock.monotonic()
        key = self._queue.pop(started)
        if key is None:
            self._measure(started)
            return False
        kind, name = key
        try:
            outcome = self._pods.sync(name) if kind == "pod" else self._claims.sync(name)
        except Deposed as error:
            self._log.warning("leadership lost", error=str(error))
            self.pause()
            return False
        self._metrics.decided(outcome, self._clock.monotonic() - started)
        self._measure(started)
        return True

    def next_due(self) -> float | None:
        """When ``step`` has something to do (monotonic seconds); None if only a change can give it something."""
        return None if self._paused or not self._state.complete else self._queue.next_due()

    def pause(self) -> None:
        """Leadership is lost: decide and write nothing more until ``resume``."""
        self._paused = True

    def resume(self) -> None:
        """Leadership is won: forget everything. The new ``reflectors`` list everything before anything is decided."""
        self._start()
        self._paused = False

    @property
    def ready(self) -> bool:
        """Whether everything has been listed."""
        return self._state.complete

    # What is in use

    def usage_snapshot(self) -> Mapping[DeviceId, Use]:
        """The devices in use, as far as the controller knows: ``Fleet.usage_snapshot()``."""
        return self._fleet.usage_snapshot()

    def in_use(self) -> dict[str, str]:
        """The same for people: ``pool/device/shareID`` of every device of ours in use, to the claim that holds it.

        A holder that no known claim confirms appears by its uid, without shareID.
        """
        driver, snapshot = self._settings.names.driver, self._fleet.usage_snapshot()
        held = {(device, uid) for device, use in snapshot.items() if device.driver == driver for uid in use.holders}
        unconfirmed, devices = set(held), {}
        for record in self._state.claims.values():
            for result in record.claim.allocation.results if record.claim.allocation else ():
                holding = (result.device, record.claim.uid)
                if holding in held or (result.admin_access and result.device.driver == driver):
                    devices[f"{result.device.pool}/{result.device.device}/{result.share_id}"] = record.claim.key
                    unconfirmed.discard(holding)
        return devices | {f"{device.pool}/{device.device}/": uid for device, uid in unconfirmed}

    # Changes and metrics

    def _requeue(self, changes: Changes) -> None:
        now = self._clock.monotonic()
        for problem in changes.unreadable:
            self._log.error("object ignored because it cannot be decoded", problem=problem)
        for pod in changes.pods:
            self._queue.add(("pod", pod), now)
        for claim in changes.claims:
            self._queue.add(("claim", claim), now)
        if changes.favoured:
            for pod in self._pods.waiting:
                self._queue.add(("pod", pod), now)

    def _measure(self, now: float) -> None:
        self._metrics.queued(len(self._queue), len(self._pods.waiting))
        if now >= self._gauge_at:
            self._gauge_at = now + _GAUGE_SECONDS
            self._metrics.allocated(self._state.allocated_by_kind())
