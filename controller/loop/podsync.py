"""Decides about one pod at a time, and has decisions carried out."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from controller.loop.holds import Holds
from controller.loop.reasons import PodReports
from controller.loop.waiting import WaitingPods
from controller.preemption import wait_for_ends
from controller.preemption.worker import Preempting
from controller.reconcile import NO_HISTORY, DecisionContext, NodeRestrictions, PlacementHistory, decide
from controller.reconcile.decisions import (
    ClaimUpdate,
    Decision,
    Idle,
    LetGo,
    MakeRoom,
    PlacePod,
    PodRefusal,
    Reason,
    Release,
    TakeBack,
    Wait,
    claim_updates,
)
from controller.reconcile.history import RELEASE_SECONDS, NodesBeingRetried
from controller.reconcile.pods import NOT_ASKED_YET
from controller.refusal import Refusal
from controller.state import Changes, PodView
from controller.worker import Shared, Worker
from controller.worker.metrics import DecisionOutcome
from controller.worker.queue import objects_of
from controller.worker.writes_in_flight import MOST_TRIES, SequenceState, asked_to_wait
from controller.writing import NotEvicted, Obstacle, WriteResult, WriteSequence
from controller.writing.sequences import (
    admit_steps,
    claim_steps,
    end_wish_step,
    let_go_steps,
    making_room_steps,
    promises_of,
    unbound_step,
    verdict_step,
    withdraw_step,
)
from controller.writing.steps import Step
from driver.backoff import delay
from driver.clock import rfc3339
from driver.errors import OperatorFault
from driver.kube.api import AlreadyExists, Conflict, NotFound, Unavailable

_CONFLICTS = (Conflict, NotFound, AlreadyExists)
_MOST_CONFLICTS = 6
"""Failed writes of a pod, one after the other, after which a conflict counts as a refusal: it takes half a minute."""
_MOST_CONFLICTS_AFTER_EVICTIONS = 2
"""The same of a pod for which others were evicted: every pause is one in which somebody else takes what they left."""
_BUSY_SECONDS = 0.1
"""Pause before a pod is decided again whose victim is being written."""
_OUTCOMES = {
    LetGo: DecisionOutcome.POD_GATE_REMOVED,
    MakeRoom: DecisionOutcome.POD_MAKES_ROOM,
    PlacePod: DecisionOutcome.POD_PLACED,
    Release: DecisionOutcome.POD_RELEASED,
    TakeBack: DecisionOutcome.POD_TAKEN_BACK,
}
Written = LetGo | PlacePod | Release | TakeBack | MakeRoom
"""Decisions that mean writes."""


@dataclass(slots=True)
class _RetryState:
    """The memory about one pod between decisions. Allocations are never part of it."""

    uid: str
    attempts: int = 0
    """The number of writes that failed, one after the other."""
    history: PlacementHistory = field(default_factory=PlacementHistory)
    carrying_out: Written | None = None
    """The decision that is being written."""
    given_up: bool = False
    """True if a write was given up since the pod was placed last: the next one is tried once."""
    event: bool = True
    """True if an Event reports devices that are taken back."""


class PodSync(Worker):
    """Syncs pods, one decision at a time; adds each to the queue for the time when it is due again."""

    def __init__(
        self, shared: Shared, *, preempting: Preempting, waiting: WaitingPods, holds: Holds, reports: PodReports
    ):
        super().__init__(shared)
        self._in_vain = shared.in_vain
        self._max_wait = shared.settings.max_retry_seconds
        self._preempting = preempting
        self._waiting = waiting
        self._holds = holds
        self._reports = reports
        self._reporter = reports.reporter
        self._retries: dict[str, _RetryState] = {}
        self._retried_nodes = NodesBeingRetried()

    def restore(self) -> None:
        """Look at all pods that ask for devices."""
        self._queue.soon("pod", [pod.key for pod in self._state.pods.values() if pod.gates or pod.references])

    def note(self, changes: Changes) -> None:
        """Have the pods decided about that have changed."""
        self._queue.soon("pod", changes.pods)

    def sync(self, key: str, changes: Changes) -> DecisionOutcome | Reason | None:
        """Decide about the pod ``key``, and have the decision carried out.

        Args:
            changes: takes in the objects that have to be looked at again.

        Returns:
            The outcome; None if writes are under way, so that nothing could be decided, or if it is known later.
        """
        pod = self._state.pods.get(key)
        if pod is None:
            self._retries.pop(key, None)
            self._preempting.end(key, changes)
            self._settle(key)
            return DecisionOutcome.POD_GONE
        if gang := self._state.gangs.gang_of(key):
            self._queue.add_changed(gang, self._clock.monotonic())
            return None
        if self._in_flight.is_busy(objects_of(pod)):
            # The pod is looked at again when the writes have ended.
            return None
        decision = self._decide(pod)
        if not isinstance(decision, MakeRoom) and not self._is_pause(decision):
            ended = self._preempting.end(key, changes, decision)
            decision = self._decide(pod) if ended and isinstance(decision, Refusal) else decision
        return self.carry_out_decision(pod, decision, changes)

    def _decide(self, pod: PodView) -> Decision:
        now, history = self._clock.monotonic(), self.history_of(pod.key)
        restrictions = NodeRestrictions(self._holds.from_pod(pod), retried=self._retried_nodes.of_others(pod.key))
        context = DecisionContext(restrictions, self._in_vain, self._max_wait)
        # What others were refused is no answer for a pod that sees more places than they do.
        restrictions = self._preempting.restrict(context.restrictions, [pod.key])
        with_kept = replace(context, restrictions=restrictions, in_vain=NOT_ASKED_YET)
        with self._state.kept_places.open_to([pod.key]) as opened:
            decision = decide(self._state, pod.key, now, history, with_kept if opened else context)
        if not isinstance(decision, Refusal):
            return decision
        # What is kept for lower priorities is taken only if there is no other place.
        with self._state.kept_places.open_to([pod.key], pod.priority) as opened:
            if opened:
                decision = decide(self._state, pod.key, now, history, with_kept)
            if isinstance(decision, Refusal) and self.may_evict_for([pod.key]):
                return self._preempting.eviction_for(pod, decision, history, with_kept if opened else context)
        return decision

    @staticmethod
    def _is_pause(decision: Decision) -> bool:
        """Return whether the pod is decided again in a moment, whatever happens."""
        return isinstance(decision, Wait) and decision.reason is Reason.EVALUATING

    def may_evict_for(self, pods: Collection[str]) -> bool:
        """Return whether others may be evicted for these pods (keys), by what came of it before."""
        again_at = max(self.history_of(key).evictions.again_at for key in pods)
        if again_at <= self._clock.monotonic():
            return True
        self._queue.add(("pod", next(iter(pods))), again_at)
        return False

    def history_of(self, key: str) -> PlacementHistory:
        """Return the history of the pod ``key``."""
        retry, pod = self._retries.get(key), self._state.pods.get(key)
        return retry.history if retry and pod and retry.uid == pod.uid else NO_HISTORY

    def carry_out_decision(
        self, pod: PodView, decision: Decision, changes: Changes, *, event: bool = True, wish: str = ""
    ) -> DecisionOutcome | Reason | None:
        """Have a decision about the pod carried out; return as ``sync``.

        Args:
            event: whether an Event reports the wait (``Reporter.report_wait``), or the loss of devices.
            wish: by which a member of a gang asks autoscalers for a node (``Reporter.set_wish``).
        """
        retry = self._retries.get(pod.key)
        if retry is None or retry.uid != pod.uid:
            retry = self._retries[pod.key] = _RetryState(pod.uid)
        if isinstance(decision, Refusal):
            return self._wait_for_node(pod, decision)
        if isinstance(decision, Wait):
            retry.history = retry.history.after(decision, self._clock.monotonic())
            return self._wait(pod, decision, event, wish)
        retry.event = event
        self._end_wait(pod.key, placed=isinstance(decision, PlacePod))
        if isinstance(decision, Idle):
            if decision.after is not None:
                self._queue.soon("pod", [pod.key], decision.after)
            if pod.node_name or pod.terminal:
                del self._retries[pod.key]
                self._settle(pod.key)
            return DecisionOutcome.POD_IDLE
        return self._carry_out(pod, retry, decision, changes)

    # Waiting

    def _wait_for_node(self, pod: PodView, answer: PodRefusal) -> Reason:
        """Let the pod wait until a node can take it. The reasons are costly to find, so they are found later."""
        if answer.why.by_every_node:
            self._in_vain.remember(answer.why.shape, self._state.nodes.generation)
        self._waiting.wait_for_node(answer)
        if answer.after is not None:
            self._queue.soon("pod", [pod.key], answer.after)
        self._reports.explain_later(pod)
        self._holds.hold_node(pod, answer)
        return answer.why.reason

    def _wait(self, pod: PodView, wait: Wait, event: bool, wish: str) -> Reason:
        """Let the pod wait for something else than a node of its own."""
        if wait.after is not None:
            self._queue.soon("pod", [pod.key], wait.after)
        if wait.report:
            self._holds.end(("pod", pod.key))
            self._waiting.wait(pod, wait)
            self._reports.report(pod, wait, event=event, wish=wish or wait.unschedulable)
        else:
            self._end_wait(pod.key)
            if wait.reason is not Reason.EVALUATING:
                self._reporter.set_wish(pod, "")
        return wait.reason

    def _end_wait(self, key: str, *, placed: bool = False) -> None:
        self._reports.end(key)
        self._waiting.end(key)
        self._holds.waits_no_more(key, placed=placed)

    def _settle(self, key: str) -> None:
        """Forget that the pod waited, which is bound, has ended or is gone."""
        self._end_wait(key)
        self._reports.settle(key)
        self._retried_nodes.settled(key)

    # Carrying out

    def _carry_out(
        self, pod: PodView, retry: _RetryState, decision: Written, changes: Changes
    ) -> DecisionOutcome | None:
        if isinstance(decision, PlacePod) and decision.allocations:
            self._retried_nodes.placed(pod.key, decision.shape, decision.node)
            self._preempting.recheck([decision.node], but=pod.key)
        if isinstance(decision, MakeRoom):
            self._preempting.keep(pod, decision, changes)
        timestamp = rfc3339(self._clock.now())
        consumer, devices = partial(self._state.consumer, pod), self._state.device_statuses
        updates = claim_updates(decision, consumer, devices, timestamp)
        wishing = self._wishing(pod, updates)
        steps = (*claim_steps(self._state, updates), *self._pod_steps(pod, decision, timestamp))
        if isinstance(decision, TakeBack) and not pod.node_name:
            steps = (unbound_step(self._state, pod, silent=decision.unbound), *steps)
        elif isinstance(decision, PlacePod) and decision.outdates_verdict:
            steps = (verdict_step(pod, timestamp), *steps)
        steps = (*(end_wish_step(one, timestamp) for one in wishing), *steps)
        if not steps:
            self._carried_out(pod.key, retry, decision)
            return _OUTCOMES[type(decision)]
        sequence = WriteSequence(("pod", pod.key), steps, author=self)
        if self._in_flight.is_busy(sequence.objects):
            # A claim that another member of the gang shares is being written; it is decided again afterwards.
            if isinstance(decision, MakeRoom):
                self._queue.soon("pod", [pod.key], _BUSY_SECONDS)
            return None
        retry.carrying_out = decision
        tries = 1 if retry.given_up else MOST_TRIES
        changes.add(self._in_flight.submit(sequence, promises_of(self._state, updates), tries))
        for one in wishing:
            self._reporter.end_wish(one.key)
        return None

    def _wishing(self, pod: PodView, updates: Iterable[ClaimUpdate]) -> Sequence[PodView]:
        """Return the pods that must ask autoscalers for a node no more: this one, and others that share its claims."""
        sharers = (user for update in updates for user in self._state.pods.using(update.claim))
        pods = [self._state.pods[key] for key in dict.fromkeys((pod.key, *sharers)) if key in self._state.pods]
        return [one for one in pods if one.gates and self._reporter.may_wish(one)]

    def _pod_steps(self, pod: PodView, decision: Written, timestamp: str) -> Iterable[Step]:
        match decision:
            case LetGo():
                return let_go_steps(self._state, pod)
            case MakeRoom():
                return making_room_steps(self._state, pod, decision, timestamp)
            case PlacePod(admit=True):
                return admit_steps(self._state, pod, decision, timestamp)
            case TakeBack() if pod.nominated and not self._state.gangs.gang_of(pod.key):
                # A gang remembers by it where the member was.
                return (withdraw_step(pod),)
        return ()

    def written(self, result: WriteResult, changes: Changes) -> None:
        """As ``Worker.written``; the changes lose the pod if it is tried again after a pause."""
        progress, error = self._in_flight.on_result(result, changes)
        outcome = self._written(result.sequence.subject[1], progress, error, changes)
        if outcome is not None:
            self._metrics.decided(outcome)

    def _written(
        self, key: str, progress: SequenceState, error: Exception | None, changes: Changes
    ) -> DecisionOutcome | None:
        """Take in the result of the writes for the pod ``key``; return the outcome of the decision."""
        if error is not None:
            self._metrics.failed(error.answer if isinstance(error, NotEvicted) else error)
        if progress is SequenceState.IN_DOUBT:
            return DecisionOutcome.UNAVAILABLE
        retry = self._retries.get(key)
        if retry is None or retry.carrying_out is None:
            return None
        decision, retry.carrying_out = retry.carrying_out, None
        if error is None:
            self._carried_out(key, retry, decision)
            return _OUTCOMES[type(decision)]
        most_conflicts = _MOST_CONFLICTS if not self._evicted_for(key) else _MOST_CONFLICTS_AFTER_EVICTIONS
        if isinstance(error, _CONFLICTS) and retry.attempts < most_conflicts:
            pause = min(delay(retry.attempts), self._max_wait)
            self._retry(key, retry, error, pause, changes)
            return DecisionOutcome.CONFLICT
        if isinstance(error, NotEvicted) and error.why is not Obstacle.RIGHTS:
            return self._not_evicted(key, retry, error, changes)
        reason = Reason.FIELDS_DROPPED if isinstance(error, OperatorFault) else Reason.WRITE_REFUSED
        message = str(error) if isinstance(error, OperatorFault) else f"the API server refused a write: {error}"
        if isinstance(error, Unavailable):
            retry.given_up = True
            message = f"a write was given up, after it was not answered, or answered with not now: {error}"
        pause = max(delay(retry.attempts + 1, bound=self._max_wait), asked_to_wait(error))
        if isinstance(decision, PlacePod | LetGo):
            now = self._clock.monotonic()
            keeps, evicted = self._only_lacks_the_rest(decision, error), self._evicted_for(key)
            wait = Wait(reason, message)
            retry.history = retry.history.after_refused_write(wait, now, pause, keeps=keeps, evicted=evicted)
            self._retry(key, retry, error, 0, changes)
            return DecisionOutcome.REFUSED
        if isinstance(error, NotEvicted):
            pause = self._preempting.refused(error, pause)
            if error.victim.key.partition("/")[0] != key.partition("/")[0]:
                # The answer names the pod and its namespace; the log has it.
                message = "the API server refused to evict a pod in another namespace"
        if pod := self._state.pods.get(key):
            self._reporter.report_wait(pod, Wait(reason, message))
        self._retry(key, retry, error, pause, changes)
        return DecisionOutcome.REFUSED

    def _not_evicted(self, key: str, retry: _RetryState, error: NotEvicted, changes: Changes) -> DecisionOutcome:
        """Take in that one pod is not let go, so that others are looked for."""
        self._log.info("not evicted", pod=error.victim.key, preemptor=key, error=str(error))
        pause = self._preempting.refused(error, delay(retry.attempts + 1))
        if error.why is Obstacle.BUDGET:
            self._queue.soon("pod", [key])
            return DecisionOutcome.OVER_BUDGET
        self._retry(key, retry, error, pause, changes)
        return DecisionOutcome.REFUSED

    def _only_lacks_the_rest(self, decision: PlacePod | LetGo, error: Exception) -> bool:
        """Return whether the devices of a placement are written, and nobody refused what comes after them."""
        allocations = decision.allocations if isinstance(decision, PlacePod) else ()
        claims = [self._state.claims.get(claim) for claim, _ in allocations]
        written = all(record and record.claim.allocation for record in claims)
        return written and isinstance(error, (Unavailable, *_CONFLICTS))

    def _evicted_for(self, key: str) -> bool:
        """Return whether others were evicted for the placement of the pod, or of its gang."""
        gang = self._state.gangs.gang_of(key)
        return any(self.history_of(pod).evictions.begun for pod in (key, *self._state.gangs.members(gang)))

    def _carried_out(self, key: str, retry: _RetryState, decision: Written) -> None:
        now = self._clock.monotonic()
        retry.history = retry.history.after(decision, self._clock.monotonic())
        if _ends_the_wait(decision):
            retry.attempts, retry.given_up = 0, False
            self._reporter.forget(key)
        match decision:
            case PlacePod(node, allocations, admit=admit):
                if allocations and (pod := self._state.pods.get(key)):
                    self._metrics.placed_after(max(0.0, now - self._asked_at(pod)))
                what = "pod placed" if admit else "devices allocated for a member of a gang"
                devices = {claim: [it.device.device for it in allocation.results] for claim, allocation in allocations}
                self._log.info(what, pod=key, node=node, devices=devices)
            case MakeRoom(place, victim):
                if not place.evicts and (pod := self._state.pods.get(key)):
                    self._reporter.report_wait(pod, wait_for_ends(decision), event=retry.event)
                if victim is None:
                    return
                self._preempting.evicted(decision)
                self._metrics.preempted()
                self._log.info("pod evicted", pod=victim.pod, node=victim.node, preemptor=key)
                if pod := self._state.pods.get(key):
                    self._reporter.report_eviction(victim, pod, place.node)
                self._queue.soon("pod", [key])
            case Release(_, node):
                self._log.info("reservations dropped", pod=key, node=node)
                self._queue.soon("pod", [key], RELEASE_SECONDS)
            case TakeBack(_, node, message):
                self._log.warning("allocation taken back", pod=key, node=node, reason=message)
                if decision.unschedulable:
                    self._retried_nodes.refused(key)
                # A refused write is reported as the reason why the pod waits.
                if retry.event and retry.history.unwritten is None and (pod := self._state.pods.get(key)):
                    self._reporter.report_taken_back(pod, node, message)
                self._queue.soon("pod", [key])

    def _asked_at(self, pod: PodView) -> float:
        """Return from when on the pod could have been placed (monotonic seconds)."""
        return self._state.at(self._state.pods.openings.opened(pod) or pod.created)

    def _retry(self, key: str, retry: _RetryState, error: Exception, pause: float, changes: Changes) -> None:
        """Try the pod again after ``pause`` seconds."""
        retry.attempts += 1
        self._log.info("retrying pod", pod=key, error=str(error), attempt=retry.attempts)
        # The failed write may have woken the pod through its own effects; the back-off holds nevertheless.
        changes.pods.pop(key, None)
        self._queue.discard(("pod", key))
        self._queue.soon("pod", [key], pause)


def _ends_the_wait(decision: Written) -> bool:
    """Return whether the pod has our gate no more once the decision is carried out."""
    return isinstance(decision, LetGo) or (isinstance(decision, PlacePod) and decision.admit)
