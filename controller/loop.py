"""The controller: takes in what changes, decides about one pod or claim at a time, and carries it out.

No threads and no sleeping: whoever owns it feeds ``handle`` and calls ``step``. Nothing but retry times is kept that is
not rebuilt from the API, so an instance may be dropped at any moment and a new one goes on where it stood.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.allocation import Fleet, Use
from controller.decisions import Decision, Free, Idle, Lift, Past, Place, Release, TakeBack, Unallocatable, Wait
from controller.election import Deposed
from controller.explain import explain
from controller.metrics import ControllerMetrics
from controller.queue import KeyedQueue
from controller.reconcile import ORPHAN_SECONDS, PATIENCE_SECONDS, RELEASE_SECONDS, decide, decide_claim, refusals
from controller.records import Changes
from controller.report import Reporter, Told
from controller.state import OPTIONAL_KINDS, State
from controller.writes import Writer
from driver.backoff import delay
from driver.clock import Clock
from driver.errors import OperatorFault
from driver.kube.api import AlreadyExists, Api, ApiError, Conflict, Forbidden, Invalid, NotFound
from driver.kube.reflector import Delta, Reflector, Sink
from driver.model import DeviceId
from driver.observe import Logger, Metrics
from driver.settings import Settings

_GAUGE_SECONDS = 5.0
"""How often the gauge of allocated devices is brought up to date at most."""

_UNALLOCATABLE = "Unallocatable"

_Key = tuple[str, str]
"""``("pod" or "claim", namespace/name)``."""


@dataclass(slots=True)
class _Memory:
    """What is remembered about one pod: when to try again, and what was said. Never what is allocated."""

    uid: str
    attempt: int = 0
    retry_at: float = 0.0
    waits_for: tuple[str, str] = ("", "")
    """Reason and message."""
    stale: bool = False
    past: Past = field(default_factory=Past)
    told: Told | None = None


class Controller:
    """One controller.

    Args:
        api: writes go through it; with several replicas, an ``election.Fence``.
        identity: of this run of the program, for Events.
        deliver: where the reflectors put what they see, if they run in other threads than ``step``; whoever gives it
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
        deliver: Sink | None = None,
    ):
        self._api = api
        self._clock = clock
        self._settings = settings
        self._metrics = ControllerMetrics(metrics)
        self._log = log
        self._identity = identity
        self._deliver = deliver or self.handle
        self._paused = False
        self._begin()

    def _begin(self) -> None:
        self._fleet = Fleet(names=self._settings.names)
        self._state = State(self._fleet, self._settings.names)
        self._writer = Writer(self._api, self._clock, self._state, self._look_at)
        self._reporter = Reporter(self._api, self._clock, self._state, self._writer, self._log, self._identity)
        self._queue: KeyedQueue[_Key] = KeyedQueue()
        self._memories: dict[str, _Memory] = {}
        self._parked: dict[str, None] = {}
        self._unused_since: dict[str, float] = {}
        self._gauge_at = 0.0
        state = self._state

        def sink(delta: Delta) -> None:
            # Reflectors of an earlier leadership may still be running; what they say is out of date.
            if state is self._state:
                self._deliver(delta)

        self.reflectors = [
            Reflector(self._api, resource, sink, optional=resource in OPTIONAL_KINDS) for resource in state.kinds
        ]
        """To be stepped by the owner; replaced by ``resume``."""

    # Driving

    def handle(self, delta: Delta) -> None:
        """Take in what a reflector saw. Not to be called while ``step`` runs."""
        self._look_at(self._state.apply(delta))

    def step(self) -> bool:
        """Do the next due piece of work; False if nothing is due, or if nothing may be done yet."""
        if self._paused or not self._state.complete:
            return False
        started = self._clock.monotonic()
        key = self._queue.pop(started)
        if key is None:
            self._measure(started)
            return False
        try:
            outcome = self._pod(key[1]) if key[0] == "pod" else self._claim(key[1])
        except Deposed as error:
            self._log.warning("leadership lost", error=str(error))
            self.pause()
            return False
        self._metrics.decided(outcome, self._clock.monotonic() - started)
        self._measure(started)
        return True

    def next_due(self) -> float | None:
        """When ``step`` has something to do (monotonic seconds); None as long as nothing changes."""
        return None if self._paused or not self._state.complete else self._queue.next_due()

    def pause(self) -> None:
        """Leadership is lost: nothing more is decided or written until ``resume``."""
        self._paused = True

    def resume(self) -> None:
        """Leadership is won: forget everything; ``reflectors`` are new and list again before anything is decided."""
        self._begin()
        self._paused = False

    @property
    def ready(self) -> bool:
        """Whether everything has been listed."""
        return self._state.complete

    def usage_snapshot(self) -> Mapping[DeviceId, Use]:
        """What the controller believes is in use: ``Fleet.usage_snapshot()``."""
        return self._fleet.usage_snapshot()

    def in_use(self) -> dict[str, str]:
        """The same for people: ``pool/device/shareID`` of every device of ours in use, and the claim that holds it.

        A holder without a live claim that says so appears by its uid, with no shareID.
        """
        driver, snapshot = self._settings.names.driver, self._fleet.usage_snapshot()
        left = {(device, uid) for device, use in snapshot.items() if device.driver == driver for uid in use.holders}
        counted, found = set(left), {}
        for record in self._state.claims.values():
            for result in record.claim.allocation.results if record.claim.allocation else ():
                hold = (result.device, record.claim.uid)
                if hold in counted or (result.admin_access and result.device.driver == driver):
                    found[f"{result.device.pool}/{result.device.device}/{result.share_id}"] = record.claim.key
                    left.discard(hold)
        return found | {f"{device.pool}/{device.device}/": uid for device, uid in left}

    def _measure(self, now: float) -> None:
        self._metrics.queued(len(self._queue), len(self._parked))
        if now >= self._gauge_at:
            self._gauge_at = now + _GAUGE_SECONDS
            self._metrics.allocated(self._state.allocated_by_kind())

    def _look_at(self, changes: Changes) -> None:
        now = self._clock.monotonic()
        for problem in changes.unreadable:
            self._log.error("object cannot be read and is left out", problem=problem)
        for pod in changes.pods:
            self._queue.add(("pod", pod), now)
        for claim in changes.claims:
            self._queue.add(("claim", claim), now)
        if changes.freed:
            for pod in self._parked:
                self._queue.add(("pod", pod), now)

    # Pods

    def _pod(self, key: str) -> str:
        pod = self._state.pods.get(key)
        if pod is None:
            self._memories.pop(key, None)
            self._parked.pop(key, None)
            return "gone"
        memory = self._memories.get(key)
        if memory is None or memory.uid != pod.uid:
            memory = self._memories[key] = _Memory(pod.uid)
        try:
            return self._advance(key, memory)
        except (Conflict, NotFound, AlreadyExists) as error:
            return self._again(key, memory, "conflict", error, delay(memory.attempt))
        except (Invalid, Forbidden) as error:
            self._tell(key, memory, Wait("WriteRefused", f"the API server refused a write: {error}"))
            return self._again(key, memory, "refused", error)
        except OperatorFault as error:
            self._tell(key, memory, Wait("FieldsDropped", str(error)))
            return self._again(key, memory, "refused", error)
        except ApiError as error:
            return self._again(key, memory, "unavailable", error)

    def _advance(self, key: str, memory: _Memory) -> str:
        for claim in self._state.pods[key].claim_keys:
            if self._writer.in_doubt(claim):
                self._writer.settle(claim)
        if memory.stale:
            self._writer.refresh(key)
            memory.stale = False
        bound = self._settings.controller.max_retry_seconds
        decision = decide(self._state, key, self._clock.now(), memory.past, bound)
        if isinstance(decision, Unallocatable):
            return self._park(key, memory, decision)
        if isinstance(decision, Wait):
            return self._wait(key, memory, decision)
        self._parked.pop(key, None)
        self._carry_out(key, memory, decision)
        return type(decision).__name__.lower()

    def _carry_out(self, key: str, memory: _Memory, decision: Decision) -> None:
        pod = self._state.pods.get(key)
        if pod is None:
            return
        match decision:
            case Idle():
                if pod.node_name or pod.terminal or not pod.refusal:
                    del self._memories[key]
            case Lift():
                self._writer.lift(pod)
            case Place(node):
                self._writer.place(pod, decision)
                memory.attempt, memory.told, memory.waits_for = 0, None, ("", "")
                self._log.info("placed", pod=key, node=node, claims=[claim for claim, _ in decision.allocations])
            case Release(claims, node):
                self._writer.release(pod, claims)
                memory.past = replace(memory.past, released=self._clock.now())
                self._log.info("released after refusal", pod=key, node=node, refusal=pod.refusal)
                self._queue.add(("pod", key), self._clock.monotonic() + RELEASE_SECONDS)
            case TakeBack():
                self._take_back(key, memory, decision)

    def _take_back(self, key: str, memory: _Memory, decision: TakeBack) -> None:
        pod = self._state.pods[key]
        if self._writer.take_back(pod, decision):
            self._log.warning("allocation taken back", pod=key, node=decision.node, why=decision.message)
            past = memory.past
            if decision.refused:
                rest = delay(
                    past.refusals + 2, base=PATIENCE_SECONDS, bound=self._settings.controller.max_retry_seconds
                )
                avoid: Mapping[str, float] = {**past.avoid, decision.node: self._clock.now() + rest}
                memory.past = Past(past.refusals + 1, avoid)
            self._reporter.taken_back(self._state.pods.get(key, pod), decision.node, decision.message)
        memory.attempt += 1
        self._queue.add(("pod", key), self._clock.monotonic())

    def _park(self, key: str, memory: _Memory, decision: Unallocatable) -> str:
        """Wait for capacity. Words are costly on many nodes, so they are found only when they may be said."""
        if memory.waits_for[0] == _UNALLOCATABLE and self._clock.monotonic() < memory.retry_at:
            self._parked[key] = None
            self._queue.add(("pod", key), memory.retry_at)
            return _UNALLOCATABLE
        message = explain(refusals(self._state, decision), decision.claims)
        return self._wait(key, memory, Wait(_UNALLOCATABLE, message, after=decision.after))

    def _wait(self, key: str, memory: _Memory, wait: Wait) -> str:
        now = self._clock.monotonic()
        if wait.quiet:
            if wait.after is not None:
                self._queue.add(("pod", key), now + wait.after)
            return wait.reason
        self._parked[key] = None
        waits_for = (wait.reason, wait.message)
        if memory.waits_for != waits_for or now >= memory.retry_at:
            # Being woken in between, also by our own words, is no attempt of its own.
            memory.attempt += 1
            memory.waits_for = waits_for
            pause = delay(memory.attempt, bound=self._settings.controller.max_retry_seconds)
            memory.retry_at = now + (pause if wait.after is None else wait.after)
            self._tell(key, memory, wait)
        self._queue.add(("pod", key), memory.retry_at)
        return wait.reason

    def _tell(self, key: str, memory: _Memory, wait: Wait) -> None:
        if pod := self._state.pods.get(key):
            bound = self._settings.controller.max_retry_seconds
            memory.told = self._reporter.waits(pod, wait, max(1, memory.attempt), bound, memory.told)

    def _again(self, key: str, memory: _Memory, outcome: str, error: Exception, pause: float | None = None) -> str:
        """Try the pod again from objects read anew, after the back-off."""
        memory.attempt += 1
        memory.stale = True
        self._metrics.failed(type(error).__name__)
        self._log.info("to be tried again", pod=key, error=str(error), attempt=memory.attempt)
        bound = self._settings.controller.max_retry_seconds
        pause = delay(memory.attempt, bound=bound) if pause is None else min(pause, bound)
        # The failed write may have woken the pod through its own effects; the back-off holds all the same.
        self._queue.discard(("pod", key))
        self._queue.add(("pod", key), self._clock.monotonic() + pause)
        return outcome

    # Claims

    def _claim(self, key: str) -> str:
        now = self._clock.monotonic()
        try:
            if self._writer.in_doubt(key):
                self._writer.settle(key)
            decision = decide_claim(self._state, key, self._clock.now(), self._unused_since.get(key))
            match decision:
                case Wait(after=after):
                    self._unused_since.setdefault(key, self._clock.now())
                    self._queue.add(("claim", key), now + (after or ORPHAN_SECONDS))
                case Free(message):
                    self._writer.free(key)
                    self._unused_since.pop(key, None)
                    self._log.info("freed", claim=key, why=message)
                case Idle():
                    self._unused_since.pop(key, None)
        except ApiError as error:
            self._metrics.failed(type(error).__name__)
            self._log.info("to be tried again", claim=key, error=str(error))
            self._queue.add(("claim", key), now + ORPHAN_SECONDS)
            return "unavailable"
        return "claim" + type(decision).__name__.lower()
