"""Repairing a node when the plugin starts, and after its checkpoint was damaged."""

from collections.abc import Mapping
from dataclasses import replace

from driver.errors import InvalidInput
from driver.kube.api import Api, ApiError
from driver.observe import Logger
from kubeletplugin.prepare.card_identity import cards_of, exchanged
from kubeletplugin.prepare.checkpoint import Checkpoint, PreparedClaim
from kubeletplugin.prepare.claim_usage import is_allocated
from kubeletplugin.prepare.node_devices import HardwareAnswer, NodeDevices
from kubeletplugin.prepare.storage import ClaimStorage


class Recovery:
    """Finishes or undoes what a killed instance left behind."""

    def __init__(self, api: Api, storage: ClaimStorage, devices: NodeDevices, boot_id: str, log: Logger):
        self._api = api
        self._storage = storage
        self._devices = devices
        self._boot_id = boot_id
        self._log = log

    def rebuild(self) -> Checkpoint:
        """Rebuild the checkpoint from the claims' files and store it. The damaged one is kept as a copy.

        Only claims with a CDI spec were prepared since the machine started, and only those matter: the kubelet has all
        others prepared again. Their specs say what they hold, whether or not the claims still exist. The caller holds
        the lock.

        Raises:
            ApiError, TransientFault: a spec that an older version wrote does not say it, and the API or the hardware
                did not answer; call again.
        """
        copy = self._storage.quarantine()
        checkpoint = Checkpoint()
        for claim in self._storage.records(self._boot_id):
            checkpoint = checkpoint.with_claim(claim)
        unrecorded = self._storage.uids_with_cdi_spec() - set(checkpoint.claims)
        for ref in sorted(ref for ref in self._storage.refs_in_metadata() if ref.uid in unrecorded):
            try:
                plan, answer = self._devices.plan(ref)
            except InvalidInput as error:
                self._log.warning("claim left out of the rebuilt checkpoint", claim=str(ref), reason=str(error))
                continue
            cards = cards_of(plan, answer.cards)
            checkpoint = checkpoint.with_claim(PreparedClaim(plan, "completed", self._boot_id, cards))
        self._storage.save(checkpoint)
        self._log.error("damaged checkpoint rebuilt", copy=copy, claims=sorted(checkpoint.claims))
        return checkpoint

    def tidy(self, checkpoint: Checkpoint) -> Checkpoint:
        """Undo half-prepared claims and remove files without a claim; returns the remaining claims, which are stored.

        Needs neither the API nor the hardware. The caller holds the lock.
        """
        dropped = [uid for uid, claim in checkpoint.claims.items() if claim.state == "started"]
        kept = checkpoint.without(*dropped)
        self._storage.sweep()
        for uid in sorted(self._storage.uids() - set(kept.claims)):
            self._storage.remove(uid)
        if dropped:
            self._storage.save(kept)
            self._log.info("half-prepared claims removed", claims=sorted(dropped))
        return kept

    def stale(self, checkpoint: Checkpoint) -> Mapping[str, PreparedClaim]:
        """Claims that were prepared before the machine last started and are not allocated any more, by uid.

        None of their containers can still run. A claim that is not allocated but was prepared since then is left to the
        kubelet, which unprepares it when its containers have stopped. If the API does not answer, nothing is stale.
        """
        found: dict[str, PreparedClaim] = {}
        for uid, claim in checkpoint.claims.items():
            if claim.boot_id != self._boot_id:
                try:
                    if not is_allocated(self._api, claim.plan):
                        found[uid] = claim
                except ApiError as error:
                    self._log.warning("claims of an earlier boot not checked", reason=str(error))
                    break
        return found

    def answers(self, checkpoint: Checkpoint) -> Mapping[str, HardwareAnswer]:
        """The hardware's answer about each claim, by uid.

        Raises:
            TransientFault: the hardware does not answer; call again.
        """
        return {uid: self._devices.ask(claim.plan) for uid, claim in checkpoint.claims.items()}

    def restore(
        self, checkpoint: Checkpoint, stale: Mapping[str, PreparedClaim], answers: Mapping[str, HardwareAnswer]
    ) -> Checkpoint:
        """Drop stale claims and restore lost files; returns the remaining claims, which are stored.

        A claim that was prepared again since it was found stale stays. The caller holds the lock.
        """
        dropped = checkpoint.unchanged(stale)
        kept = checkpoint.without(*dropped)
        for uid in sorted(dropped):
            self._storage.remove(uid)
        for uid in [uid for uid, claim in kept.claims.items() if uid in answers and claim.state == "completed"]:
            kept = kept.with_claim(self._restored(kept.claims[uid], answers[uid]))
        if kept.claims != checkpoint.claims:
            self._storage.save(kept)
        if dropped:
            self._log.info("stale claims removed", claims=sorted(dropped))
        return kept

    def _restored(self, claim: PreparedClaim, answer: HardwareAnswer) -> PreparedClaim:
        """The claim with the cards it is on; its files are restored unless that would give it another card."""
        uid = claim.plan.ref.uid
        if claim.boot_id == self._boot_id:
            claim = replace(claim, cards=claim.cards or self._storage.cards_in_spec(uid))
            if faults := exchanged(claim.cards, claim.plan, answer.cards):
                self._log.error("files of a prepared claim left as they are", claim=str(claim.plan.ref), reason=faults)
                return claim
        try:
            self._storage.write(uid, self._devices.files(claim.plan, answer, self._storage.paths))
        except InvalidInput as error:
            self._log.error("files of a prepared claim not restored", claim=str(claim.plan.ref), reason=str(error))
        return claim
