"""Prepares one claim: from its plan to its files and its objects on the hardware.

A claim that needs actions is stored as "started" with all of them. They are carried out one by one, and the handle of
each is stored. The files are written, and "completed" is stored. If the plugin is killed in between, the next call or
the next start finishes or undoes the work: an action is in the checkpoint before it is carried out.

Files need no record before they are written: no container can use them before the kubelet has the answer, and the next
start removes files of claims that are not in the checkpoint.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from driver.errors import InvalidInput
from kubeletplugin.hardware import Card, HardwareRefusal, InUse, NoRoom
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare.assessor import Assessor, Blocked, Progress, changing, excludable, not_carried_out
from kubeletplugin.prepare.checkpoint import Checkpoint, CorruptCheckpoint, PreparedClaim
from kubeletplugin.prepare.claims import CallWithdrawnError, ClaimRef, PrepareCall, PrepareResult
from kubeletplugin.prepare.container import check_environment, prepare_result
from kubeletplugin.prepare.node_devices import NodeDevices
from kubeletplugin.prepare.plan import ClaimPlan
from kubeletplugin.prepare.retiring import retire
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.prepare.uses import UsesByDevice


class Transaction:
    """Prepares one claim after another. Safe to use from several threads and processes at once.

    Args:
        completed: called with the checkpoint after a claim was completed.
    """

    def __init__(
        self,
        node: NodeContext,
        storage: ClaimStorage,
        devices: NodeDevices,
        assessor: Assessor,
        completed: Callable[[Checkpoint], None],
    ):
        self._storage = storage
        self._devices = devices
        self._assessor = assessor
        self._control = node.hardware.control
        self._boot_id = node.boot_id
        self._driver = node.settings.driver_name
        self._log = node.log
        self._completed = completed

    def attempt(
        self, plan: ClaimPlan, cards: tuple[Card, ...], removable: Mapping[str, PreparedClaim], call: PrepareCall
    ) -> PrepareResult | Blocked:
        """Prepare the claim in six steps, or return the claims in the way. The plugin may be killed between any two
        calls.

        Args:
            removable: claims that can be removed if they are still recorded like this.

        Raises:
            InvalidInput: the claim's devices or parameters exclude each other.
            OperatorFault: a partition that this program did not make is in the way, or a card was exchanged.
            InUse, NoRoom: another object is in the way; call again, or ``give_up``.
            HardwareRefusal: the hardware cannot do it; the claim is given up.
            CallWithdrawnError: the kubelet has withdrawn the call.
            TransientFault, OSError: call again; the next attempt continues.
        """
        uses = self._devices.uses(plan, cards)
        with self._storage.card_locks(use.card.uuid for use in changing(uses).values()), ExitStack() as lock:
            # What is on the cards is assessed before the lock: a card that hangs would keep every claim of the node
            # waiting (test_hardware_is_asked_without_the_lock). Only claims on the same cards wait, by the locks taken
            # above.
            recorded = self._read(uses)
            planned = self._assessor.plan(plan, cards, uses, recorded)
            lock.enter_context(self._storage.lock())
            begun = self._begin(planned, removable, call)
            if isinstance(begun, Blocked):
                return begun
            if planned.claim.steps:
                lock.close()  # the hardware may be slow, and only claims on the same cards wait for it
                begun = self._act(begun, call)
                lock.enter_context(self._storage.lock())
                # Meanwhile the kubelet may have withdrawn the call and unprepared the claim. Its files must not come
                # after that: nobody would remove them
                # (test_a_claim_that_is_unprepared_while_it_is_prepared_leaves_nothing).
                begun = self._unchanged(begun)
            with self._no_files_without_record(begun):
                self._write_files(begun)
                return self._complete(begun)

    def resume(self, claim: PreparedClaim, cards: tuple[Card, ...], call: PrepareCall) -> None:
        """Carry out the actions of a claim of an earlier boot again, if the claim is still recorded like this.

        Raises:
            HardwareRefusal, InvalidInput, OperatorFault, CallWithdrawnError: the claim stays as it is; the kubelet has
                it prepared again.
            TransientFault, OSError: call again.
        """
        # Locks of cards come before the lock of the checkpoint, here and everywhere: the other order would be a
        # deadlock.
        with self._storage.card_locks(step.action.card for step in claim.steps):
            with self._storage.lock():
                checkpoint = self._storage.load()
                if checkpoint.claims.get(claim.plan.ref.uid) != claim:
                    return
                claim = replace(claim, steps=not_carried_out(claim.steps))
                self._storage.save(checkpoint.with_claim(claim))
            self._assessor.check(claim.plan.ref, self._devices.uses(claim.plan, cards))
            done = self._act(Progress(claim, cards, again=True), call)
            with self._storage.lock():
                done = self._unchanged(done)
                with self._no_files_without_record(done):
                    self._write_files(done)
                    self._complete(done)

    def _read(self, uses: UsesByDevice) -> Checkpoint:
        """The checkpoint for a claim that may change cards or be excluded from one; otherwise an empty one, because it
        does not matter."""
        return self._peek() if excludable(uses) else Checkpoint()

    def _peek(self) -> Checkpoint:
        """The checkpoint, without the lock unless it is damaged."""
        try:
            return self._storage.peek()
        except CorruptCheckpoint:
            with self._storage.lock():
                return self._storage.load()

    def _begin(
        self, planned: Progress, removable: Mapping[str, PreparedClaim], call: PrepareCall
    ) -> Progress | Blocked:
        """Store the claim as "started" with its steps, unless other claims are in the way. The caller holds the lock.

        A claim without steps is stored after its files, unless its record must change.
        """
        claim, cards, plan = planned.claim, planned.cards, planned.claim.plan
        call.check(plan.ref)  # under the lock: an unprepare that follows the withdrawal comes before or after this
        checkpoint = self._storage.load()
        # Judged removable without the lock, so a claim may have been prepared anew since. Only one that is still
        # recorded word for word is removed (test_a_claim_judged_gone_and_prepared_anew_meanwhile_is_kept).
        gone = checkpoint.unchanged(removable)
        known = checkpoint.claims.get(plan.ref.uid)
        again = known is not None and self._assessor.is_prepared(known, claim, cards)
        if not again and (blocked := self._assessor.blocked(claim, cards, checkpoint.without(*gone))):
            return blocked
        checkpoint = self._remove(checkpoint, gone)
        if known is not None and known.plan.has_devices_of(plan) and known.state == "completed":
            # An earlier version took steps for devices that are only looked at; they end with the claim.
            kept = claim.steps or (known.steps if known.boot_id == self._boot_id else ())
            claim = replace(claim, plan=known.plan, extra=known.extra, steps=kept)
        # A claim without steps is stored after its files, which costs one write instead of two. A kill in between
        # leaves files without a record, which the next start removes; no container has them yet.
        if again and known is not None and known.boot_id == self._boot_id:
            claim = replace(claim, state="completed")
        elif known != claim and (planned.claim.steps or (known is not None and not again)):
            checkpoint = checkpoint.with_claim(claim)
            self._storage.save(checkpoint)
        return replace(planned, claim=claim, again=again, stored=checkpoint)

    def _remove(self, checkpoint: Checkpoint, uids: frozenset[str]) -> Checkpoint:
        for uid in sorted(uids):
            self._log.warning("claim removed, its devices are needed", claim=str(checkpoint.claims[uid].plan.ref))
        return retire(self._storage, checkpoint, uids) if uids else checkpoint

    def _act(self, progress: Progress, call: PrepareCall) -> Progress:
        """Carry out the steps of a stored claim. The caller holds the locks of its cards."""
        claim = progress.claim
        try:
            for step in claim.steps:
                if step.handle is None:
                    call.check(claim.plan.ref)
                    # Recorded without its handle before. A kill right after this is no loss: the next try finds the
                    # object by its key and adopts it (test_what_was_created_without_an_answer_is_adopted).
                    handle = self._control.ensure(step.action)
                    claim = self._stored(claim, claim.with_handle(step.action.key, handle))
            edits = self._devices.edits(claim, self._devices.uses(claim.plan, progress.cards), {})
            check_environment(claim.plan, edits)
        except (InUse, NoRoom):
            raise
        except (HardwareRefusal, InvalidInput):
            # A claim that was completed before has containers, perhaps running ones: what it has must stay.
            if claim.state == "started":
                self._give_up(claim)
            raise
        return replace(progress, claim=claim, edits=edits)

    def _write_files(self, progress: Progress) -> None:
        """Write the claim's files. The caller holds the lock."""
        claim = progress.claim
        files = self._devices.files(claim, progress.cards, progress.edits, self._storage.paths)
        self._storage.write(claim.plan.ref.uid, files)

    def _complete(self, progress: Progress) -> PrepareResult:
        """Store the claim as completed. The caller holds the lock."""
        plan, stored = progress.claim.plan, progress.stored
        done = stored.without(plan.ref.uid)
        if plan.results:
            done = stored.with_claim(replace(progress.claim, state="completed"))
        if done.claims != stored.claims:
            self._storage.save(done)
        self._completed(done)
        devices = [str(result.device) for result in plan.results]
        self._log.info("claim prepared", claim=str(plan.ref), devices=devices, again=progress.again)
        return prepare_result(plan, self._driver)

    @contextmanager
    def _no_files_without_record(self, progress: Progress) -> Iterator[None]:
        """If writing the files or storing the claim fails, remove the files of a claim without a record."""
        uid = progress.claim.plan.ref.uid
        try:
            yield
        except OSError:
            if uid not in progress.stored.claims:
                with suppress(OSError):
                    self._storage.remove(uid)
            raise

    def _stored(self, claim: PreparedClaim, after: PreparedClaim) -> PreparedClaim:
        with self._storage.lock():
            self._storage.save(self._with_claim_as(claim).with_claim(after))
        return after

    def _unchanged(self, progress: Progress) -> Progress:
        """The same progress with the present checkpoint. The caller holds the lock. Raises the errors of
        ``_with_claim_as``."""
        return replace(progress, stored=self._with_claim_as(progress.claim))

    def _with_claim_as(self, claim: PreparedClaim) -> Checkpoint:
        """Read the checkpoint and check that it has the claim as it was stored.

        Raises:
            CallWithdrawnError: it was unprepared meanwhile.
        """
        checkpoint = self._storage.load()
        if checkpoint.claims.get(claim.plan.ref.uid) != claim:
            raise CallWithdrawnError(f"{claim.plan.ref}: it was unprepared meanwhile; the kubelet calls again")
        return checkpoint

    def give_up(self, ref: ClaimRef) -> None:
        """Give up a claim that was begun. Waits for an instance that prepares it, and then leaves its claim alone.

        Raises:
            OSError: it is left as it is.
        """
        claim = self._peek().claims.get(ref.uid)
        if claim is not None and claim.state == "started":
            with self._storage.card_locks(step.action.card for step in claim.steps):
                self._give_up(claim)

    def _give_up(self, claim: PreparedClaim) -> None:
        with self._storage.lock():
            checkpoint = self._storage.load()
            # Another instance may have taken the claim over since; then it is that one's to give up.
            if checkpoint.claims.get(claim.plan.ref.uid) == claim:
                retire(self._storage, checkpoint, [claim.plan.ref.uid])
