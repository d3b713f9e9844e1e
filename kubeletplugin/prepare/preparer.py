"""Preparing claims on a node, as a transaction.

Read the claim, plan, checkpoint "started", write the files, checkpoint "completed", answer. Killed between any two
steps, the next call or the next start finishes or undoes it. The truth is on disk and nowhere else, so that two
instances can take turns during a rolling update.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from driver.clock import Clock
from driver.errors import Fault, InvalidInput, LodeError, OperatorFault, TransientFault
from driver.files import Files
from driver.kube.api import Api, Forbidden, Unavailable
from driver.observe import Logger, Metrics
from driver.settings import Settings
from kubeletplugin.hardware.port import Hardware
from kubeletplugin.prepare import container, holders
from kubeletplugin.prepare.checkpoint import Checkpoint, ClaimRecord, CorruptCheckpoint
from kubeletplugin.prepare.claims import ClaimRef, Prepared, PrepareError, Reason
from kubeletplugin.prepare.plan import Plan
from kubeletplugin.prepare.records import Records
from kubeletplugin.prepare.recovery import Recovery
from kubeletplugin.prepare.site import Site

PATIENCE_SECONDS = 20.0
"""How long one call tries again by itself: the kubelet waits 45 s, and after a failure 60 to 90 s before it retries."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0

T = TypeVar("T")


class Held(LodeError):
    """A device is in another claim's hands."""


class Abandoned(LodeError):
    """The kubelet no longer waits for the answer: nothing may be prepared that nobody would take back."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the kubelet: until when it is worth trying, and whether it is still wanted."""

    deadline: float
    wanted: Callable[[], bool]

    def go_on(self, ref: ClaimRef) -> None:
        if not self.wanted():
            raise Abandoned(f"{ref}: the kubelet has withdrawn its call; it calls again if it still wants the claim")


class Preparer:
    """Prepares and unprepares claims of one node. Safe to call from several threads and processes at once."""

    def __init__(
        self,
        api: Api,
        files: Files,
        clock: Clock,
        node_name: str,
        settings: Settings,
        hardware: Hardware,
        boot_id: str,
        metrics: Metrics,
        log: Logger,
    ):
        self._api = api
        self._clock = clock
        self._node_name = node_name
        self._boot_id = boot_id
        self._driver = settings.driver_name
        self._log = log
        self._records = Records(files, settings)
        self._site = Site(api, hardware, settings, node_name)
        self._recovery = Recovery(api, self._records, self._site, boot_id, log)
        self._seconds = metrics.histogram(
            "claim_operation_seconds", "Time to prepare or unprepare a claim.", "operation"
        )
        self._errors = metrics.counter(
            "claim_operation_errors", "Claims not prepared or unprepared, by who must act.", "operation", "reason"
        )
        self._held = metrics.gauge("prepared_claims", "Claims that are prepared on this node.")

    def recover(self) -> None:
        """Put the node in order before the kubelet is served. Half-prepared claims are undone, lost files restored.

        Raises:
            OperatorFault: the checkpoint is of a newer version; the operator must act.
            ApiError, TransientFault, OSError: call again after a pause.
        """
        with self._records.lock():
            checkpoint = self._load()
        stale = self._recovery.stale(checkpoint)
        with self._records.lock():
            self._recovery.tidy(self._load(), stale)
            self._held.set(len(self._load().claims))

    def prepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, Prepared | PrepareError]:
        """Make the devices of each claim ready for containers; one answer per claim, by uid.

        The same claim gives the same answer, whatever happened in between. Takes up to ``PATIENCE_SECONDS`` in all
        while the API gives no answer, or while a claim that is gone from the API has yet to be given up here.

        Args:
            wanted: whether the caller still waits. When a pod is deleted while it starts, the kubelet withdraws its
                call and unprepares the claim at once; a call that was carried out after that would leave the claim
                prepared for ever. So nothing is written for a call that is not wanted any more.
        """
        call = _Call(self._clock.monotonic() + PATIENCE_SECONDS, wanted)
        return {ref.uid: self._guarded("prepare", ref, partial(self._prepare, ref, call)) for ref in refs}

    def unprepare(self, refs: Sequence[ClaimRef]) -> dict[str, PrepareError | None]:
        """Take back what ``prepare`` made, by uid: None on success, also for a claim that is not known."""
        return {ref.uid: self._guarded("unprepare", ref, partial(self._unprepare, ref)) for ref in refs}

    def prepared(self) -> Mapping[str, Prepared]:
        """All claims that are prepared at present, by uid.

        Raises:
            OperatorFault, ApiError, OSError: the checkpoint cannot be read.
        """
        with self._records.lock():
            claims = self._load().claims
        return {
            uid: container.answer(record.plan, self._driver)
            for uid, record in claims.items()
            if record.state == "completed"
        }

    def _prepare(self, ref: ClaimRef, call: _Call) -> Prepared:
        if not ref.has_file_name:
            raise InvalidInput(str(ref), [Fault("uid", "has characters that no uid of the API server has")])
        plan = self._patiently(call, ref, partial(self._site.plan, ref))
        gone: frozenset[str] = frozenset()
        while True:
            with self._records.lock():
                call.go_on(ref)  # under the lock: an unprepare that follows the withdrawal comes before or after this
                checkpoint = self._load()
                known = checkpoint.claims.get(ref.uid)
                rest = checkpoint.without(*gone)
                blocking = frozenset() if known and _same(known, plan) else self._blockers(plan, rest)
                if not blocking:
                    return self._carry_out(plan, self._dropped(checkpoint, gone & checkpoint.claims.keys()))
            gone |= self._given_up(plan, [checkpoint.claims[uid] for uid in sorted(blocking)], call)

    def _blockers(self, plan: Plan, checkpoint: Checkpoint) -> frozenset[str]:
        held = {uid: record.plan.results for uid, record in checkpoint.claims.items()}
        found = self._site.blockers(plan, held)
        if plan.ref.uid in found:
            fault = Fault("status.allocation.devices.results", "two of its devices exclude each other on one card")
            raise InvalidInput(str(plan.ref), [fault])
        return found

    def _given_up(self, plan: Plan, blocking: Sequence[ClaimRecord], call: _Call) -> frozenset[str]:
        """Those of the blocking claims that can be cleared away; after a pause, if others should be gone soon.

        A claim that the API knows no more may still have containers here: its pod was deleted by force. The kubelet
        stops them and then gives the claim up, so that is waited for. Nothing can run of a claim that was never
        completed, or that was prepared before the machine was started last.

        Raises:
            Held: the claims that are still allocated leave no room, or those that are gone were not given up in time.
        """
        ref = plan.ref
        standing = {
            record.plan.ref: self._patiently(call, ref, partial(holders.standing, self._api, record.plan))
            for record in blocking
        }
        live = {record.plan.ref.uid: record for record in blocking if standing[record.plan.ref] == "live"}
        if self._site.blockers(plan, {uid: record.plan.results for uid, record in live.items()}):
            others = ", ".join(str(record.plan.ref) for record in live.values())
            raise Held(
                f"{ref}: its devices are held by {others}, prepared on this node and still allocated: "
                "delete the pods of one of them"
            )
        dead = [record for record in blocking if record.plan.ref.uid not in live]
        idle = [record for record in dead if record.state == "started" or record.boot_id != self._boot_id]
        if len(idle) < len(dead):
            if self._clock.monotonic() + LONGEST_PAUSE_SECONDS > call.deadline:
                names = ", ".join(str(record.plan.ref) for record in dead if record not in idle)
                raise Held(
                    f"{ref}: its devices were last given to {names}, which the API knows no more but the kubelet has "
                    "not given up yet: its containers may still run. This is tried again once they have stopped"
                )
            self._clock.sleep(LONGEST_PAUSE_SECONDS)
        return frozenset(record.plan.ref.uid for record in idle)

    def _dropped(self, checkpoint: Checkpoint, uids: frozenset[str]) -> Checkpoint:
        for uid in sorted(uids):
            self._records.remove(uid)
            self._log.warning("claim that is gone made way", claim=str(checkpoint.claims[uid].plan.ref))
        checkpoint = checkpoint.without(*uids)
        if uids:
            self._records.save(checkpoint)
        return checkpoint

    def _carry_out(self, plan: Plan, checkpoint: Checkpoint) -> Prepared:
        """The transaction proper, under the lock; ``checkpoint`` is what is stored."""
        known = checkpoint.claims.get(plan.ref.uid)
        again = known is not None and _same(known, plan)
        if known and again:
            plan = known.plan
        files = self._site.files(plan, self._records.places)
        record = ClaimRecord(plan, "started", self._boot_id, known.extra if known else {})
        if plan.results and not again:
            self._records.save(checkpoint.having(record))
        self._records.write(plan.ref.uid, files)
        done = (
            checkpoint.having(replace(record, state="completed")) if plan.results else checkpoint.without(plan.ref.uid)
        )
        if done.claims != checkpoint.claims:
            self._records.save(done)
        self._held.set(len(done.claims))
        self._log.info(
            "claim prepared", claim=str(plan.ref), devices=[str(r.device) for r in plan.results], again=again
        )
        return container.answer(plan, self._driver)

    def _unprepare(self, ref: ClaimRef) -> None:
        if not ref.has_file_name:
            return
        with self._records.lock():
            known = ref.uid in self._load().claims
        if known and (pods := holders.shared_by_running_pods(self._api, ref, self._node_name)):
            raise Held(
                f"{ref}: pods {', '.join(pods)} still run with it on this node; it stays prepared until they stop"
            )
        with self._records.lock():
            checkpoint = self._load()
            self._records.remove(ref.uid)
            if ref.uid in checkpoint.claims:
                checkpoint = checkpoint.without(ref.uid)
                self._records.save(checkpoint)
                self._log.info("claim unprepared", claim=str(ref))
            self._held.set(len(checkpoint.claims))

    def _load(self) -> Checkpoint:
        try:
            return self._records.load()
        except CorruptCheckpoint as error:
            self._log.error("checkpoint is damaged", reason=str(error))
            return self._recovery.rebuild()

    def _patiently(self, call: _Call, ref: ClaimRef, act: Callable[[], T]) -> T:
        """What ``act`` returns, tried again while nobody but time can help."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            call.go_on(ref)
            try:
                return act()
            except (Unavailable, TransientFault):
                if self._clock.monotonic() + pause > call.deadline:
                    raise
            self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _guarded(self, operation: str, ref: ClaimRef, act: Callable[[], T]) -> T | PrepareError:
        started = self._clock.monotonic()
        try:
            return act()
        except (LodeError, OSError) as error:
            failure = PrepareError(_reason(error), str(error))
        finally:
            self._seconds.labels(operation).observe(self._clock.monotonic() - started)
        self._errors.labels(operation, failure.reason).inc()
        self._log.error(f"claim not {operation}d", claim=str(ref), reason=failure.reason, error=failure.message)
        return failure


def _same(known: ClaimRecord, plan: Plan) -> bool:
    return known.state == "completed" and known.plan.results == plan.results


def _reason(error: LodeError | OSError) -> Reason:
    match error:
        case InvalidInput():
            return "invalid"
        case Held():
            return "conflict"
        case OperatorFault() | Forbidden() | OSError():
            return "operator"
        case _:
            return "transient"
