"""Gives up claims: their files are removed at once, and their steps on the hardware are undone when possible.

The kubelet does not wait for the second part, so that a pod can end whatever is wrong with a card. Until it is done,
the claim stays in the checkpoint as ``stopping`` and holds its devices. Steppable: its owner calls ``step`` at
``next_due``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from driver.backoff import delay
from driver.errors import LodeError
from kubeletplugin.hardware import Action, Card, CardGone
from kubeletplugin.hardware.actions import VnpuInstance
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare.card_identity import results_in_use
from kubeletplugin.prepare.checkpoint import Checkpoint, PreparedClaim
from kubeletplugin.prepare.storage import ClaimStorage

FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 60.0
LOOK_SECONDS = 60.0
"""Interval in which the checkpoint is read for claims that another instance has given up."""


def retire(storage: ClaimStorage, checkpoint: Checkpoint, uids: Collection[str]) -> Checkpoint:
    """Give up these claims; returns the stored checkpoint. The caller holds the lock.

    A claim with steps stays as ``stopping``, which is stored before its files go: a container could still be started
    from these, and the steps must not be undone before that is impossible.

    Raises:
        OSError: the checkpoint cannot be written, or the files of a claim cannot be removed; the other claims are given
            up.
    """
    known = {uid: checkpoint.claims[uid] for uid in sorted(uids) if uid in checkpoint.claims}
    stopping = {uid: claim for uid, claim in known.items() if claim.steps}
    left = checkpoint
    for claim in stopping.values():
        # Stored before any file goes: after a kill in between, the next start must know that the steps are to be undone
        # (test_an_unprepare_records_that_it_stops_before_it_undoes_the_actions_in_reverse).
        left = left.with_claim(replace(claim, state="stopping"))
    if left.claims != checkpoint.claims:
        storage.save(left)
    faults: dict[str, OSError] = {}
    for uid in sorted(uids):
        try:
            storage.remove(uid)
        except OSError as error:
            # The files of the other claims go all the same: one bad file keeps one pod from ending, not all of them.
            faults[uid] = error
    if without := set(known) - set(stopping) - set(faults):
        left = left.without(*without)
        storage.save(left)
    if faults:
        raise next(iter(faults.values()))
    return left


class Retiring:
    """Undoes the steps of claims that are given up, in reverse, and then drops the claims. Thread-safe.

    Args:
        wake: called, from any thread, when ``next_due`` may have moved forward.
    """

    def __init__(self, node: NodeContext, storage: ClaimStorage, wake: Callable[[], None]):
        self._storage = storage
        self._hardware = node.hardware
        self._boot_id = node.boot_id
        self._clock = node.clock
        self._log = node.log
        self._wake = wake
        self._look_at = node.clock.monotonic()
        self._unreadable = ""
        """The reason why the checkpoint could not be read the last time; "" if it could."""
        self._failures: dict[str, int] = {}
        self._due: dict[str, float] = {}
        """Time of the next try for each claim that is known to be stopping, by uid."""
        self.reasons: Mapping[str, str] = {}
        """Reasons why tries to undo claims failed, by uid."""
        self._stopping: Mapping[str, PreparedClaim] = {}
        """The claims that are known to be stopping, by uid."""
        self._awaited: dict[str, PreparedClaim] = {}
        """Claims that the kubelet still has to unprepare. Every change is one operation of the dict."""

    def releasing(self, cards: Iterable[Card]) -> frozenset[str]:
        """Names of the devices of claims that could not be undone, and of those that the kubelet has yet to unprepare.

        All cards, if the devices of an awaited claim are not known.

        Args:
            cards: the cards of the node; a claim does not hold a card that took the number of its card.
        """
        known, stopping = {card.uuid: card for card in cards}, self._stopping
        stuck, awaited = [stopping[uid] for uid in self.reasons if uid in stopping], self._awaited.copy().values()
        held = (results_in_use(claim, known, "") for claim in (*stuck, *awaited))
        names = {result.device.device for results in held for result in results}
        if any(claim.is_unknown for claim in awaited):
            names |= {card.name for card in known.values()}
        return frozenset(names)

    def await_end(self, claims: Collection[PreparedClaim]) -> None:
        """Note that claims are no longer allocated while their containers may still run here.

        Allocators count their devices as free. So the devices are published as being released until this or another
        instance gives the claim up, or the claim is prepared again.
        """
        for claim in claims:
            self._awaited[claim.plan.ref.uid] = claim

    def awaits_no_more(self, uid: str) -> None:
        """Note that the claim was given up or prepared again."""
        self._awaited.pop(uid, None)

    def hasten(self) -> None:
        """Read the checkpoint at the next step: a claim was given up, or the reserved room on the disk is too small."""
        self._look_at = self._clock.monotonic()
        self._wake()

    def next_due(self) -> float:
        """Time of the next work for ``step``, in seconds of ``Clock.monotonic``."""
        return min(self._look_at, *self._due.values()) if self._due else self._look_at

    def step(self) -> bool:
        """Try to finish the claims that are due; False if none was. Faults are retried later.

        A fault is logged once: the step of a claim on a card that is gone for good fails in the same way for ever.
        """
        now = self._clock.monotonic()
        if now < self.next_due():
            return False
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._look(now)
        for uid in [uid for uid, due in self._due.items() if due <= now]:
            self._try(uid)
        return True

    def finish(self, uid: str) -> None:
        """Undo the steps of a claim that is stopping, and drop it. Waits for the hardware and for the locks of its
        cards.

        Nothing is undone while a file of the claim exists: a container could still be started with it.

        Raises:
            HardwareRefusal, TransientFault, OSError: some steps are left; call again.
        """
        with self._storage.lock():
            claim = _stopping(self._storage.load(), uid)
            if claim is None:
                return
            # Again, although ``retire`` has done it: it may have failed then, and a container started from what is left
            # would lose its partition (test_nothing_is_undone_while_the_cdi_spec_cannot_be_removed).
            self._storage.remove(uid)
        with self._storage.card_locks(step.action.card for step in claim.steps):
            while (claim := self._next(uid)) is not None:
                # The last step first: a MIG instance goes before the MIG mode that it needs. The checkpoint is read
                # before each, because another instance may undo steps of the same claim at the same time.
                step = claim.steps[-1]
                try:
                    self._hardware.control.release(step.action, step.handle)
                except CardGone as gone:
                    if not self._went_with_its_card(claim, step.action):
                        raise
                    self._log.warning(
                        "what a claim had is gone with its card", action=step.action.key, reason=str(gone)
                    )
                self._undone(claim)

    def _went_with_its_card(self, claim: PreparedClaim, action: Action) -> bool:
        """Whether the object of the action is gone although it was not released.

        So it is if the machine was rebooted and came up without the card. Only vNPUs survive that and would be back
        with the card: they stay recorded, and an operator can drop them with `lode release`.
        """
        if claim.boot_id == self._boot_id or isinstance(action, VnpuInstance):
            return False
        there = {card.uuid for card in self._hardware.source.cards()}
        return action.card not in there and not self._hardware.source.unread_cards()

    def _look(self, now: float) -> None:
        try:
            with self._storage.lock():
                claims = self._storage.load().claims
                if claims:
                    self._storage.reserve()
        except (LodeError, OSError) as error:
            if self._unreadable != str(error):
                self._log.warning("checkpoint cannot be read", reason=str(error))
            self._unreadable = str(error)
            return
        self._unreadable = ""
        stopping = {uid: claim for uid, claim in claims.items() if claim.state == "stopping"}
        self._stopping = stopping
        for uid in self._awaited.keys() - (claims.keys() - stopping.keys()):
            self._awaited.pop(uid, None)
        self._due = {uid: self._due.get(uid, now) for uid in sorted(stopping)}
        self._failures = {uid: count for uid, count in self._failures.items() if uid in stopping}
        self.reasons = {uid: reason for uid, reason in self.reasons.items() if uid in stopping}

    def _try(self, uid: str) -> None:
        try:
            self.finish(uid)
        except (LodeError, OSError) as error:
            count = self._failures[uid] = self._failures.get(uid, 0) + 1
            pause = delay(count, base=FIRST_RETRY_SECONDS, bound=LONGEST_RETRY_SECONDS)
            self._due[uid] = self._clock.monotonic() + pause
            if self.reasons.get(uid) != str(error):
                self._log.warning("what a claim had is not released yet", claim=uid, reason=str(error))
            self.reasons = {**self.reasons, uid: str(error)}
        else:
            self._due.pop(uid, None)
            self._failures.pop(uid, None)
            self.reasons = {other: reason for other, reason in self.reasons.items() if other != uid}

    def _next(self, uid: str) -> PreparedClaim | None:
        """The claim with the next step to undo as its last one; None if the claim is gone. Drops steps that other
        claims share.

        The locks of the cards are held, so nobody starts to need a shared action meanwhile.
        """
        with self._storage.lock():
            checkpoint = self._storage.load()
            claim = _stopping(checkpoint, uid)
            if claim is None:
                return None
            needed = {key for other in checkpoint.others(uid) for key in other.keys}
            steps = claim.steps
            # What several claims share, such as an MPS daemon, is undone with the last of them
            # (test_what_claims_share_exists_once_until_the_last_of_them_is_unprepared).
            while steps and steps[-1].action.key in needed:
                steps = steps[:-1]
            if not steps:
                self._drop(checkpoint, claim)
                return None
            claim = replace(claim, steps=steps)
            if steps != checkpoint.claims[uid].steps:
                self._storage.save(checkpoint.with_claim(claim))
            return claim

    def _undone(self, claim: PreparedClaim) -> None:
        with self._storage.lock():
            checkpoint = self._storage.load()
            if checkpoint.claims.get(claim.plan.ref.uid) != claim:
                return
            if len(claim.steps) == 1:
                self._drop(checkpoint, claim)
            else:
                self._storage.save(checkpoint.with_claim(replace(claim, steps=claim.steps[:-1])))

    def _drop(self, checkpoint: Checkpoint, claim: PreparedClaim) -> None:
        self._storage.save(checkpoint.without(claim.plan.ref.uid))
        self._log.info("what a claim had is released", claim=str(claim.plan.ref))


def _stopping(checkpoint: Checkpoint, uid: str) -> PreparedClaim | None:
    claim = checkpoint.claims.get(uid)
    return claim if claim is not None and claim.state == "stopping" else None
