"""The controller: takes in what changes, and decides about one pod or claim at a time.

It has no threads and never sleeps or waits for the API: its owner feeds ``handle`` and calls ``step``, and the port
``Writes`` carries decisions out. Except for retry times, its memory is rebuilt from the API, so an instance may
be dropped at any moment and a new one continues its work.

Its state is kept up to date all the time. It decides only in a term of leadership, from ``lead`` to ``follow``.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from controller.allocation import DeviceUse, Fleet
from controller.allocation.metering import TURN_STEPS
from controller.census import Snapshot
from controller.election import Deposed
from controller.loop.claimsync import ClaimSync
from controller.loop.contact import Contact
from controller.loop.fitchecks import FitChecks
from controller.loop.fleetcopies import FleetCopies
from controller.loop.gangsync import GangSync
from controller.loop.inuse import devices_in_use
from controller.loop.metrics import ControllerMetrics, DecisionOutcome
from controller.loop.nodewishes import NodeWishes
from controller.loop.podsync import PodSync
from controller.loop.podwaits import PodWaits
from controller.loop.ports import Ports
from controller.loop.preempting import Preempting
from controller.loop.protecting import Protecting
from controller.loop.queue import Key
from controller.loop.reflectors import ages_of, reflectors_of
from controller.loop.shared import Shared, limits_of
from controller.loop.templatesync import TemplateSync
from controller.loop.timeline import Timeline
from controller.loop.turns import Turns
from controller.loop.writes_in_flight import WritesInFlight
from controller.reconcile import Occupants, Reason, RefusalMemory
from controller.reporting import QuotaUses, Reporter
from controller.settings import decision_settings
from controller.state import DEVICE_TAINT_RULES_BETA, Changes, State, StateDelta
from controller.waiting import HeldDomain, HeldNode, Rank, rank_of, rank_of_gang
from controller.writing import WriteResult, WriteSequence, WritesOfTerm
from controller.writing.steps import AnnotateNode, ReadPage, Target
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    EVENTS,
    KUEUE_ADMISSION_CHECKS,
    KUEUE_WORKLOADS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
)
from driver.model import DeviceId
from driver.settings import Settings

_GAUGE_SECONDS = 5.0
"""Least time between two updates of the gauge of allocated devices."""
_CLAIMS_FIRST: Final = -(2**40)
"""Level before every priority."""
_READ_AGAIN_SECONDS = 1.0
"""Pause before the claims are read anew at the start of a term, after a failure."""
_MOST_LOGGED: Final = 100
"""Most unreadable objects of a kind, or quotas, that are logged and reported on the object; a metric counts all."""


class Controller:
    """A controller that its owner steps.

    Args:
        identity: of this run of the program, for Events.
        deliver: takes the decoded reports of reflectors that run in other threads than ``step``; its owner passes
            everything on to ``handle``.
        unsafe: says why nothing may be decided for a reason outside of this program's state; "" while there is none.

    Attributes:
        reflectors: the owner steps them, whether this controller leads or not.
    """

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        identity: str,
        *,
        deliver: Callable[[StateDelta], None] | None = None,
        unsafe: Callable[[], str] = lambda: "",
    ):
        self._writes = WritesOfTerm(ports.writes, lambda: self._term or 0)
        self._clock = ports.clock
        self._settings = settings
        self._metrics = ControllerMetrics(ports.metrics)
        self._log = ports.log
        self._fleet = Fleet(names=settings.names)
        self._state = State(
            self._fleet,
            settings.names,
            decision_settings(settings.controller),
            at=Timeline(ports.clock).at,
            now=ports.clock.monotonic,
        )
        self._occupants = Occupants(self._state, follow=settings.controller.preemption.enabled)
        if settings.controller.kueue.enabled:
            self._state.follow_queues()
        self._fleet_copies = FleetCopies(
            self._state,
            ports.clock,
            shown=settings.controller.fleet_metrics != "none",
            with_quotas="hami" in settings.controller.peer_metrics,
        )
        self._identity = identity
        self._unsafe = unsafe
        self._contact = Contact(self._metrics)
        self._term: int | None = None
        self._gauge_at = 0.0
        self._metrics.count_unreadable(
            {resource.plural for resource in self._state.resources}, self._state.unreadable.count
        )
        self.reflectors = reflectors_of(ports.api, self._state, deliver or self.handle, ports.clock.monotonic)
        self._metrics.watch_ages(ages_of(self.reflectors, ports.clock.monotonic))
        self._forget()
        self._metrics.count(
            lambda: self._queue.due(self._clock.monotonic()),
            lambda: len(self._waits.pods),
            lambda: self._waits.held_nodes,
        )

    def _forget(self) -> None:
        """Forget all decisions. Those that are being written count no longer: a later term reads the claims first."""
        self._caught_up = False
        """True if the claims were read in this term."""
        self._deciding = False
        self._read_at: float | None = None
        """Time at which the claims are read anew after a failure."""
        state, clock, log, settings = self._state, self._clock, self._log, self._settings.controller
        self._in_flight = WritesInFlight(state, self._writes, clock, log, settings.longest_write_seconds)
        self._queue = Turns(state, self._in_flight, clock, self._rank, self._level)
        self._reporter = Reporter(self._writes, clock, state, log, self._identity)
        self._quota_uses = QuotaUses(self._writes, clock, state)
        self._protecting = Protecting(self._writes, clock, state, log, enabled=settings.autoscaling.enabled)
        self._preempting = Preempting(self._occupants, self._queue, clock, log, settings.preemption)
        self._templates = TemplateSync(self._writes, self._queue, clock, state, log, settings=settings.templates)
        shared = Shared(
            state=state,
            queue=self._queue,
            in_flight=self._in_flight,
            reporter=self._reporter,
            memory=RefusalMemory(),
            clock=clock,
            metrics=self._metrics,
            log=log,
            max_wait=settings.max_retry_seconds,
            limits=limits_of(settings.hold),
            wishes=NodeWishes(state, settings.autoscaling),
            preempting=self._preempting,
        )
        self._waits = PodWaits(shared)
        self._pods = PodSync(shared, self._waits)
        self._gangs = GangSync(shared, self._waits, self._pods)
        self._claims = ClaimSync(shared)
        self._fit_checks = FitChecks(self._writes, clock, state, log, self._waits)
        self._syncs: Mapping[str, Callable[[str, Changes], DecisionOutcome | Reason | None]] = {
            "pod": self._pods.sync,
            "gang": self._gangs.sync,
            "claim": self._claims.sync,
            "wake": self._look,
            "template": self._templates.sync,
        }

    # Leading

    def lead(self, term: int) -> None:
        """Begin a term of leadership. Claims are read once more before anything is decided: watches may lag behind
        writes."""
        self.follow()
        self._term = term
        self._read_claims("")

    def follow(self) -> None:
        """End the term of leadership: decide nothing more, and go on keeping the state up to date."""
        if self._term is not None:
            self._term = None
            self._state.end_promises()
            self._forget()

    def _read_claims(self, token: str) -> None:
        step = ReadPage(Target(RESOURCE_CLAIMS, "", ""), token)
        self._writes.submit(WriteSequence(("list", ""), (step,)))

    def _claims_read(self, result: WriteResult) -> None:
        if result.error is not None:
            self._log.warning("cannot read claims", error=str(result.error))
            self._read_at = self._clock.monotonic() + _READ_AGAIN_SECONDS
        elif result.next_page:
            self._read_claims(result.next_page)
        else:
            self._caught_up = True
            self._begin()

    def _begin(self) -> None:
        """Start deciding, if everything is known that decisions need."""
        if self._deciding or not (self._caught_up and self._state.complete):
            return
        self._deciding = True
        self._fleet_copies.begin()
        for found in self._state.unreadable.of()[:_MOST_LOGGED]:
            self._reporter.report_unreadable(found)
        for quota in [*self._state.quotas.invalid][:_MOST_LOGGED]:
            self._reporter.report_invalid_quota(quota)
        self._quota_uses.note(self._state.quotas.namespaces)
        self._preempting.restore()
        self._fit_checks.restore()
        self._templates.restore()
        pods = [pod for pod in self._state.pods.values() if pod.gates or pod.references]
        keys = dict.fromkeys(pod.key for pod in pods)
        self._requeue(Changes(pods=keys, claims=dict.fromkeys(self._state.claims)))

    # Running

    def handle(self, event: StateDelta | WriteResult) -> None:
        """Take in the report of a reflector, or the result of a write. Not while ``step`` runs."""
        if isinstance(event, WriteResult):
            self._written(event)
        else:
            self._requeue(self._state.apply(event))
            if self._state.complete and not self._deciding:
                # So that neither the first decision nor the first one after a takeover has all of it to do.
                self._fleet.index()
                self._occupants.index(self._clock.monotonic())
            self._begin()

    def _written(self, result: WriteResult) -> None:
        changes = self._answered(result)
        kind, key = result.sequence.subject
        if result.term != self._term or isinstance(result.error, Deposed):
            # A result of an earlier term says how the objects are, and nothing more.
            self._requeue(changes)
        elif kind == "list":
            self._requeue(changes)
            self._claims_read(result)
        elif kind == "reported":
            self._requeue(changes)
            resource = result.sequence.steps[0].target.resource
            if resource == RESOURCE_QUOTAS:
                self._quota_uses.on_result(result)
            elif isinstance(result.sequence.steps[0], AnnotateNode):
                self._protecting.on_result(result)
            elif resource in (KUEUE_WORKLOADS, KUEUE_ADMISSION_CHECKS):
                self._fit_checks.on_result(result)
            elif not self._reporter.on_result(result):
                self._log.warning("condition or event not written", object=key, error=str(result.error))
                self._waits.report_again(key, result.error)
        elif kind == "template":
            self._requeue(changes)
            self._templates.on_result(result)
        else:
            progress, error = self._in_flight.on_result(result, changes)
            sync = self._pods if kind == "pod" else self._claims
            outcome = sync.written(key, progress, error, changes)
            self._requeue(changes)
            if outcome is not None:
                self._metrics.decided(outcome)

    def _answered(self, result: WriteResult) -> Changes:
        changes = Changes()
        for answer in result.answers:
            if answer.object is None:
                changes.add(self._state.drop(answer.resource, answer.key, answer.uid))
            elif answer.resource != EVENTS:  # The state has none; the reporter reads it.
                changes.add(self._state.put(answer.resource, answer.object, answer.listed))
        return changes

    def step(self) -> bool:
        """Do the next due piece of work; return False if nothing is due, or if nothing may be decided."""
        now = self._clock.monotonic()
        if self._read_at is not None and self._read_at <= now:
            self._read_at = None
            self._read_claims("")
            return True
        self._contact.check(self.reflectors, now)
        if not self.decides:
            return False
        # Words come last: to find them may cost more than all decisions that are due.
        return (
            self._in_flight.repeat_due()
            or self._protecting.look()
            or self._decide(now)
            or self._answer_check()
            or self._waits.explain_next()
            or self._reporter.remind()
            or self._quota_uses.report()
        )

    def _decide(self, now: float) -> bool:
        key = self._queue.pop(now)
        if key is not None:
            kind, name = key
            self._fleet.turn.begin(TURN_STEPS)
            changes = Changes()
            outcome = self._syncs[kind](name, changes)
            self._requeue(changes)
            took = self._clock.monotonic() - now
            self._queue.charge(key, took)
            self._metrics.took(took)
            if outcome is not None:
                self._metrics.decided(outcome)
        self._measure(now)
        return key is not None

    def _answer_check(self) -> bool:
        self._fleet.turn.begin(TURN_STEPS)
        return self._fit_checks.answer()

    def _look(self, pod: str, _: Changes) -> None:
        self._waits.look(pod)

    def next_due(self) -> float | None:
        """Return when ``step`` has something to do (monotonic seconds); None if only an event can give it something."""
        times = [self._read_at]
        if self.decides:
            parts = (self._queue, self._in_flight, self._fit_checks, self._reporter, self._quota_uses, self._protecting)
            times += [part.next_due() for part in parts]
            times += [self._clock.monotonic()] if self._waits.has_unexplained else []
        return min((due for due in times if due is not None), default=None)

    @property
    def decides(self) -> bool:
        """True if something may be decided now."""
        return self._deciding and not (self._contact.stale or self._unsafe() or self._unreadable_rules())

    @property
    def in_doubt(self) -> bool:
        """True if a write may have been made, or may yet be, without an answer; keep the lease then."""
        return self._in_flight.in_doubt

    @property
    def ready(self) -> bool:
        """True if everything has been listed."""
        return self._state.complete

    @property
    def unready(self) -> str:
        """Reason why this program cannot do its work, and an operator may have to act; "" if it can."""
        listing = "" if self._state.complete else "not all objects have been listed yet"
        return self._contact.lasting or self._unsafe() or self._unreadable_rules() or listing

    def _unreadable_rules(self) -> str:
        """Return the taint rule that cannot be decoded, against which devices could be handed out; "" if none."""
        unreadable = self._state.unreadable
        if not unreadable.count(DEVICE_TAINT_RULES.plural):
            return ""
        [rule, *_] = unreadable.of(DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA)
        return f"{rule}; write it anew, or delete it"

    # The state

    @property
    def state(self) -> State:
        """The state that decisions are made from, to be read only."""
        return self._state

    @property
    def held_nodes(self) -> Collection[HeldNode]:
        """The holds of nodes for single pods."""
        return self._waits.held

    @property
    def most_held(self) -> int:
        """Most nodes that may be held back for gangs at a time, and as many for single pods."""
        return self._waits.most_held

    @property
    def held_domains(self) -> Collection[HeldDomain]:
        """The holds of nodes for gangs."""
        return self._waits.domains.held

    def usage_snapshot(self) -> Mapping[DeviceId, DeviceUse]:
        """Return the devices in use, as far as the controller knows: ``Fleet.usage_snapshot()``."""
        return self._fleet.usage_snapshot()

    def fleet_snapshot(self) -> Snapshot | None:
        """Return a copy of what is known of the fleet; None if this controller does not decide."""
        if not self._deciding:
            return None
        began = self._clock.monotonic()
        snapshot = self._fleet_copies.snapshot(self._waits)
        self._metrics.copied_fleet(self._clock.monotonic() - began)
        return snapshot

    def in_use(self) -> dict[str, str]:
        """Return the devices of ours in use, and who holds them, as ``devices_in_use``."""
        return devices_in_use(self._state)

    # Changes and metrics

    def _requeue(self, changes: Changes) -> None:
        now = self._clock.monotonic()
        self._fleet_copies.note(changes)
        for found in changes.unreadable:
            if self._state.unreadable.count(found.resource.plural) <= _MOST_LOGGED:
                self._log.error(
                    "object cannot be decoded", kind=found.resource.kind, key=found.key, problem=found.problem
                )
        if not self._deciding:
            return
        for found in changes.unreadable[:_MOST_LOGGED]:
            self._reporter.report_unreadable(found)
        for quota in changes.invalid_quotas[:_MOST_LOGGED]:
            self._reporter.report_invalid_quota(quota)
        self._quota_uses.note(changes.quota_uses)
        self._fit_checks.note(changes)
        self._templates.note(changes)
        for pod in changes.pods:
            self._queue.add(("pod", pod), now)
        for gang in changes.gangs:
            self._queue.add_changed(gang, now)
        for claim in changes.claims:
            self._queue.add(("claim", claim), now)
        self._waits.wake(changes)

    def _rank(self, key: Key) -> Rank:
        """Return the place of the key in the order of service."""
        kind, name = key
        name = (self._state.gangs.of(name) or name) if kind == "wake" else name
        if kind == "gang" or name != key[1]:
            # A member is as urgent as its gang.
            members = [pod for member in self._state.gangs.members(name) if (pod := self._state.pods.get(member))]
            return rank_of_gang(self._state, members) if members else Rank(0, "", name)
        if kind == "template":
            # It is as urgent as the first pod that waits for it, and comes before others of that priority.
            waiting = self._state.pods.get(next(iter(self._state.on_demand.awaiting(name)), ""))
            return Rank(-waiting.priority if waiting else 0, "", name)
        pod = None if kind == "claim" else self._state.pods.get(name)
        return rank_of(self._state, pod) if pod else Rank(0, "", name)

    def _level(self, key: Key) -> int:
        """Return the level of the key: claims first, because they may free devices; then pods and gangs by priority."""
        return _CLAIMS_FIRST if key[0] == "claim" else self._rank(key).below

    def _measure(self, now: float) -> None:
        if now >= self._gauge_at:
            self._gauge_at = now + _GAUGE_SECONDS
            self._metrics.allocated(self._state.allocated_by_kind())
