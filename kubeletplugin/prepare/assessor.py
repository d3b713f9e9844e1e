"""Decides which steps a claim needs on the hardware, and which claims must go first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from driver.errors import Fault, InvalidInput, OperatorFault, TransientFault
from kubeletplugin.hardware import Action, Card, CardControl, CardState, Edits, Use
from kubeletplugin.hardware.actions import MpsDaemon
from kubeletplugin.offers import foreign_partitions, not_known, offer_of_use
from kubeletplugin.prepare import exclusion
from kubeletplugin.prepare.card_identity import cards_of, exchanged
from kubeletplugin.prepare.checkpoint import Checkpoint, PreparedClaim, Step
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.container import check_environment
from kubeletplugin.prepare.node_devices import EditsByDevice, NodeDevices
from kubeletplugin.prepare.plan import ClaimPlan
from kubeletplugin.prepare.uses import UsesByDevice


@dataclass(frozen=True, slots=True)
class Progress:
    """A claim that is being prepared."""

    claim: PreparedClaim
    """The claim as it is stored now or next."""
    cards: tuple[Card, ...]
    """The cards of the node."""
    edits: EditsByDevice = field(default_factory=dict)
    """The edits of containers with its devices; empty until its steps are carried out."""
    again: bool = False
    """Whether the claim was prepared before."""
    stored: Checkpoint = field(default_factory=Checkpoint)
    """The checkpoint, while its lock is held."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Other claims, or an earlier state of the same claim, which must go before the claim can be prepared."""

    wanted: PreparedClaim
    """The claim, as it would be stored."""
    claims: Mapping[str, PreparedClaim]
    """The claims that must go, as they were when this was decided, by uid."""
    reasons: tuple[str, ...] = ()
    """Reasons why claims must go that do not hold its devices."""


class Assessor:
    """Decides what claims need. Changes nothing."""

    def __init__(self, devices: NodeDevices, control: CardControl, boot_id: str):
        self._devices = devices
        self._control = control
        self._boot_id = boot_id

    def plan(self, plan: ClaimPlan, cards: tuple[Card, ...], uses: UsesByDevice, recorded: Checkpoint) -> Progress:
        """Find the steps of the claim. The caller holds the locks of the cards that the claim may change.

        Raises:
            OperatorFault: partitions that this program did not make are in the way.
            InvalidInput: two devices of the claim are to use one card in different ways.
            HardwareRefusal, TransientFault: from the hardware.
        """
        edits: EditsByDevice = {}
        steps = self._known_steps(plan, cards, recorded)
        if steps is None:
            actions, edits = self._assessed(plan, excludable(uses), recorded)
            steps = tuple(Step(action) for action in actions)
        elif any(step.handle is None for step in steps):
            self.check(plan.ref, uses)
        claim = PreparedClaim(plan, "started", self._boot_id, cards_of(plan, cards), steps)
        if steps:
            return Progress(claim, cards)
        edits = self._devices.edits(claim, uses, edits)
        check_environment(plan, edits)
        return Progress(claim, cards, edits)

    def _known_steps(self, plan: ClaimPlan, cards: Iterable[Card], checkpoint: Checkpoint) -> tuple[Step, ...] | None:
        """The steps of a claim that was begun or completed with the same devices; None if there are none.

        After a reboot the steps have no handles, because their objects may be gone.
        """
        known = checkpoint.claims.get(plan.ref.uid)
        if known is None or known.state == "stopping" or _has_other_steps(known, plan, cards_of(plan, cards)):
            return None
        # The ids of vNPUs were chosen for the first try. Another choice for another try would leave the first ones
        # behind (test_an_id_of_a_vnpu_is_not_chosen_anew_for_another_try).
        if known.boot_id == self._boot_id and (known.steps or not known.guessed):
            return known.steps
        return not_carried_out(known.steps) or None

    def _assessed(
        self, plan: ClaimPlan, uses: UsesByDevice, checkpoint: Checkpoint
    ) -> tuple[tuple[Action, ...], EditsByDevice]:
        """The actions that the claim needs on its cards, and the edits that are known already. Changes nothing.

        Raises:
            OperatorFault: partitions that this program did not make are in the way.
            InvalidInput: two devices of the claim are to use one card in different ways.
        """
        others = checkpoint.others(plan.ref.uid)
        # Also what other claims have only recorded: it is not on the card yet, and its place and its id are taken.
        taken = frozenset(key for other in others for key in other.keys)
        wanted: dict[str, Action] = {}
        edits: dict[tuple[str, str], Edits] = {}
        for device, use in uses.items():
            assessment = self._control.assess(use, taken)
            check_offered(plan.ref, use, assessment.state)
            actions, foreign = assessment.actions, foreign_partitions(assessment.state, checkpoint.recorded.keys)
            if way := exclusion.foreign_in_the_way(use, actions, foreign):
                raise OperatorFault(
                    f"{plan.ref}: {use.device}: card {use.card.uuid} has partitions that this program did not make: "
                    f"{', '.join(way)}; remove them, or have them used by what made them only"
                )
            for action in actions:
                if action.shared and wanted.get(action.key, action) != action:
                    raise _excluding(plan, use)
                wanted.setdefault(action.key, action)
            mps = MpsDaemon(use.card.uuid)
            # MPS puts the whole card into a mode in which only its clients run, so a device without it would fail to
            # start.
            if mps.key in wanted and mps not in actions:
                raise _excluding(plan, use)
            if assessment.edits is not None:
                edits[device] = assessment.edits
        return tuple(wanted.values()), edits

    def check(self, ref: ClaimRef, uses: UsesByDevice) -> None:
        """Check that the cards are offered as what the claim uses them as, before steps of an earlier call are carried
        out: an operator can have changed a mode meanwhile.

        Raises:
            OperatorFault: a mode of a card excludes it; has the remedy.
            HardwareRefusal, TransientFault: from the hardware.
        """
        for use in excludable(uses).values():
            check_offered(ref, use, self._control.observe(use.card))

    def is_prepared(self, known: PreparedClaim, claim: PreparedClaim, cards: Iterable[Card]) -> bool:
        """Whether the claim is prepared with the same devices already, or was before a reboot. False if a card that it
        has steps on got another number in the reboot: these steps must be released first.

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
        """The recorded claims that are in the way of this one; None if there are none.

        Raises:
            InvalidInput: two devices of the claim exclude each other.
        """
        plan, uid = claim.plan, claim.plan.ref.uid
        uids = self._devices.conflicting_claims(plan, cards, checkpoint.claims.values(), self._boot_id)
        if uid in uids:
            fault = Fault("status.allocation.devices.results", "two of its devices exclude each other on one card")
            raise InvalidInput(str(plan.ref), [fault])
        actions = [step.action for step in claim.steps]
        if any(not result.admin_access for result in plan.results):
            # Claims of which nothing is known may hold any device of the node
            # (test_as_long_as_nobody_knows_what_a_claim_holds_no_other_is_prepared_and_its_files_stay).
            uids |= checkpoint.unknown - {uid}
        reasons = exclusion.by_sharing(actions, claim.used_cards, checkpoint.others(uid))
        known = checkpoint.claims.get(uid)
        if known is not None and (known.state == "stopping" or _has_other_steps(known, plan, claim.cards)):
            uids |= {uid}
        found = {uid: checkpoint.claims[uid] for uid in sorted(uids | reasons.keys())}
        return Blocked(claim, found, tuple(reasons.values())) if found else None


def check_offered(ref: ClaimRef, use: Use, state: CardState) -> None:
    """Check that what is withheld of a card is not prepared either, though it was allocated before.

    Raises:
        OperatorFault: the mode of the card excludes the use; has the remedy.
        TransientFault: it is not known whether the card can be used so.
    """
    offer = offer_of_use(use)
    if why := state.excluded.get(offer):
        raise OperatorFault(f"{ref}: {use.device}: {why}")
    if why := state.unread.get(offer):
        raise TransientFault(f"{ref}: {use.device}: whether card {use.card.name} can be used so is {not_known(why)}")


def changing(uses: UsesByDevice) -> UsesByDevice:
    """The uses that may need actions, or that partitions on the card may exclude."""
    return {device: use for device, use in uses.items() if _may_change(use)}


def excludable(uses: UsesByDevice) -> UsesByDevice:
    """The uses that partitions or a mode of the card may exclude."""
    return {device: use for device, use in uses.items() if _may_change(use) or use.share is not None}


def not_carried_out(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same steps without handles."""
    return tuple(Step(step.action) for step in steps)


def _may_change(use: Use) -> bool:
    """Whether the use may need actions, or partitions on the card may exclude it."""
    if use.admin:
        return False
    if use.card.bridged:
        return True
    if use.card.scheme is not None or use.card.partitions_unread:
        return True
    return use.config is not None and use.config.sharing != "none"


def _has_other_steps(known: PreparedClaim, plan: ClaimPlan, cards: Mapping[str, str]) -> bool:
    """Whether a recorded claim has steps for other devices or cards than these."""
    own = {step.action.card for step in known.steps}
    return bool(own) and (not known.plan.has_devices_of(plan) or not own <= frozenset(cards.values()))


def _excluding(plan: ClaimPlan, use: Use) -> InvalidInput:
    fault = Fault(
        "status.allocation.devices.config", f"two devices of the claim share card {use.card.name} in different ways"
    )
    return InvalidInput(str(plan.ref), [fault])
