"""Decides about one claim at a time: clears allocations that nobody uses."""

from controller.loop.claimwriter import ClaimWriter
from controller.loop.metrics import ControllerMetrics, DecisionOutcome
from controller.loop.queue import Key, KeyedQueue
from controller.reconcile import ORPHAN_SECONDS, Deallocate, Free, Idle, Wait, decide_claim
from controller.state import State
from driver.clock import Clock
from driver.kube.api import ApiError
from driver.observe import Logger


class ClaimSync:
    """Syncs claims, one decision at a time; adds each to the queue for the time when it is due again."""

    def __init__(
        self,
        state: State,
        queue: KeyedQueue[Key],
        writer: ClaimWriter,
        clock: Clock,
        metrics: ControllerMetrics,
        log: Logger,
    ):
        self._state = state
        self._queue = queue
        self._writer = writer
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._unused_since: dict[str, float] = {}

    def sync(self, key: str) -> DecisionOutcome:
        """Decide about the claim ``key`` and carry the decision out.

        Raises:
            Deposed: leadership is lost; nothing more was written.
        """
        now = self._clock.monotonic()
        try:
            if self._writer.lost_answer(key):
                self._writer.resolve(key)
            decision = decide_claim(self._state, key, self._clock.now(), self._unused_since.get(key))
            match decision:
                case Wait(after=after):
                    self._unused_since.setdefault(key, self._clock.now())
                    self._queue.add(("claim", key), now + (after or ORPHAN_SECONDS))
                    return DecisionOutcome.CLAIM_WAITS
                case Free(message):
                    self._writer.write(Deallocate(key))
                    self._unused_since.pop(key, None)
                    self._log.info("allocation cleared", claim=key, reason=message)
                    return DecisionOutcome.CLAIM_FREED
                case Idle():
                    self._unused_since.pop(key, None)
                    return DecisionOutcome.CLAIM_IDLE
        except ApiError as error:
            self._metrics.failed(error)
            self._log.info("retrying claim", claim=key, error=str(error))
            self._queue.add(("claim", key), now + ORPHAN_SECONDS)
            return DecisionOutcome.UNAVAILABLE
