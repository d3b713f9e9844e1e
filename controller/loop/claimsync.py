"""Decides about one claim at a time: has allocations cleared that nobody uses."""

from controller.reconcile import decide_claim
from controller.reconcile.claims import ORPHAN_SECONDS, DoubleUse, SickDevices, double_use, sick_devices
from controller.reconcile.decisions import Deallocate, FreeClaim, Idle, Wait
from controller.reporting import Reporter
from controller.state import Changes
from controller.worker import Shared, Worker
from controller.worker.metrics import DecisionOutcome
from controller.worker.writes_in_flight import SequenceState
from controller.writing import WriteResult, WriteSequence
from controller.writing.sequences import claim_steps
from driver.kube.api import RESOURCE_CLAIMS


class ClaimSync(Worker):
    """Syncs claims, one decision at a time; adds each to the queue for the time when it is due again."""

    def __init__(self, shared: Shared, reporter: Reporter):
        super().__init__(shared)
        self._reporter = reporter
        self._unused_since: dict[str, float] = {}
        self._double_uses: dict[str, DoubleUse] = {}
        """The double uses that were reported, by the youngest claim."""
        self._unhealthy: dict[str, SickDevices] = {}
        """The unhealthy devices in use that were reported, by claim."""

    def restore(self) -> None:
        """Look at all claims."""
        self._queue.soon("claim", self._state.claims)

    def note(self, changes: Changes) -> None:
        """Have the claims decided about that have changed."""
        self._queue.soon("claim", changes.claims)

    def sync(self, key: str, changes: Changes) -> DecisionOutcome | None:
        """Decide about the claim ``key``, and have the decision carried out.

        Args:
            changes: takes in the objects that have to be looked at again.

        Returns:
            The outcome; None if writes are under way, so that nothing could be decided, or if it is known later.
        """
        if self._in_flight.is_busy([(RESOURCE_CLAIMS, key)]):
            # The claim is looked at again when the writes have ended.
            return None
        self._look_for_double_use(key, changes)
        self._look_for_unhealthy(key)
        decision = decide_claim(self._state, key, self._clock.monotonic(), self._unused_since.get(key))
        match decision:
            case Wait(after=after):
                self._unused_since.setdefault(key, self._clock.monotonic())
                self._queue.soon("claim", [key], after or ORPHAN_SECONDS)
                return DecisionOutcome.CLAIM_WAITS
            case FreeClaim(message):
                self._log.info("clearing allocation", claim=key, reason=message)
                steps = tuple(claim_steps(self._state, (Deallocate(key),)))
                changes.add(self._in_flight.submit(WriteSequence(("claim", key), steps, author=self)))
                return None
            case Idle():
                self._unused_since.pop(key, None)
        return DecisionOutcome.CLAIM_IDLE

    def _look_for_double_use(self, key: str, changes: Changes) -> None:
        """Report over-allocation of the claim ``key`` and others; re-decide the pods of the newest claim."""
        concerned = [known.claim for known in self._double_uses.values() if key in known.rivals]
        for claim in dict.fromkeys((key, *concerned)):
            found, known = double_use(self._state, claim), self._double_uses.get(claim)
            if found is not None and (remaining := found.settled_at - self._clock.monotonic()) > 0:
                self._queue.soon("claim", [claim], remaining)
            elif found is None and known is not None:
                del self._double_uses[claim]
                self._log.info("double use ended", claim=claim)
            elif found is not None and found != known:
                self._double_uses[claim] = found
                self._log.error("double use", claim=claim, rivals=found.rivals, what=found.what)
                self._reporter.report_double_use(found)
                changes.pods.update(dict.fromkeys(self._state.pods.using(claim)))
        self._metrics.double_uses(len(self._double_uses))

    def _look_for_unhealthy(self, key: str) -> None:
        """Report the broken devices of the claim ``key`` to its pods, if that was not done yet."""
        found, known = sick_devices(self._state, key), self._unhealthy.get(key)
        if found is None:
            if self._unhealthy.pop(key, None):
                self._log.info("devices in use are healthy again", claim=key)
            return
        self._unhealthy[key] = found
        told = known.pods if known is not None and set(found.devices) <= set(known.devices) else ()
        if news := [pod for pod in found.pods if pod not in told]:
            self._log.warning("devices in use are unhealthy", claim=key, devices=found.devices, pods=found.pods)
            self._reporter.report_unhealthy(found, news)

    def written(self, result: WriteResult, changes: Changes) -> None:
        """As ``Worker.written``; the changes lose the claim if it is tried again after a pause."""
        progress, error = self._in_flight.on_result(result, changes)
        self._metrics.decided(self._written(result.sequence.subject[1], progress, error, changes))

    def _written(self, key: str, progress: SequenceState, error: Exception | None, changes: Changes) -> DecisionOutcome:
        if error is None:
            self._unused_since.pop(key, None)
            return DecisionOutcome.CLAIM_FREED
        self._metrics.failed(error)
        if progress is SequenceState.IN_DOUBT:
            return DecisionOutcome.UNAVAILABLE
        self._log.info("retrying claim", claim=key, error=str(error))
        changes.claims.pop(key, None)
        self._queue.discard(("claim", key))
        self._queue.soon("claim", [key], ORPHAN_SECONDS)
        return DecisionOutcome.CONFLICT
