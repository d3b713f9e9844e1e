"""Decides about one pod at a time and carries the decision out."""

from collections.abc import Collection
from dataclasses import dataclass, field

from controller.loop.claimwriter import ClaimWriter
from controller.loop.metrics import ControllerMetrics, DecisionOutcome
from controller.loop.podwriter import PodWriter
from controller.loop.queue import Key, KeyedQueue
from controller.loop.reader import ObjectReader
from controller.loop.report import LastReport, Reporter
from controller.reconcile import (
    RELEASE_SECONDS,
    Decision,
    Idle,
    NodeOrder,
    Place,
    PlacementHistory,
    Reason,
    RefusalMemory,
    Release,
    RemoveGate,
    TakeBack,
    Unallocatable,
    Wait,
    claim_updates,
    decide,
    node_refusals,
    refusal_message,
)
from controller.state import PodView, State
from controller.waiting import OpenQuestions
from driver.backoff import delay
from driver.clock import Clock, rfc3339
from driver.errors import OperatorFault
from driver.kube.api import PODS, AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from driver.model import Consumer
from driver.observe import Logger


@dataclass(slots=True)
class _RetryState:
    """When one pod is tried again, and what was reported about it. Never what is allocated."""

    uid: str
    attempts: int = 0
    retry_at: float = 0.0
    """Monotonic seconds."""
    wait: tuple[Reason, str] | None = None
    """Reason and message of the wait that ``retry_at`` belongs to."""
    stale: bool = False
    """Whether a write failed, so that the pod and its claims must be read again before the next decision."""
    history: PlacementHistory = field(default_factory=PlacementHistory)
    last_report: LastReport | None = None


class PodSync:
    """Syncs pods, one decision at a time; adds each to the queue for the time when it is due again.

    Args:
        max_wait: longest back-off in seconds.
    """

    def __init__(
        self,
        state: State,
        queue: KeyedQueue[Key],
        reader: ObjectReader,
        claims: ClaimWriter,
        pods: PodWriter,
        reporter: Reporter,
        clock: Clock,
        metrics: ControllerMetrics,
        log: Logger,
        max_wait: float,
    ):
        self._state = state
        self._queue = queue
        self._reader = reader
        self._claims = claims
        self._pods = pods
        self._reporter = reporter
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._max_wait = max_wait
        self._retries: dict[str, _RetryState] = {}
        self._waiting: dict[str, None] = {}
        self._memory = RefusalMemory()
        self._questions = OpenQuestions()

    @property
    def waiting(self) -> Collection[str]:
        """Keys of the pods that cannot be placed at present; they are to be tried again when capacity is freed."""
        return self._waiting

    def sync(self, key: str) -> DecisionOutcome | Reason:
        """Decide about the pod ``key`` and carry the decision out.

        Raises:
            Deposed: leadership is lost; nothing more was written.
        """
        pod = self._state.pods.get(key)
        if pod is None:
            self._retries.pop(key, None)
            self._waiting.pop(key, None)
            self._questions.settled(key)
            return DecisionOutcome.POD_GONE
        retry = self._retries.get(key)
        if retry is None or retry.uid != pod.uid:
            retry = self._retries[key] = _RetryState(pod.uid)
        try:
            return self._advance(key, retry)
        except (Conflict, NotFound, AlreadyExists) as error:
            return self._retry(key, retry, DecisionOutcome.CONFLICT, error, min(delay(retry.attempts), self._max_wait))
        except (Invalid, Forbidden) as error:
            self._report(key, retry, Wait(Reason.WRITE_REFUSED, f"the API server refused a write: {error}"))
            return self._retry(key, retry, DecisionOutcome.REFUSED, error)
        except OperatorFault as error:
            self._report(key, retry, Wait(Reason.FIELDS_DROPPED, str(error)))
            return self._retry(key, retry, DecisionOutcome.REFUSED, error)
        except ApiError as error:
            return self._retry(key, retry, DecisionOutcome.UNAVAILABLE, error)

    def _advance(self, key: str, retry: _RetryState) -> DecisionOutcome | Reason:
        for claim in self._state.pods[key].claim_keys:
            if self._claims.lost_answer(claim):
                self._claims.resolve(claim)
        if retry.stale:
            self._reader.read_pod_and_claims(key)
            retry.stale = False
        order = NodeOrder(asked=self._questions.asked_for_others(key))
        decision = decide(self._state, key, self._clock.now(), retry.history, self._memory, self._max_wait, order)
        if isinstance(decision, Unallocatable):
            self._memory.remember(decision, self._state.nodes.generation)
            return self._wait_for_capacity(key, retry, decision)
        if isinstance(decision, Wait):
            retry.history = retry.history.after(decision, self._clock.now())
            return self._wait(key, retry, decision)
        self._waiting.pop(key, None)
        pod = self._state.pods.get(key)
        return self._carry_out(pod, retry, decision) if pod else DecisionOutcome.POD_IDLE

    # Carrying out

    def _carry_out(
        self, pod: PodView, retry: _RetryState, decision: Idle | RemoveGate | Place | Release | TakeBack
    ) -> DecisionOutcome:
        match decision:
            case RemoveGate():
                self._pods.remove_gate(pod)
                return DecisionOutcome.POD_GATE_REMOVED
            case Place():
                self._place(pod, retry, decision)
                return DecisionOutcome.POD_PLACED
            case Release():
                self._release(pod, retry, decision)
                return DecisionOutcome.POD_RELEASED
            case TakeBack():
                self._take_back(pod, retry, decision)
                return DecisionOutcome.POD_TAKEN_BACK
        if pod.node_name or pod.terminal:
            del self._retries[pod.key]
            self._questions.settled(pod.key)
        return DecisionOutcome.POD_IDLE

    def _place(self, pod: PodView, retry: _RetryState, decision: Place) -> None:
        if decision.outdates_verdict:
            self._pods.outdate_verdict(pod)
        self._update_claims(pod, decision)
        if decision.allocations:
            self._questions.placed(pod.key, decision.shape, decision.node)
        self._pods.admit(pod, decision.node)
        retry.attempts, retry.last_report, retry.wait = 0, None, None
        claims = [claim for claim, _ in decision.allocations]
        self._log.info("pod placed", pod=pod.key, node=decision.node, claims=claims)

    def _release(self, pod: PodView, retry: _RetryState, decision: Release) -> None:
        self._update_claims(pod, decision)
        retry.history = retry.history.after(decision, self._clock.now())
        self._log.info("reservations dropped", pod=pod.key, node=decision.node, unschedulable=pod.unschedulable)
        self._queue.add(("pod", pod.key), self._clock.monotonic() + RELEASE_SECONDS)

    def _take_back(self, pod: PodView, retry: _RetryState, decision: TakeBack) -> None:
        if not decision.unschedulable or self._still_unschedulable(pod):
            self._update_claims(pod, decision)
            self._log.warning("allocation taken back", pod=pod.key, node=decision.node, reason=decision.message)
            retry.history = retry.history.after(decision, self._clock.now())
            if decision.unschedulable:
                self._questions.refused(pod.key)
            current = self._state.pods.get(pod.key, pod)
            self._reporter.report_taken_back(current, decision.node, decision.message)
        retry.attempts += 1
        self._queue.add(("pod", pod.key), self._clock.monotonic())

    def _still_unschedulable(self, pod: PodView) -> bool:
        """Whether the pod, read again, is still not bound; kube-scheduler may have bound it after all."""
        self._reader.read(PODS, pod.key)
        current = self._state.pods.get(pod.key)
        return bool(current and current.uid == pod.uid and not current.node_name and current.unschedulable)

    def _update_claims(self, pod: PodView, decision: Decision) -> None:
        consumer = Consumer("pods", pod.name, pod.uid)
        for update in claim_updates(decision, consumer, rfc3339(self._clock.now())):
            self._claims.write(update)

    # Waiting

    def _wait_for_capacity(self, key: str, retry: _RetryState, decision: Unallocatable) -> Reason:
        """Wait until capacity is freed. The reasons are costly on many nodes, so they are found only when reported."""
        waits_already = retry.wait is not None and retry.wait[0] is Reason.UNALLOCATABLE
        if waits_already and self._clock.monotonic() < retry.retry_at:
            self._waiting[key] = None
            self._queue.add(("pod", key), retry.retry_at)
            return Reason.UNALLOCATABLE
        refusals = node_refusals(self._state, decision, self._memory)
        self._memory.remember_refusals(decision.shape, refusals)
        message = refusal_message(refusals, decision.claims)
        return self._wait(key, retry, Wait(Reason.UNALLOCATABLE, message, after=decision.after))

    def _wait(self, key: str, retry: _RetryState, wait: Wait) -> Reason:
        now = self._clock.monotonic()
        if not wait.report:
            if wait.after is not None:
                self._queue.add(("pod", key), now + wait.after)
            return wait.reason
        self._waiting[key] = None
        if retry.wait != (wait.reason, wait.message) or now >= retry.retry_at:
            # A pod that was woken in between, perhaps by this controller's own report, has made no new attempt.
            retry.attempts += 1
            retry.wait = (wait.reason, wait.message)
            pause = delay(retry.attempts, bound=self._max_wait) if wait.after is None else wait.after
            retry.retry_at = now + pause
            self._report(key, retry, wait)
        self._queue.add(("pod", key), retry.retry_at)
        return wait.reason

    def _report(self, key: str, retry: _RetryState, wait: Wait) -> None:
        if pod := self._state.pods.get(key):
            attempt = max(1, retry.attempts)
            retry.last_report = self._reporter.report_wait(pod, wait, attempt, self._max_wait, retry.last_report)

    def _retry(
        self, key: str, retry: _RetryState, outcome: DecisionOutcome, error: Exception, pause: float | None = None
    ) -> DecisionOutcome:
        """Try the pod again after a back-off, from objects that are read again."""
        retry.attempts += 1
        retry.stale = True
        self._metrics.failed(error)
        self._log.info("retrying pod", pod=key, error=str(error), attempt=retry.attempts)
        pause = delay(retry.attempts, bound=self._max_wait) if pause is None else pause
        # The failed write may have woken the pod through its own effects; the back-off holds nevertheless.
        self._queue.discard(("pod", key))
        self._queue.add(("pod", key), self._clock.monotonic() + pause)
        return outcome
