"""One claim from its plan to files and hardware that containers can use.

A claim that needs actions is stored as "started" with all of them. They are carried out one by one, and the answer of
each is stored. The files are written, and "completed" is stored. If the plugin is killed between two of these, the next
call or the next start finishes or undoes them: what may exist on the hardware is in the checkpoint before it does.

Files need no record before they are written. No container can use them until the kubelet has the answer, and the next
start removes those whose claim is not in the checkpoint.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from driver.errors import Fault, InvalidInput, OperatorFault
from driver.observe import Logger
from kubeletplugin.hardware import Action, Card, Edits, Hardware, HardwareRefusal, InUse, NoRoom, Use
from kubeletplugin.hardware.actions import MpsDaemon
from kubeletplugin.offers import foreign_partitions
from kubeletplugin.prepare.calls import Call, CallWithdrawnError
from kubeletplugin.prepare.card_identity import cards_of, exchanged
from kubeletplugin.prepare.checkpoint import Checkpoint, CorruptCheckpoint, PreparedClaim, Step
from kubeletplugin.prepare.claims import ClaimRef, PrepareResult
from kubeletplugin.prepare.container import check_environment, prepare_result
from kubeletplugin.prepare.exclusions import excluding_claims, in_the_way
from kubeletplugin.prepare.node_devices import EditsByDevice, NodeDevices
from kubeletplugin.prepare.plan import ClaimPlan
from kubeletplugin.prepare.retiring import retire
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.prepare.uses import UsesByDevice


@dataclass(frozen=True, slots=True)
class Blocked:
    """Other claims, or an earlier state of the claim itself, must go before it can be prepared."""

    wanted: PreparedClaim
    """The claim, as it would be stored."""
    claims: Mapping[str, PreparedClaim]
    """As they were when this was judged, by uid."""
    reasons: tuple[str, ...] = ()
    """Why they must go, unless because they hold its devices."""


class Transaction:
    """Prepares one claim after another. Safe to use from several threads and processes at once.

    Args:
        load: reads the checkpoint; the caller holds the lock.
        completed: called with the checkpoint in which a claim was completed.
    """

    def __init__(
        self,
        storage: ClaimStorage,
        load: Callable[[], Checkpoint],
        devices: NodeDevices,
        hardware: Hardware,
        boot_id: str,
        driver: str,
        log: Logger,
        completed: Callable[[Checkpoint], None],
    ):
        self._storage = storage
        self._load = load
        self._devices = devices
        self._hardware = hardware
        self._boot_id = boot_id
        self._driver = driver
        self._log = log
        self._completed = completed

    def attempt(
        self, plan: ClaimPlan, cards: tuple[Card, ...], removable: Mapping[str, PreparedClaim], call: Call
    ) -> PrepareResult | Blocked:
        """Prepare the claim, or say what is in the way.

        Args:
            removable: claims that can be removed if they are still recorded like this.

        Raises:
            InvalidInput: the claim's devices or parameters exclude each other.
            OperatorFault: something that this program did not make is in the way, or a card was exchanged.
            InUse, NoRoom: something has the place; call again, or ``give_up``.
            HardwareRefusal: the hardware cannot do it; what was begun is given up.
            CallWithdrawnError: the kubelet does not wait any more.
            TransientFault, OSError: call again; what was begun is continued.
        """
        uses = self._devices.uses(plan, cards)
        changing = {device: use for device, use in uses.items() if _may_change(use)}
        if not changing:
            return self._begin(plan, cards, uses, {}, (), removable, call)
        with self._storage.card_locks(use.card.uuid for use in changing.values()):
            checkpoint = self._peek()
            edits: EditsByDevice = {}
            steps = self._known_steps(plan, cards, checkpoint)
            if steps is None:
                actions, edits = self._assessed(plan, changing, checkpoint)
                steps = tuple(Step(action) for action in actions)
            return self._begin(plan, cards, uses, edits, steps, removable, call)

    def _peek(self) -> Checkpoint:
        """The checkpoint, without the lock unless it is damaged."""
        try:
            return self._storage.peek()
        except CorruptCheckpoint:
            with self._storage.lock():
                return self._load()

    def resume(self, claim: PreparedClaim, cards: tuple[Card, ...], call: Call) -> None:
        """Make again what a claim of an earlier boot had, if it is still recorded like this.

        Raises:
            HardwareRefusal, InvalidInput, CallWithdrawnError: it is left as it is; the kubelet has it prepared again.
            TransientFault, OSError: call again.
        """
        with self._storage.card_locks(step.action.card for step in claim.steps):
            with self._storage.lock():
                checkpoint = self._load()
                if checkpoint.claims.get(claim.plan.ref.uid) != claim:
                    return
                claim = replace(claim, steps=_not_carried_out(claim.steps))
                self._storage.save(checkpoint.with_claim(claim))
            self._carry_out(claim, cards, call, again=True)

    def _known_steps(self, plan: ClaimPlan, cards: Iterable[Card], checkpoint: Checkpoint) -> tuple[Step, ...] | None:
        """The steps of a claim that was begun or completed with the same devices; None if there are none.

        After a reboot nothing is known of what they made.
        """
        known = checkpoint.claims.get(plan.ref.uid)
        if known is None or known.state == "stopping" or _has_other_steps(known, plan, cards_of(plan, cards)):
            return None
        if known.boot_id == self._boot_id:
            return known.steps
        return _not_carried_out(known.steps) or None

    def _assessed(
        self, plan: ClaimPlan, uses: UsesByDevice, checkpoint: Checkpoint
    ) -> tuple[tuple[Action, ...], EditsByDevice]:
        """What must exist on the cards for the claim, and the edits that are known already; nothing is changed.

        Raises:
            OperatorFault: partitions that this program did not make are in the way.
            InvalidInput: two devices of the claim are to use one card in different ways.
        """
        others = checkpoint.others(plan.ref.uid)
        taken = frozenset(key for other in others for key in other.keys)
        wanted: dict[str, Action] = {}
        edits: dict[tuple[str, str], Edits] = {}
        for device, use in uses.items():
            assessment = self._hardware.assess(use, taken)
            actions, foreign = assessment.actions, foreign_partitions(assessment.state, checkpoint.recorded.keys)
            if way := in_the_way(use, actions, foreign):
                raise OperatorFault(
                    f"{plan.ref}: {use.device}: card {use.card.uuid} has partitions that this program did not make: "
                    f"{', '.join(way)}; remove them, or have them used by what made them only"
                )
            for action in actions:
                if action.shared and wanted.get(action.key, action) != action:
                    raise _excluding(plan, use)
                wanted.setdefault(action.key, action)
            mps = MpsDaemon(use.card.uuid)
            if mps.key in wanted and mps not in actions:
                raise _excluding(plan, use)
            if assessment.edits is not None:
                edits[device] = assessment.edits
        return tuple(wanted.values()), edits

    def _begin(
        self,
        plan: ClaimPlan,
        cards: tuple[Card, ...],
        uses: UsesByDevice,
        known_edits: EditsByDevice,
        steps: tuple[Step, ...],
        removable: Mapping[str, PreparedClaim],
        call: Call,
    ) -> PrepareResult | Blocked:
        claim = PreparedClaim(plan, "started", self._boot_id, cards_of(plan, cards), steps)
        edits = {} if steps else self._devices.edits(claim, uses, known_edits)
        if not steps:
            check_environment(plan, edits)
        with self._storage.lock():
            call.check(plan.ref)  # under the lock: an unprepare that follows the withdrawal comes before or after this
            checkpoint = self._load()
            gone = checkpoint.unchanged(removable)
            known = checkpoint.claims.get(plan.ref.uid)
            again = known is not None and self._is_prepared(known, claim, cards)
            if not again and (blocked := self.blocked(claim, cards, checkpoint.without(*gone))):
                return blocked
            checkpoint = self._remove(checkpoint, gone)
            if known is not None and known.plan.has_devices_of(plan) and known.state == "completed":
                # An earlier version took steps for devices that are only looked at; they end with the claim.
                kept = steps or (known.steps if known.boot_id == self._boot_id else ())
                claim = replace(claim, plan=known.plan, extra=known.extra, steps=kept)
            if again and known is not None and known.boot_id == self._boot_id:
                claim = replace(claim, state="completed")
            elif known != claim and (steps or (known is not None and not again)):
                checkpoint = checkpoint.with_claim(claim)
                self._storage.save(checkpoint)
            if not steps:
                return self._complete(checkpoint, claim, cards, edits, again=again)
        return self._carry_out(claim, cards, call, again=again)

    def _is_prepared(self, known: PreparedClaim, claim: PreparedClaim, cards: Iterable[Card]) -> bool:
        """Whether the claim is prepared with the same devices already, or was before a reboot.

        If it has something on a card that has another number since the reboot, that must be released first.

        Raises:
            OperatorFault: its containers may run, and a device is on another card now.
        """
        if known.state != "completed" or known.guessed or not known.plan.has_devices_of(claim.plan):
            return False
        if known.boot_id == self._boot_id and (faults := exchanged(known.cards, claim.plan, cards)):
            raise OperatorFault(
                f"{claim.plan.ref}: {'; '.join(faults)}: the cards of this node were numbered anew or exchanged; "
                "delete the pods that use the claim"
            )
        return not _has_other_steps(known, claim.plan, claim.cards)

    def blocked(self, claim: PreparedClaim, cards: tuple[Card, ...], checkpoint: Checkpoint) -> Blocked | None:
        """What of the checkpoint is in the way of a claim; None if nothing is.

        Raises:
            InvalidInput: two devices of the claim exclude each other.
        """
        plan, uid = claim.plan, claim.plan.ref.uid
        uids = self._devices.conflicting_claims(plan, cards, checkpoint.claims.values(), self._boot_id)
        if uid in uids:
            fault = Fault("status.allocation.devices.results", "two of its devices exclude each other on one card")
            raise InvalidInput(str(plan.ref), [fault])
        actions = [step.action for step in claim.steps]
        reasons = excluding_claims(actions, claim.used_cards, checkpoint.others(uid))
        known = checkpoint.claims.get(uid)
        if known is not None and (known.state == "stopping" or _has_other_steps(known, plan, claim.cards)):
            uids |= {uid}
        found = {uid: checkpoint.claims[uid] for uid in sorted(uids | reasons.keys())}
        return Blocked(claim, found, tuple(reasons.values())) if found else None

    def _remove(self, checkpoint: Checkpoint, uids: frozenset[str]) -> Checkpoint:
        for uid in sorted(uids):
            self._log.warning("claim removed, its devices are needed", claim=str(checkpoint.claims[uid].plan.ref))
        return retire(self._storage, checkpoint, uids) if uids else checkpoint

    def _carry_out(self, claim: PreparedClaim, cards: tuple[Card, ...], call: Call, *, again: bool) -> PrepareResult:
        """Carry out the steps of a claim that is stored, and complete it. The locks of its cards are held."""
        try:
            for step in claim.steps:
                if step.handle is None:
                    call.check(claim.plan.ref)
                    handle = self._hardware.ensure(step.action)
                    claim = self._stored(claim, claim.with_handle(step.action.key, handle))
            edits = self._devices.edits(claim, self._devices.uses(claim.plan, cards), {})
            check_environment(claim.plan, edits)
        except (InUse, NoRoom):
            raise
        except (HardwareRefusal, InvalidInput):
            if claim.state == "started":
                self._give_up(claim)
            raise
        with self._storage.lock():
            return self._complete(self._unchanged(claim), claim, cards, edits, again=again)

    def _stored(self, claim: PreparedClaim, after: PreparedClaim) -> PreparedClaim:
        with self._storage.lock():
            self._storage.save(self._unchanged(claim).with_claim(after))
        return after

    def _unchanged(self, claim: PreparedClaim) -> Checkpoint:
        """The checkpoint, in which the claim is as it was stored.

        Raises:
            CallWithdrawnError: it was unprepared meanwhile.
        """
        checkpoint = self._load()
        if checkpoint.claims.get(claim.plan.ref.uid) != claim:
            raise CallWithdrawnError(f"{claim.plan.ref}: it was unprepared meanwhile; the kubelet calls again")
        return checkpoint

    def give_up(self, ref: ClaimRef) -> None:
        """Give up what was begun for a claim, unless another instance goes on with it. Waits for that one.

        Raises:
            OSError: it is left as it is.
        """
        claim = self._peek().claims.get(ref.uid)
        if claim is not None and claim.state == "started":
            with self._storage.card_locks(step.action.card for step in claim.steps):
                self._give_up(claim)

    def _give_up(self, claim: PreparedClaim) -> None:
        with self._storage.lock():
            checkpoint = self._load()
            if checkpoint.claims.get(claim.plan.ref.uid) == claim:
                retire(self._storage, checkpoint, [claim.plan.ref.uid])

    def _complete(
        self, checkpoint: Checkpoint, claim: PreparedClaim, cards: Iterable[Card], edits: EditsByDevice, *, again: bool
    ) -> PrepareResult:
        """Write the files and store the claim as completed, under the lock; ``checkpoint`` is what is stored."""
        plan = claim.plan
        files = self._devices.files(claim, cards, edits, self._storage.paths)
        done = checkpoint.without(plan.ref.uid)
        if plan.results:
            done = checkpoint.with_claim(replace(claim, state="completed"))
        try:
            self._storage.write(plan.ref.uid, files)
            if done.claims != checkpoint.claims:
                self._storage.save(done)
        except OSError:
            if plan.ref.uid not in checkpoint.claims:
                with suppress(OSError):
                    self._storage.remove(plan.ref.uid)
            raise
        self._completed(done)
        self._log.info(
            "claim prepared", claim=str(plan.ref), devices=[str(r.device) for r in plan.results], again=again
        )
        return prepare_result(plan, self._driver)


def _may_change(use: Use) -> bool:
    """Whether something must exist for the use, or partitions of its card may be in its way."""
    if use.admin:
        return False
    return use.card.scheme is not None or (use.config is not None and use.config.sharing != "none")


def _not_carried_out(steps: Iterable[Step]) -> tuple[Step, ...]:
    return tuple(Step(step.action) for step in steps)


def _has_other_steps(known: PreparedClaim, plan: ClaimPlan, cards: Mapping[str, str]) -> bool:
    """Whether a recorded claim has steps that are not for these devices on these cards."""
    own = {step.action.card for step in known.steps}
    return bool(own) and (not known.plan.has_devices_of(plan) or not own <= frozenset(cards.values()))


def _excluding(plan: ClaimPlan, use: Use) -> InvalidInput:
    fault = Fault(
        "status.allocation.devices.config", f"two devices of the claim share card {use.card.name} in different ways"
    )
    return InvalidInput(str(plan.ref), [fault])
