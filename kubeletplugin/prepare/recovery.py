"""Repairs a node when the plugin starts, and after its checkpoint was damaged."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from driver.errors import InvalidInput, LodeError, TransientFault
from driver.kube.api import ApiError
from kubeletplugin.hardware import Card, HardwareRefusal
from kubeletplugin.kubelet_devices import KubeletClaim
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare.card_identity import cards_of, exchanged
from kubeletplugin.prepare.checkpoint import Checkpoint, PreparedClaim
from kubeletplugin.prepare.claim_usage import is_allocated
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.node_devices import EditsByDevice, NodeDevices
from kubeletplugin.prepare.plan import ClaimPlan
from kubeletplugin.prepare.retiring import retire
from kubeletplugin.prepare.storage import ClaimStorage


@dataclass(frozen=True, slots=True)
class HardwareAnswers:
    """Answers of the hardware for the claims of a checkpoint. They are collected without the lock, because they can
    take long."""

    cards: tuple[Card, ...]
    edits: Mapping[str, EditsByDevice]
    """By the uid of the claim."""
    silent: frozenset[str] = frozenset()
    """The uids of the claims whose cards did not answer."""


class Recovery:
    """Finishes or undoes the work of a killed instance.

    Args:
        kubelet_claims: returns the claims of running containers, as the kubelet reports them; () if it does not answer.
    """

    def __init__(
        self,
        node: NodeContext,
        storage: ClaimStorage,
        devices: NodeDevices,
        kubelet_claims: Callable[[], Collection[KubeletClaim]],
    ):
        self._api = node.api
        self._kubelet_claims = kubelet_claims
        self._storage = storage
        self._devices = devices
        self._boot_id = node.boot_id
        self._log = node.log

    def rebuild(self, left: Checkpoint) -> Checkpoint:
        """Rebuild lost claims of the checkpoint from their files, and store it. A copy of the damaged one is kept.

        Only claims with a CDI spec matter: they were prepared since the last boot, and the kubelet has all others
        prepared again. Their files have their devices and steps, so neither the API nor the hardware must answer. A
        claim whose files are all damaged is recorded as unknown (see ``identified``).

        The steps of other claims are undone. Claims with metadata files are kept: they may have lost only their specs,
        and the kubelet will call again about them. The caller holds the lock.

        Args:
            left: the claims that can be read.
        """
        copy = self._storage.quarantine()
        to_undo = {claim.plan.ref.uid: claim for claim in self._storage.to_undo()}
        found = {claim.plan.ref.uid: claim for claim in self._storage.records(self._boot_id)}
        # From the best source to the worst: the record in the spec, the steps that were written apart, the API, the
        # metadata. What none of them knows keeps its devices and is asked of the kubelet later.
        answers = True
        specs = self._storage.uids_with_cdi_spec()
        specs |= {uid for uid in self._storage.uids() & to_undo.keys() if to_undo[uid].boot_id == self._boot_id}
        for uid in sorted(specs - found.keys() - left.claims.keys()):
            if uid in to_undo:
                found[uid] = replace(to_undo[uid], state="completed", boot_id=self._boot_id)
            elif plan := self._storage.plan_in_metadata(uid):
                found[uid], answers = self._remembered(plan, answers)
            else:
                found[uid] = PreparedClaim.unknown(uid, self._boot_id)
                self._log.error("every record of a prepared claim is lost", claim=uid)
        # Later ones win: what can still be read of the checkpoint is newer than anything found beside it.
        checkpoint = replace(left, claims={**to_undo, **found, **left.claims})
        self._storage.save(checkpoint)
        self._log.error("damaged checkpoint rebuilt", copy=copy, claims=sorted(checkpoint.claims))
        return checkpoint

    def _remembered(self, known: ClaimPlan, answers: bool) -> tuple[PreparedClaim, bool]:
        """Rebuild a claim without a record from the API, else from its metadata; also returns whether the API answers.

        For claims whose records are damaged or of an older version. After one failure the API is not called for other
        claims, because the lock is held.
        """
        try:
            if answers:
                plan, cards = self._devices.plan(known.ref)
                if _names_the_same(plan, known):
                    return PreparedClaim(plan, "completed", self._boot_id, cards_of(plan, cards)), True
        except LodeError as error:
            answers = isinstance(error, InvalidInput)
            self._log.warning("claim remembered from its metadata", claim=str(known.ref), reason=str(error))
        cards_then = self._storage.cards_in_spec(known.ref.uid)
        return PreparedClaim(known, "completed", self._boot_id, cards_then, guessed=True), answers

    def guessed(self, checkpoint: Checkpoint) -> Mapping[str, PreparedClaim]:
        """The claims of this boot of which only the devices, or only the uid, is known; by uid.

        The kubelet has those of an earlier boot prepared again, which says what they are.
        """
        claims = checkpoint.claims.items()
        return {uid: claim for uid, claim in claims if claim.guessed and claim.boot_id == self._boot_id}

    def identified(self, checkpoint: Checkpoint) -> Mapping[str, PreparedClaim]:
        """Find what guessed claims have, with kubelet, API and hardware; by uid. The caller does not hold the lock.

        The kubelet reports the names of unknown claims. A claim that it does not report stays unknown, such as one
        whose pod was deleted by force: its containers may run until the kubelet unprepares it.

        Raises:
            ApiError, TransientFault: call again.
        """
        found: dict[str, PreparedClaim] = {}
        lost = self.guessed(checkpoint)
        unknown = {uid for uid, claim in lost.items() if claim.is_unknown}
        refs = [claim.plan.ref for uid, claim in lost.items() if uid not in unknown]
        for ref in (*refs, *(self._named(unknown) if unknown else ())):
            try:
                plan, cards = self._devices.plan(ref)
                taken = {key for other in checkpoint.others(ref.uid) for key in other.keys}
                steps = self._devices.steps_found(self._devices.uses(plan, cards), taken)
            except (HardwareRefusal, InvalidInput) as error:
                self._log.warning("prepared claim not identified", claim=str(ref), reason=str(error))
                continue
            known = lost[ref.uid]
            if plan.results and (known.is_unknown or _names_the_same(plan, known.plan)):
                cards_then = known.cards or cards_of(plan, cards)
                found[ref.uid] = PreparedClaim(plan, "completed", self._boot_id, cards_then, steps)
        return found

    def _named(self, uids: Collection[str]) -> list[ClaimRef]:
        """The claims of running containers that have these uids."""
        cdi_names = {uid: self._storage.paths.cdi_name_prefix(uid) for uid in uids}
        named = (
            ClaimRef(claim.namespace, claim.name, uid)
            for claim in self._kubelet_claims()
            for uid, prefix in cdi_names.items()
            if any(name.startswith(prefix) for name in claim.cdi_ids)
        )
        return list(dict.fromkeys(named))

    def identify(self, checkpoint: Checkpoint, found: Mapping[str, PreparedClaim]) -> Checkpoint:
        """Record claims that were ``identified`` and are still guessed; returns the stored checkpoint. The caller holds
        the lock."""
        claims = {uid: found[uid] for uid in self.guessed(checkpoint).keys() & found.keys()}
        if claims:
            checkpoint = replace(checkpoint, claims={**checkpoint.claims, **claims})
            self._storage.save(checkpoint)
            names = sorted(str(claim.plan.ref) for claim in claims.values())
            self._log.info("prepared claims identified", claims=names)
        return checkpoint

    def tidy(self, checkpoint: Checkpoint) -> Checkpoint:
        """Give up half-prepared claims and remove files without a claim; returns the stored checkpoint.

        A claim that another instance is preparing, as during a rolling update, is not touched. Files that cannot be
        removed do not keep the plugin from starting. Calls neither the API nor the hardware. The caller holds the lock.
        """
        claims = checkpoint.claims.items()
        worked_on = {uid for uid, claim in claims if claim.state == "started" and self._storage.is_worked_on(claim)}
        dropped = [uid for uid, claim in claims if claim.state == "started" and uid not in worked_on]
        self._storage.sweep()
        try:
            self._storage.let_containers_read()
        except OSError as error:
            self._log.warning("metadata files not labelled for containers", reason=str(error))
        # Files of a claim that another instance prepares now are not leftovers: during a rolling update both run
        # (test_a_second_instance_that_starts_meanwhile_takes_no_claim_for_abandoned).
        kept = worked_on | {uid for uid, claim in claims if claim.state == "completed"}
        left = self._retired(checkpoint, {*dropped, *self._storage.uids() - kept})
        if dropped:
            self._log.info("half-prepared claims removed", claims=sorted(dropped))
        return left

    def _retired(self, checkpoint: Checkpoint, uids: Collection[str]) -> Checkpoint:
        """Give up these claims; returns the stored checkpoint. Claims whose files cannot be removed stay."""
        try:
            return retire(self._storage, checkpoint, uids)
        except OSError as error:
            self._log.error("files of claims not removed", reason=str(error))
            return self._storage.load()

    def stale(self, checkpoint: Checkpoint) -> Mapping[str, PreparedClaim]:
        """Claims that were prepared before the last boot and are no longer allocated, by uid.

        They have no containers. A claim that was prepared since the last boot and is no longer allocated is left to the
        kubelet, which unprepares it when its containers have stopped. If the API does not answer, no claim is stale.
        """
        found: dict[str, PreparedClaim] = {}
        for uid, claim in checkpoint.claims.items():
            if claim.boot_id != self._boot_id:
                try:
                    # Nothing of it runs since the reboot, so what nobody knows about it matters no more.
                    if claim.is_unknown or not is_allocated(self._api, claim.plan):
                        found[uid] = claim
                except ApiError as error:
                    self._log.warning("claims of an earlier boot not checked", reason=str(error))
                    break
        return found

    def answers(self, checkpoint: Checkpoint) -> HardwareAnswers:
        """Ask the hardware for the edits of each claim. The caller does not hold the lock.

        A claim whose card does not answer, or whose parameters only a newer version knows, is logged and left as it is.
        The other claims are restored.

        Raises:
            TransientFault: the hardware does not answer at all; call again.
        """
        cards, edits = self._devices.cards() if checkpoint.claims else (), {}
        silent: set[str] = set()
        for uid, claim in checkpoint.claims.items():
            if claim.state == "completed" and not claim.guessed and not self._is_past(claim):
                try:
                    edits[uid] = self._devices.edits(claim, self._devices.uses(claim.plan, cards), {})
                except TransientFault as fault:
                    silent.add(uid)
                    self._not_restored(claim, fault)
                except (HardwareRefusal, InvalidInput) as refusal:
                    self._not_restored(claim, refusal)
        return HardwareAnswers(cards, edits, frozenset(silent))

    def restore(
        self, checkpoint: Checkpoint, stale: Mapping[str, PreparedClaim], answers: HardwareAnswers
    ) -> Checkpoint:
        """Give up stale claims and restore lost files; returns the stored checkpoint.

        A claim that was prepared again since it was found stale stays. The caller holds the lock.
        """
        # The API was asked without the lock, so a claim may have been prepared again since then.
        dropped = checkpoint.unchanged(stale)
        kept = self._retired(checkpoint, dropped) if dropped else checkpoint
        restored = kept
        for uid, claim in kept.claims.items():
            if uid in answers.edits and claim.state == "completed" and not self._is_past(claim):
                restored = restored.with_claim(self._restored(claim, answers.cards, answers.edits[uid]))
        if restored.claims != kept.claims:
            self._storage.save(restored)
        if dropped:
            self._log.info("stale claims removed", claims=sorted(dropped))
        return restored

    def past(self, checkpoint: Checkpoint) -> tuple[PreparedClaim, ...]:
        """Completed claims of an earlier boot with steps, whose objects on the hardware may be gone."""
        return tuple(
            claim for claim in checkpoint.claims.values() if claim.state == "completed" and self._is_past(claim)
        )

    def _is_past(self, claim: PreparedClaim) -> bool:
        """Whether the objects of the claim's steps may be gone."""
        return bool(claim.steps) and claim.boot_id != self._boot_id

    def _restored(self, claim: PreparedClaim, cards: tuple[Card, ...], edits: EditsByDevice) -> PreparedClaim:
        """Restore the files of a claim, unless that would give it another card; returns it with the cards that it is
        on."""
        uid = claim.plan.ref.uid
        if claim.boot_id == self._boot_id:
            claim = replace(claim, cards=claim.cards or self._storage.cards_in_spec(uid))
            # The container runs with the card it was started with. Files that name another one would give a restarted
            # container the card of somebody else
            # (test_a_running_claim_keeps_its_card_when_the_cards_are_numbered_anew).
            if faults := exchanged(claim.cards, claim.plan, cards):
                self._log.error("files of a prepared claim left as they are", claim=str(claim.plan.ref), reason=faults)
                return claim
        try:
            recorded = replace(claim, cards=cards_of(claim.plan, cards))
            self._storage.write(uid, self._devices.files(recorded, cards, edits, self._storage.paths))
        except (InvalidInput, OSError) as error:
            self._not_restored(claim, error)
        return claim

    def _not_restored(self, claim: PreparedClaim, error: LodeError | OSError) -> None:
        self._log.error("files of a prepared claim not restored", claim=str(claim.plan.ref), reason=str(error))


def _names_the_same(plan: ClaimPlan, other: ClaimPlan) -> bool:
    """Whether both have the same devices. Metadata files say no more of them than their names."""
    return {it.device for it in plan.results} == {it.device for it in other.results}
