"""The controller: takes in what changes, and decides about one pod or claim at a time.

It has no threads and never sleeps or waits for the API: its owner feeds ``handle`` and calls ``step``, and the port
``Writes`` carries decisions out. Except for retry times, its memory is rebuilt from the API, so an instance may
be dropped at any moment and a new one continues its work.

Its state is kept up to date all the time. It decides only in a term of leadership, from ``lead`` to ``follow``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation import Fleet
from controller.allocation.selectors import TURN_STEPS
from controller.autoscaling import Protecting
from controller.census import FleetCopies, Snapshot
from controller.election import Deposed
from controller.kueue import FitChecks, Queued
from controller.loop.claimsync import ClaimSync
from controller.loop.contact import ClaimReading, Contact, ages_of, reflectors_of
from controller.loop.gangsync import GangSync
from controller.loop.holds import Holds
from controller.loop.podsync import PodSync
from controller.loop.reasons import PodReports
from controller.loop.waiting import WaitingPods
from controller.preemption import Occupants, VictimLimits, prepare
from controller.preemption.worker import Preempting
from controller.quotauses import QuotaUses
from controller.reconcile.decisions import Reason
from controller.reconcile.pods import MOST_SHAPES
from controller.refusal import AskedInVain
from controller.state import Changes, State, StateDelta, decision_settings
from controller.state.times import Timeline
from controller.templates import TemplateSync
from controller.waiting import Hold
from controller.worker import Shared, Worker
from controller.worker.metrics import ControllerMetrics, DecisionOutcome
from controller.worker.queue import Kind, Turns
from controller.worker.writes_in_flight import WritesInFlight
from controller.writing import WriteResult, Writes, WritesOfTerm
from driver.clock import Clock
from driver.kube.api import EVENTS, Api
from driver.observe import Logger, Metrics
from driver.settings import Settings

Decide = Callable[[str, Changes], DecisionOutcome | Reason | None]
"""Decides about the object with this key and has that carried out; what has to be looked at again goes to the changes.
Returns the outcome; None if nothing could be decided, or if the outcome is known later."""

_GAUGE_SECONDS: Final = 5.0
"""Least time between two updates of the gauge of allocated devices."""


class Repeats(Worker):
    """The writes of decisions that are made again, because nobody knows whether they were made."""

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._in_flight.next_due()

    def work(self) -> bool:
        """Repeat the next sequence that is due; return False if none is."""
        return self._in_flight.repeat_due()


class Decisions(Worker):
    """The decisions that are due, in the order of the queue.

    Args:
        decide: by kind of key.
        note: has all workers note what a decision has changed.
    """

    def __init__(self, shared: Shared, decide: Mapping[Kind, Decide], note: Callable[[Changes], None]):
        super().__init__(shared)
        self._decide = decide
        self._note = note
        self._gauge_at = 0.0

    def next_due(self) -> float | None:
        """As ``Worker.next_due``."""
        return self._queue.next_due()

    def work(self) -> bool:
        """Make the decision that comes first among those that are due; return False if none is."""
        now = self._clock.monotonic()
        key = self._queue.pop(now)
        if key is not None:
            kind, name = key
            changes = Changes()
            outcome = self._decide[kind](name, changes)
            self._note(changes)
            took = self._clock.monotonic() - now
            self._queue.charge(key, took)
            self._metrics.took(took)
            if outcome is not None:
                self._metrics.decided(outcome)
        self._measure(now)
        return key is not None

    def _measure(self, now: float) -> None:
        if now >= self._gauge_at:
            self._gauge_at = now + _GAUGE_SECONDS
            self._metrics.allocated(self._state.allocated_by_kind())


_MOST_LOGGED: Final = 100
"""Most unreadable objects of a kind that are logged; a metric counts all."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world of a controller.

    Attributes:
        api: read by the reflectors; nothing else goes through it.
        writes: carries decisions out; its owner passes every result on to ``Controller.handle``.
    """

    api: Api
    writes: Writes
    clock: Clock
    metrics: Metrics
    log: Logger


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
        self._settings = settings.controller
        self._metrics = ControllerMetrics(ports.metrics)
        self._log = ports.log
        self._fleet = Fleet(names=settings.names)
        self._state = State(
            self._fleet,
            settings.names,
            decision_settings(settings.controller),
            at=Timeline(ports.clock.now, ports.clock.monotonic).at,
            now=ports.clock.monotonic,
        )
        self._occupants = Occupants(self._state, follow=settings.controller.preemption.enabled)
        self._queued = Queued(settings.names.fits_now)
        if settings.controller.kueue.enabled:
            self._state.follow(self._queued.kinds)
        self._fleet_copies = FleetCopies(
            self._state,
            shown=settings.controller.fleet_metrics != "none",
            with_quotas="hami" in settings.controller.peer_metrics,
        )
        self._identity = identity
        self._unsafe = unsafe
        self._was_unsafe = True
        """Whether something kept from deciding at the last step; followed if other drivers are named."""
        self._contact = Contact(self._metrics, self._state)
        self._term: int | None = None
        self._metrics.count_unreadable(
            {resource.plural for resource in self._state.resources}, self._state.unreadable.count
        )
        self.reflectors = reflectors_of(ports.api, self._state, deliver or self.handle, ports.clock.monotonic)
        self._metrics.watch_ages(ages_of(self.reflectors, ports.clock.monotonic))
        self._workers = self._make_workers()
        self._metrics.count(
            lambda: self._queue.due(self._clock.monotonic()),
            lambda: len(self._waiting),
            lambda: self._holds.count,
        )

    def _make_workers(self) -> Sequence[Worker]:
        """Return the workers of a term, in the order in which they are asked for work.

        Those before them have forgotten all decisions. What is being written counts no longer: the next term reads the
        claims first.
        """
        self._deciding = False
        state, clock, log, settings = self._state, self._clock, self._log, self._settings
        self._in_flight = WritesInFlight(state, self._writes, clock, log, settings.longest_write_seconds)
        self._queue = Turns(state, self._in_flight.is_busy, clock)
        shared = Shared(
            state=state,
            queue=self._queue,
            writes=self._writes,
            in_flight=self._in_flight,
            in_vain=AskedInVain(MOST_SHAPES),
            clock=clock,
            metrics=self._metrics,
            log=log,
            settings=settings,
        )
        self._reading = ClaimReading(shared)
        preempting = Preempting(shared, self._occupants)
        templates = TemplateSync(shared)
        self._waiting = waiting = WaitingPods(shared, preempting, held_from=lambda pod: self._holds.from_pod(pod))
        self._holds = holds = Holds(shared, preempting, waiting)
        reports = PodReports(shared, waiting, holds, self._identity)
        pods = PodSync(shared, preempting=preempting, waiting=waiting, holds=holds, reports=reports)
        gangs = GangSync(shared, preempting=preempting, waiting=waiting, holds=holds, wishes=reports.wishes, pods=pods)
        claims = ClaimSync(shared, reports.reporter)
        decide: Mapping[Kind, Decide] = {
            "pod": pods.sync,
            "gang": gangs.sync,
            "claim": claims.sync,
            "wake": waiting.recheck,
            "template": templates.sync,
        }
        return (
            Repeats(shared),
            Protecting(shared),
            # What these have to do is in the queue, until the decision about it.
            preempting,
            templates,
            pods,
            gangs,
            claims,
            waiting,
            holds,
            Decisions(shared, decide, self._note),
            FitChecks(shared, self._queued, lambda: holds.closed),
            # Words come last: to find them may cost more than all decisions that are due.
            reports,
            QuotaUses(shared),
        )

    # Leading

    def lead(self, term: int) -> None:
        """Begin a term of leadership. Claims are read once more before anything is decided."""
        self.follow()
        self._term = term
        self._reading.restore()

    def follow(self) -> None:
        """End the term of leadership: decide nothing more, and go on keeping the state up to date."""
        if self._term is not None:
            self._term = None
            self._state.end_promises()
            self._workers = self._make_workers()

    def _begin(self) -> None:
        """Start deciding, if everything is known that decisions need."""
        if self._deciding or not (self._reading.done and self._state.complete):
            return
        self._deciding = True
        self._fleet_copies.begin(self._clock.monotonic())
        for worker in self._workers:
            worker.restore()

    # Running

    def handle(self, event: StateDelta | WriteResult) -> None:
        """Take in the report of a reflector, or the result of a write. Not while ``step`` runs."""
        if isinstance(event, WriteResult):
            self._note(self._written(event))
        else:
            self._note(self._state.apply(event))
            if self._state.complete and not self._deciding:
                # So that neither the first decision nor the first one after a takeover has all of it to do.
                self._fleet.index()
                if self._settings.preemption.enabled:
                    prepare(self._occupants.at(self._clock.monotonic(), VictimLimits()), self._state.cluster)
        self._begin()

    def _written(self, result: WriteResult) -> Changes:
        """Take in the objects of a result, and give it to its author."""
        changes = Changes()
        for answer in result.answers:
            if answer.object is None:
                changes.add(self._state.drop(answer.resource, answer.key, answer.uid))
            elif answer.resource != EVENTS:  # The state has none; their author reads them.
                changes.add(self._state.put(answer.resource, answer.object, answer.listed))
        author = result.sequence.author
        # A result of an earlier term says how the objects are, and nothing more.
        if author is not None and result.term == self._term and not isinstance(result.error, Deposed):
            author.written(result, changes)
        return changes

    def _note(self, changes: Changes) -> None:
        """Have everybody take in what has changed."""
        self._fleet_copies.follow(changes, self._clock.monotonic())
        for found in changes.unreadable:
            if self._state.unreadable.count(found.resource.plural) <= _MOST_LOGGED:
                fault = found.fault
                self._log.error("object cannot be decoded", kind=fault.kind, key=fault.key, problem=fault.message)
        if self._deciding:
            for worker in self._workers:
                worker.note(changes)

    def step(self) -> bool:
        """Do the next due piece of work; return False if nothing is due, or if nothing may be decided."""
        if self._reading.work():
            return True
        self._contact.check(self.reflectors, self._clock.monotonic())
        self._read_once_safe()
        if not self.decides:
            return False
        for worker in self._workers:
            self._fleet.turn.begin(TURN_STEPS)
            if worker.work():
                return True
        return False

    def _read_once_safe(self) -> None:
        """Read the claims once more when it has become safe to allocate devices of which kube-scheduler had some.

        Until then it may have allocated more, and the watch may lag behind.
        """
        if not self._settings.also_allocates:
            return
        before, self._was_unsafe = self._was_unsafe, bool(self._unsafe())
        if before and not self._was_unsafe and self._term is not None:
            self._reading.restore()

    def next_due(self) -> float | None:
        """Return when ``step`` has something to do (monotonic seconds); None if only an event can give it something."""
        workers = (self._reading, *(self._workers if self.decides else ()))
        return min((due for worker in workers if (due := worker.next_due()) is not None), default=None)

    @property
    def decides(self) -> bool:
        """True if something may be decided now."""
        # Another thread may find it safe between the two looks of a step, and then the claims are not read again yet
        # (test_what_becomes_safe_in_the_middle_of_a_step_counts_from_the_next_one).
        unsafe = self._unsafe() or (self._settings.also_allocates and self._was_unsafe)
        known = self._deciding and self._reading.done
        return known and not (self._contact.stale or unsafe or self._contact.unreadable_rule)

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
        return self._contact.lasting or self._unsafe() or self._contact.unreadable_rule or listing

    # The state

    @property
    def state(self) -> State:
        """The state that decisions are made from, to be read only."""
        return self._state

    @property
    def held_nodes(self) -> Collection[Hold]:
        """The holds of nodes for single pods."""
        return [one for one in self._holds.held if not one.gang]

    @property
    def most_held(self) -> int:
        """Most nodes that may be held back for gangs at a time, and as many for single pods."""
        return self._holds.most

    @property
    def held_domains(self) -> Collection[Hold]:
        """The holds of nodes for gangs."""
        return [one for one in self._holds.held if one.gang]

    def fleet_snapshot(self) -> Snapshot | None:
        """Return a copy of what is known of the fleet; None if this controller does not decide."""
        if not self._deciding:
            return None
        began = self._clock.monotonic()
        snapshot = self._fleet_copies.snapshot(self._waiting.waiting(), began)
        self._metrics.copied_fleet(self._clock.monotonic() - began)
        return snapshot
