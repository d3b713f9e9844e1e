"""Prepares and unprepares claims for the kubelet, and recovers them when the plugin starts.

``transaction`` carries out a prepare, and ``retiring`` undoes it. All state is on disk, so two instances can take turns
during a rolling update.
"""

import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeVar

from driver.disk import FULL
from driver.errors import SENSELESS, Fault, InvalidInput, LodeError, OperatorFault, TransientFault
from driver.kube.api import ApiError, Forbidden, Unavailable
from driver.observe import Metrics
from kubeletplugin.hardware import Card, CardGone, HardwareRefusal, InUse, NoRoom, Unsupported
from kubeletplugin.kubelet_devices import KubeletClaim
from kubeletplugin.node_context import NodeContext
from kubeletplugin.offers import Recorded
from kubeletplugin.prepare import exclusion
from kubeletplugin.prepare.assessor import Assessor, Blocked
from kubeletplugin.prepare.checkpoint import Checkpoint, CorruptCheckpoint, PreparedClaim
from kubeletplugin.prepare.claim_metrics import ClaimMetrics, NamedClaim
from kubeletplugin.prepare.claim_usage import containers_with, is_allocated, pods_that_forbid_unprepare
from kubeletplugin.prepare.claims import (
    CallWithdrawnError,
    ClaimRef,
    DeviceHeldError,
    FailureReason,
    PrepareCall,
    PrepareError,
    PrepareResult,
)
from kubeletplugin.prepare.container import prepare_result
from kubeletplugin.prepare.device_status import DeviceStatusWriter
from kubeletplugin.prepare.node_devices import NodeDevices
from kubeletplugin.prepare.plan import ClaimPlan
from kubeletplugin.prepare.recovery import Recovery
from kubeletplugin.prepare.retiring import Retiring, retire
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.prepare.transaction import Transaction

LOOKUP_SECONDS = 5.0
"""Longest time in which an unprepare looks for pods that forbid it. The kubelet waits 45 s, and the pod cannot end
before."""
RETRY_TIMEOUT_SECONDS = 20.0
"""Longest time of retries within one call. The kubelet waits 45 s, and after a failure 60 to 90 s before it calls
again."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0

Operation = Literal["prepare", "unprepare"]
_FAILED: Mapping[Operation, str] = {"prepare": "claim not prepared", "unprepare": "claim not unprepared"}

T = TypeVar("T")


class Preparer:
    """Prepares and unprepares claims of one node. Safe to call from several threads and processes at once.

    Args:
        wake: called, from any thread, when ``retiring`` has something to do.
        kubelet_claims: see ``Recovery``.
        device_status: is told of each claim that is read; None writes nothing to claims.
    """

    def __init__(
        self,
        node: NodeContext,
        metrics: Metrics,
        wake: Callable[[], None] = lambda: None,
        kubelet_claims: Callable[[], Collection[KubeletClaim]] = lambda: (),
        device_status: DeviceStatusWriter | None = None,
    ):
        self._api = node.api
        self._clock = node.clock
        self._node_name = node.name
        self._boot_id = node.boot_id
        self._driver = node.settings.driver_name
        self._unhealthy = node.settings.names.unhealthy
        self._log = node.log
        self._storage = ClaimStorage(node.files, node.settings, self._repaired)
        self._devices = NodeDevices(node, device_status)
        self._recovery = Recovery(node, self._storage, self._devices, kubelet_claims)
        self._assessor = Assessor(self._devices, node.hardware.control, node.boot_id)
        self._transaction = Transaction(node, self._storage, self._devices, self._assessor, completed=self._count)
        self.retiring = Retiring(node, self._storage, wake)
        """Undoes the steps of claims that were given up; its owner steps it."""
        self.unrestored: frozenset[str] = frozenset()
        """The uids of claims left to ``restore_rest``: their cards or the API did not answer, or the checkpoint was
        rebuilt since."""
        self._seconds = metrics.histogram(
            "claim_operation_seconds", "Time to prepare or unprepare a claim.", "operation"
        )
        self._errors = metrics.counter(
            "claim_operation_errors", "Claims not prepared or unprepared, by who must act.", "operation", "reason"
        )
        self._claims = ClaimMetrics(metrics, named=node.settings.kubeletplugin.claim_metrics)

    def claims(self) -> Mapping[str, NamedClaim]:
        """The claims that are prepared, by uid, as they were shown last. Waits for nobody."""
        return self._claims.claims

    def tidy(self) -> None:
        """Undo the unfinished work of a killed instance. Calls neither the API nor the hardware.

        Raises:
            OperatorFault: a newer version wrote the checkpoint; the operator must act.
            ApiError, TransientFault, OSError: call again after a pause.
        """
        with self._storage.lock():
            self._count(self._recovery.tidy(self._storage.load()))
        self.retiring.hasten()

    def restore(self) -> None:
        """Restore lost files of prepared claims, and their partitions and modes that a reboot removed.

        Claims of an earlier boot that are no longer allocated are given up. A claim whose card does not answer stays as
        it is and is in ``unrestored``. So is a claim whose records are lost, until kubelet and API name it and its
        devices.

        The kubelet may be served before this: running containers do not need it.

        Raises:
            OperatorFault: a newer version wrote the checkpoint; the operator must act.
            ApiError, TransientFault, OSError: call again after a pause.
        """
        checkpoint = self._identified()
        stale = self._recovery.stale(checkpoint)
        answers = self._recovery.answers(checkpoint.without(*stale))
        with self._storage.lock():
            checkpoint = self._recovery.restore(self._storage.load(), stale, answers)
            self._count(checkpoint)
        self.unrestored = (
            answers.silent | self._resume(checkpoint, answers.cards) | self._recovery.guessed(checkpoint).keys()
        )
        self.retiring.hasten()

    def restore_rest(self) -> None:
        """Restore the ``unrestored`` claims as far as possible. Raises the errors of ``restore``."""
        checkpoint, rest = self._identified(), self.unrestored
        answers = self._recovery.answers(checkpoint.only(rest))
        with self._storage.lock():
            checkpoint = self._recovery.restore(self._storage.load(), {}, answers).only(rest)
        left = answers.silent | self._resume(checkpoint, answers.cards) | self._recovery.guessed(checkpoint).keys()
        self.unrestored = (self.unrestored - rest) | left

    def _identified(self) -> Checkpoint:
        """Read the checkpoint, and complete claims whose records are lost from the answers of kubelet and API.

        Does not wait for them: claims that they do not know now are completed by a later call.
        """
        with self._storage.lock():
            checkpoint = self._storage.load()
        try:
            found = self._recovery.identified(checkpoint)
        except (ApiError, TransientFault) as error:
            claims = sorted(self._recovery.guessed(checkpoint))
            self._log.warning("prepared claims not identified", claims=claims, reason=str(error))
            return checkpoint
        if found:
            with self._storage.lock():
                checkpoint = self._recovery.identify(self._storage.load(), found)
            for uid in found:
                self.retiring.awaits_no_more(uid)
        return checkpoint

    def leave(self) -> None:
        """Remove this program's own files if no claim is recorded. Called at the end; another instance may go on.

        Raises:
            LodeError, OSError: they are not removed, or not all.
        """
        with self._storage.lock():
            checkpoint = self._storage.peek()
            if checkpoint.claims or checkpoint.extra:
                return
            self._storage.clear()
        self._storage.remove_locks()

    def prepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, PrepareResult | PrepareError]:
        """Make the devices of each claim ready for containers; one result per claim, by uid.

        Idempotent. Retries for up to ``RETRY_TIMEOUT_SECONDS`` in all while the API does not answer, while a claim that
        is no longer allocated is still prepared here, or while another object is in the way on the card.

        Args:
            wanted: whether the caller still waits. When a pod is deleted while it starts, the kubelet withdraws its
                call and unprepares the claim at once. A call carried out after that would leave the claim prepared for
                ever, so nothing is written for a withdrawn call.
        """
        call = PrepareCall(self._clock.monotonic() + RETRY_TIMEOUT_SECONDS, wanted)
        return {ref.uid: self._run("prepare", ref, partial(self._prepare, ref, call)) for ref in refs}

    def unprepare(
        self, refs: Sequence[ClaimRef], wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, PrepareError | None]:
        """Undo ``prepare``; by uid, None on success. A claim that is not prepared is a success.

        Never waits for the hardware, and for the API at most ``LOOKUP_SECONDS`` and the time of one call.

        Args:
            wanted: whether the caller still waits. A kubelet that has given up the call calls again, and may have the
                claim prepared for another pod before. So nothing is undone for a withdrawn call.
        """
        call = PrepareCall(self._clock.monotonic() + LOOKUP_SECONDS, wanted)
        return {ref.uid: self._run("unprepare", ref, partial(self._unprepare, ref, call)) for ref in refs}

    def _resume(self, checkpoint: Checkpoint, cards: tuple[Card, ...]) -> frozenset[str]:
        """Carry out the actions of claims of an earlier boot again; returns the uids of claims whose cards do not
        answer."""
        call = PrepareCall(self._clock.monotonic(), lambda: True)
        silent: set[str] = set()
        for claim in self._recovery.past(checkpoint):
            try:
                self._transaction.resume(claim, cards, call)
            except TransientFault as fault:
                silent.add(claim.plan.ref.uid)
                self._log.error(
                    "hardware of a prepared claim not restored yet", claim=str(claim.plan.ref), reason=str(fault)
                )
            except (HardwareRefusal, InvalidInput, OperatorFault, CallWithdrawnError) as error:
                self._log.error(
                    "hardware of a prepared claim not restored", claim=str(claim.plan.ref), reason=str(error)
                )
        return frozenset(silent)

    def prepared(self) -> Mapping[str, PrepareResult]:
        """All claims that are prepared now, by uid.

        Raises:
            OperatorFault, ApiError, OSError: the checkpoint cannot be read.
        """
        with self._storage.lock():
            claims = self._storage.load().claims
        return {
            uid: prepare_result(claim.plan, self._driver) for uid, claim in claims.items() if claim.state == "completed"
        }

    def recorded(self) -> Recorded:
        """The actions and devices of all recorded claims. Takes no lock: a checkpoint is replaced as a whole.

        Raises:
            LodeError, OSError: the checkpoint cannot be read. A damaged one is rebuilt by the next step of
                ``retiring``.
        """
        return self._peek().recorded

    def _peek(self) -> Checkpoint:
        try:
            return self._storage.peek()
        except CorruptCheckpoint:
            self.retiring.hasten()
            raise

    def _prepare(self, ref: ClaimRef, call: PrepareCall) -> PrepareResult:
        if not ref.has_file_name:
            raise InvalidInput(str(ref), [Fault("uid", "is not a uid of the API server")])
        # The API and the hardware are asked at the same time, and the checkpoint of before is removed meanwhile: the
        # pod waits for the slowest of them, not for their sum.
        plan, cards = self._retry(call, ref, partial(self._devices.plan, ref, self._storage.tidy))
        if any(card.bridged for card in cards):
            self._retry(call, ref, partial(self._check_containers, plan, cards))
        removable: dict[str, PreparedClaim] = {}
        # Each round makes progress or raises: what was judged removable is removed by the next attempt, unless it has
        # changed, and then it is judged anew. The deadline of the call bounds the rounds.
        while isinstance(answer := self._attempt(plan, cards, removable, call), Blocked):
            removable |= self._removable(cards, answer, call)
        self.retiring.awaits_no_more(ref.uid)
        if self._storage.wants_reserve:
            self.retiring.hasten()
        return answer

    def _check_containers(self, plan: ClaimPlan, cards: tuple[Card, ...]) -> None:
        """Check that no container has variables of a device plugin twice. Asks the API only if a claim has any."""
        if others := exclusion.with_variables(plan, cards, self._peek()):
            exclusion.check_containers(plan.ref, others, containers_with(self._api, plan.ref))

    def _attempt(
        self, plan: ClaimPlan, cards: tuple[Card, ...], removable: Mapping[str, PreparedClaim], call: PrepareCall
    ) -> PrepareResult | Blocked:
        """One attempt (``Transaction.attempt``), repeated while the hardware does not answer or is busy."""
        try:
            return self._retry(call, plan.ref, partial(self._transaction.attempt, plan, cards, removable, call))
        except (InUse, NoRoom):
            # The place is somebody else's. A claim that stayed as begun would keep its devices until the kubelet calls
            # again, which it does not do for a pod that was deleted meanwhile.
            self._transaction.give_up(plan.ref)
            raise
        except CardGone as gone:
            raise OperatorFault(
                f"{plan.ref}: {gone}; its pod starts here once the card works again. Delete the pod to have it placed "
                f"on other devices; a claim that tolerates the taint {self._unhealthy} may get this card again"
            ) from gone

    def _removable(self, cards: tuple[Card, ...], blocked: Blocked, call: PrepareCall) -> dict[str, PreparedClaim]:
        """The blocking claims that can be removed. Pauses first if others are expected to go soon.

        A claim that is no longer allocated may still have containers here, if its pod was deleted by force. The kubelet
        stops them and then unprepares the claim, so this waits for that. A claim has no containers if it was never
        completed, was given up, or was prepared before the last boot. Its steps on the hardware are undone first.

        Raises:
            DeviceHeldError: claims that are still allocated hold the devices, or the kubelet did not unprepare the
                others in time.
            HardwareRefusal: the steps of such a claim cannot be undone now.
        """
        ref = blocked.wanted.plan.ref
        allocated: list[PreparedClaim] = []
        released: list[PreparedClaim] = []
        for claim in blocked.claims.values():
            own = claim.plan.ref.uid == ref.uid or claim.state == "stopping" or claim.is_unknown
            live = not own and self._retry(call, ref, partial(is_allocated, self._api, claim.plan))
            (allocated if live else released).append(claim)
        if held := self._assessor.blocked(blocked.wanted, cards, _checkpoint_of(allocated)):
            raise DeviceHeldError.by_allocated(ref, _refs(held.claims.values()), held.reasons)
        idle = [claim for claim in released if self._is_idle(claim, ref)]
        if busy := [claim for claim in released if claim not in idle]:
            self.retiring.await_end(busy)
            if self._clock.monotonic() + LONGEST_PAUSE_SECONDS > call.deadline:
                if lost := [claim for claim in busy if claim.is_unknown]:
                    raise DeviceHeldError.by_unknown(ref, _refs(lost))
                raise DeviceHeldError.by_ended(ref, _refs(busy))
            self._clock.sleep(LONGEST_PAUSE_SECONDS)
        for claim in idle:
            if claim.steps:
                self._retry(call, ref, partial(self._end, claim))
        return {claim.plan.ref.uid: claim for claim in idle if not claim.steps}

    def _is_idle(self, claim: PreparedClaim, ref: ClaimRef) -> bool:
        """Whether the claim has no containers; ``ref`` is the claim that is prepared anew."""
        return claim.state != "completed" or claim.boot_id != self._boot_id or claim.plan.ref.uid == ref.uid

    def _end(self, claim: PreparedClaim) -> None:
        """Give up a claim that is still recorded like this, and undo its steps."""
        uid = claim.plan.ref.uid
        with self._storage.lock():
            checkpoint = self._storage.load()
            if claim.state != "stopping" and checkpoint.claims.get(uid) == claim:
                retire(self._storage, checkpoint, [uid])
        self.retiring.finish(uid)

    def _unprepare(self, ref: ClaimRef, call: PrepareCall) -> None:
        if not ref.has_file_name:
            return
        with self._storage.lock():
            # What is not prepared here needs no question to the API, so its pod can end at once.
            known = ref.uid in self._storage.load().claims
        if known and (pods := self._pods_that_forbid_unprepare(ref, call)):
            raise DeviceHeldError(
                f"{ref}: pods still run with it on this node: {', '.join(pods)}; it stays prepared until they stop"
            )
        with self._storage.lock():
            call.check(ref)  # under the lock: a prepare that follows the withdrawal comes after this
            checkpoint = self._storage.load()
            # Also if the checkpoint has no such claim: files of it may be there, and the kubelet must be able to end
            # the pod.
            left = retire(self._storage, checkpoint, [ref.uid])
            if ref.uid in checkpoint.claims:
                self._log.info("claim unprepared", claim=str(ref))
            self._count(left)
        self.retiring.awaits_no_more(ref.uid)
        if ref.uid in left.claims:
            self.retiring.hasten()

    def _pods_that_forbid_unprepare(self, ref: ClaimRef, call: PrepareCall) -> tuple[str, ...]:
        return pods_that_forbid_unprepare(
            self._api, ref, self._node_name, lambda: self._clock.monotonic() < call.deadline
        )

    def _count(self, checkpoint: Checkpoint) -> None:
        self._claims.show(checkpoint)

    def _repaired(self, error: CorruptCheckpoint) -> Checkpoint:
        self._log.error("checkpoint is damaged", reason=str(error))
        checkpoint = self._recovery.rebuild(error.left)
        self.unrestored |= frozenset(checkpoint.claims)
        return checkpoint

    def _retry(self, call: PrepareCall, ref: ClaimRef, act: Callable[[], T]) -> T:
        """Call ``act``; retry until the call's deadline while the API or the hardware does not answer.

        Also retries while another object is in the way: drivers report partitions as in use for a while after their
        processes have ended.
        """
        pause = FIRST_PAUSE_SECONDS
        while True:
            call.check(ref)
            try:
                return act()
            except (Unavailable, TransientFault, InUse, NoRoom):
                if self._clock.monotonic() + pause > call.deadline:
                    raise
            self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _run(self, operation: Operation, ref: ClaimRef, act: Callable[[], T]) -> T | PrepareError:
        started = self._clock.monotonic()
        try:
            return act()
        except LodeError as error:
            failure = PrepareError(_reason(error), str(error))
        except OSError as error:
            remedy = "free some room there" if error.errno in FULL else "correct that on the node"
            failure = PrepareError("operator", f"{ref}: {error}; {remedy}")
        except SENSELESS as error:  # the last line: the other claims of the call have nothing to do with it
            failure = PrepareError("operator", f"{ref}: defect of the plugin: {error!r}; report it with the log")
            self._log.error("defect", claim=str(ref), traceback=traceback.format_exc())
        finally:
            self._seconds.labels(operation).observe(self._clock.monotonic() - started)
        self._errors.labels(operation, failure.reason).inc()
        self._log.error(_FAILED[operation], claim=str(ref), reason=failure.reason, error=failure.message)
        return failure


def _checkpoint_of(claims: Iterable[PreparedClaim]) -> Checkpoint:
    return Checkpoint({claim.plan.ref.uid: claim for claim in claims})


def _refs(claims: Iterable[PreparedClaim]) -> list[ClaimRef]:
    return [claim.plan.ref for claim in claims]


def _reason(error: LodeError) -> FailureReason:
    match error:
        case InvalidInput() | Unsupported():
            return "invalid"
        case DeviceHeldError() | InUse():
            return "conflict"
        case OperatorFault() | HardwareRefusal() | Forbidden():
            return "operator"
        case _:
            return "transient"
