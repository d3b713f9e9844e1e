"""Preparing claims on a node, as a transaction.

The steps are: read the claim, plan, checkpoint "started", write the files, checkpoint "completed", answer. If the
plugin is killed between two steps, the next call or the next start finishes or undoes them. All state is on disk, so
two instances can take turns during a rolling update.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

from driver.clock import Clock
from driver.errors import Fault, InvalidInput, LodeError, OperatorFault, TransientFault
from driver.files import Files
from driver.kube.api import Api, Forbidden, Unavailable
from driver.observe import Logger, Metrics
from driver.settings import Settings
from kubeletplugin.hardware.port import Hardware
from kubeletplugin.prepare.card_identity import cards_of, exchanged
from kubeletplugin.prepare.checkpoint import Checkpoint, CorruptCheckpoint, PreparedClaim
from kubeletplugin.prepare.claim_usage import is_allocated, pods_that_forbid_unprepare
from kubeletplugin.prepare.claims import ClaimRef, FailureReason, PrepareError, PrepareResult
from kubeletplugin.prepare.container import prepare_result
from kubeletplugin.prepare.node_devices import HardwareAnswer, NodeDevices
from kubeletplugin.prepare.plan import ClaimPlan
from kubeletplugin.prepare.recovery import Recovery
from kubeletplugin.prepare.storage import ClaimStorage

LOOKUP_SECONDS = 5.0
"""How long an unprepare looks for pods that forbid it. The kubelet waits 45 s, and its pod cannot end before."""
RETRY_TIMEOUT_SECONDS = 20.0
"""How long one call retries by itself: the kubelet waits 45 s, and after a failure 60 to 90 s before it calls again."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0

Operation = Literal["prepare", "unprepare"]
_FAILED: Mapping[Operation, str] = {"prepare": "claim not prepared", "unprepare": "claim not unprepared"}

T = TypeVar("T")


class DeviceHeldError(LodeError):
    """Another claim holds a device."""


class CallWithdrawnError(LodeError):
    """The kubelet does not wait for the answer any more. Nothing may be prepared, because nobody would unprepare it."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the kubelet: until when to retry, and whether the kubelet still waits."""

    deadline: float
    wanted: Callable[[], bool]

    def check(self, ref: ClaimRef) -> None:
        """Raises CallWithdrawnError if the kubelet does not wait any more."""
        if not self.wanted():
            raise CallWithdrawnError(f"{ref}: the kubelet withdrew the call; it calls again if it needs the claim")


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
        self._storage = ClaimStorage(files, settings)
        self._devices = NodeDevices(api, hardware, settings, node_name)
        self._recovery = Recovery(api, self._storage, self._devices, boot_id, log)
        self._seconds = metrics.histogram(
            "claim_operation_seconds", "Time to prepare or unprepare a claim.", "operation"
        )
        self._errors = metrics.counter(
            "claim_operation_errors", "Claims not prepared or unprepared, by who must act.", "operation", "reason"
        )
        self._claims = metrics.gauge("prepared_claims", "Claims that are prepared on this node.")

    def tidy(self) -> None:
        """Undo what a killed instance left half done. Needs neither the API nor the hardware.

        Raises:
            OperatorFault: a newer version wrote the checkpoint; the operator must act.
            ApiError, TransientFault, OSError: call again after a pause.
        """
        with self._storage.lock():
            self._claims.set(len(self._recovery.tidy(self._load()).claims))

    def restore(self) -> None:
        """Restore lost files of prepared claims, and forget claims of an earlier boot that are not allocated any more.

        The kubelet may be served before: containers that run need nothing of it.

        Raises:
            OperatorFault: a newer version wrote the checkpoint; the operator must act.
            ApiError, TransientFault, OSError: call again after a pause.
        """
        with self._storage.lock():
            checkpoint = self._load()
        stale = self._recovery.stale(checkpoint)
        answers = self._recovery.answers(checkpoint.without(*stale))
        with self._storage.lock():
            self._claims.set(len(self._recovery.restore(self._load(), stale, answers).claims))

    def prepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, PrepareResult | PrepareError]:
        """Make the devices of each claim ready for containers; one result per claim, by uid.

        The same claim gives the same result, whatever happened in between. A call takes up to ``RETRY_TIMEOUT_SECONDS``
        in all while the API does not answer, or while a claim that is not allocated any more is still prepared here.

        Args:
            wanted: whether the caller still waits. When a pod is deleted while it starts, the kubelet withdraws its
                call and unprepares the claim at once. A call carried out after that would leave the claim prepared for
                ever, so nothing is written for a call that is not wanted any more.
        """
        call = _Call(self._clock.monotonic() + RETRY_TIMEOUT_SECONDS, wanted)
        return {ref.uid: self._run("prepare", ref, partial(self._prepare, ref, call)) for ref in refs}

    def unprepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, PrepareError | None]:
        """Undo ``prepare``; by uid, None on success. A claim that is not prepared is a success.

        Never waits for the hardware, and for the API at most ``LOOKUP_SECONDS`` and the time of one call.

        Args:
            wanted: whether the caller still waits. A kubelet that has given up the call calls again, and may have the
                claim prepared for another pod before. So nothing is undone for a call that is not wanted any more.
        """
        call = _Call(self._clock.monotonic() + LOOKUP_SECONDS, wanted)
        return {ref.uid: self._run("unprepare", ref, partial(self._unprepare, ref, call)) for ref in refs}

    def prepared(self) -> Mapping[str, PrepareResult]:
        """All claims that are prepared now, by uid.

        Raises:
            OperatorFault, ApiError, OSError: the checkpoint cannot be read.
        """
        with self._storage.lock():
            claims = self._load().claims
        return {
            uid: prepare_result(claim.plan, self._driver) for uid, claim in claims.items() if claim.state == "completed"
        }

    def _prepare(self, ref: ClaimRef, call: _Call) -> PrepareResult:
        if not ref.has_file_name:
            raise InvalidInput(str(ref), [Fault("uid", "is not a uid of the API server")])
        plan, answer = self._retry(call, ref, partial(self._devices.plan, ref))
        removable: dict[str, PreparedClaim] = {}
        while True:
            with self._storage.lock():
                call.check(ref)  # under the lock: an unprepare that follows the withdrawal comes before or after this
                checkpoint = self._load()
                gone = checkpoint.unchanged(removable)
                if self._is_prepared(plan, answer, checkpoint):
                    blocking: frozenset[str] = frozenset()
                else:
                    blocking = self._conflicts(plan, answer, checkpoint.without(*gone))
                if not blocking:
                    return self._commit(plan, answer, self._remove(checkpoint, gone))
            removable |= self._removable(plan, answer, [checkpoint.claims[uid] for uid in sorted(blocking)], call)

    def _is_prepared(self, plan: ClaimPlan, answer: HardwareAnswer, checkpoint: Checkpoint) -> bool:
        """Whether the claim is prepared with the devices of the plan already.

        Raises:
            OperatorFault: its containers may run, and a device is on another card now.
        """
        known = checkpoint.claims.get(plan.ref.uid)
        if known is None or not _is_complete(known, plan):
            return False
        if known.boot_id == self._boot_id and (faults := exchanged(known.cards, plan, answer.cards)):
            raise OperatorFault(
                f"{plan.ref}: {'; '.join(faults)}: the cards of this node were numbered anew or exchanged; delete the "
                "pods that use the claim"
            )
        return True

    def _conflicts(self, plan: ClaimPlan, answer: HardwareAnswer, checkpoint: Checkpoint) -> frozenset[str]:
        uids = self._devices.conflicting_claims(plan, answer, checkpoint.claims.values(), self._boot_id)
        if plan.ref.uid in uids:
            fault = Fault("status.allocation.devices.results", "two of its devices exclude each other on one card")
            raise InvalidInput(str(plan.ref), [fault])
        return uids

    def _removable(
        self, plan: ClaimPlan, answer: HardwareAnswer, blocking: Sequence[PreparedClaim], call: _Call
    ) -> dict[str, PreparedClaim]:
        """Those of the blocking claims that can be removed; after a pause, if others are expected to go soon.

        A claim that is not allocated any more may still have containers here: its pod was deleted by force. The kubelet
        stops them and then unprepares the claim, so this waits for that. No container can run of a claim that was never
        completed, or that was prepared before the machine last started.

        Raises:
            DeviceHeldError: claims that are still allocated hold the devices, or the kubelet did not unprepare the
                others in time.
        """
        ref = plan.ref
        allocated: list[PreparedClaim] = []
        released: list[PreparedClaim] = []
        for claim in blocking:
            live = self._retry(call, ref, partial(is_allocated, self._api, claim.plan))
            (allocated if live else released).append(claim)
        if self._devices.conflicting_claims(plan, answer, allocated, self._boot_id):
            raise DeviceHeldError(
                f"{ref}: claims that are prepared on this node and still allocated hold its devices: "
                f"{_names(allocated)}; delete the pods of one of them"
            )
        idle = [claim for claim in released if claim.state == "started" or claim.boot_id != self._boot_id]
        if len(idle) < len(released):
            if self._clock.monotonic() + LONGEST_PAUSE_SECONDS > call.deadline:
                raise DeviceHeldError(
                    f"{ref}: claims that are not allocated any more but not unprepared yet hold its devices: "
                    f"{_names(claim for claim in released if claim not in idle)}; their containers may still run, and "
                    "the kubelet retries; if it has forgotten these claims, give them up with `lode release`"
                )
            self._clock.sleep(LONGEST_PAUSE_SECONDS)
        return {claim.plan.ref.uid: claim for claim in idle}

    def _remove(self, checkpoint: Checkpoint, uids: frozenset[str]) -> Checkpoint:
        for uid in sorted(uids):
            self._storage.remove(uid)
            self._log.warning("claim removed, its devices are needed", claim=str(checkpoint.claims[uid].plan.ref))
        checkpoint = checkpoint.without(*uids)
        if uids:
            self._storage.save(checkpoint)
        return checkpoint

    def _commit(self, plan: ClaimPlan, answer: HardwareAnswer, checkpoint: Checkpoint) -> PrepareResult:
        """The transaction proper, under the lock; ``checkpoint`` is what is stored."""
        known = checkpoint.claims.get(plan.ref.uid)
        again = known is not None and _is_complete(known, plan)
        if known and again:
            plan = known.plan
        files = self._devices.files(plan, answer, self._storage.paths)
        extra = known.extra if known and again else {}
        claim = PreparedClaim(plan, "started", self._boot_id, cards_of(plan, answer.cards), extra)
        if plan.results and not again:
            self._storage.save(checkpoint.with_claim(claim))
        self._storage.write(plan.ref.uid, files)
        done = (
            checkpoint.with_claim(replace(claim, state="completed"))
            if plan.results
            else checkpoint.without(plan.ref.uid)
        )
        if done.claims != checkpoint.claims:
            self._storage.save(done)
        self._claims.set(len(done.claims))
        self._log.info(
            "claim prepared", claim=str(plan.ref), devices=[str(r.device) for r in plan.results], again=again
        )
        return prepare_result(plan, self._driver)

    def _unprepare(self, ref: ClaimRef, call: _Call) -> None:
        if not ref.has_file_name:
            return
        with self._storage.lock():
            known = ref.uid in self._load().claims
        if known and (pods := self._pods_that_forbid_unprepare(ref, call)):
            raise DeviceHeldError(
                f"{ref}: pods still run with it on this node: {', '.join(pods)}; it stays prepared until they stop"
            )
        with self._storage.lock():
            call.check(ref)  # under the lock: a prepare that follows the withdrawal comes after this
            checkpoint = self._load()
            self._storage.remove(ref.uid)
            if ref.uid in checkpoint.claims:
                checkpoint = checkpoint.without(ref.uid)
                self._storage.save(checkpoint)
                self._log.info("claim unprepared", claim=str(ref))
            self._claims.set(len(checkpoint.claims))

    def _pods_that_forbid_unprepare(self, ref: ClaimRef, call: _Call) -> tuple[str, ...]:
        return pods_that_forbid_unprepare(
            self._api, ref, self._node_name, lambda: self._clock.monotonic() < call.deadline
        )

    def _load(self) -> Checkpoint:
        try:
            return self._storage.load()
        except CorruptCheckpoint as error:
            self._log.error("checkpoint is damaged", reason=str(error))
            return self._recovery.rebuild()

    def _retry(self, call: _Call, ref: ClaimRef, act: Callable[[], T]) -> T:
        """What ``act`` returns; retried until the call's deadline while the API or the hardware does not answer."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            call.check(ref)
            try:
                return act()
            except (Unavailable, TransientFault):
                if self._clock.monotonic() + pause > call.deadline:
                    raise
            self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _run(self, operation: Operation, ref: ClaimRef, act: Callable[[], T]) -> T | PrepareError:
        started = self._clock.monotonic()
        try:
            return act()
        except (LodeError, OSError) as error:
            failure = PrepareError(_reason(error), str(error))
        finally:
            self._seconds.labels(operation).observe(self._clock.monotonic() - started)
        self._errors.labels(operation, failure.reason).inc()
        self._log.error(_FAILED[operation], claim=str(ref), reason=failure.reason, error=failure.message)
        return failure


def _is_complete(known: PreparedClaim, plan: ClaimPlan) -> bool:
    return known.state == "completed" and known.plan.results == plan.results


def _names(claims: Iterable[PreparedClaim]) -> str:
    return ", ".join(str(claim.plan.ref) for claim in claims)


def _reason(error: LodeError | OSError) -> FailureReason:
    match error:
        case InvalidInput():
            return "invalid"
        case DeviceHeldError():
            return "conflict"
        case OperatorFault() | Forbidden() | OSError():
            return "operator"
        case _:
            return "transient"
