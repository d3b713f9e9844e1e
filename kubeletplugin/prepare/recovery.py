"""Repairing a node when the plugin starts, and after its checkpoint was damaged."""

from collections.abc import Iterator

from driver.errors import InvalidInput
from driver.kube.api import Api, ApiError
from driver.observe import Logger
from kubeletplugin.prepare.checkpoint import Checkpoint, PreparedClaim
from kubeletplugin.prepare.claim_usage import is_allocated
from kubeletplugin.prepare.node_devices import NodeDevices
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
        """Rebuild the checkpoint from the claims that have files here and store it. The damaged one is kept as a copy.

        Only claims with a CDI spec were prepared since the machine started, and only those matter: the kubelet has all
        others prepared again. The caller holds the lock.

        Raises:
            ApiError: the API did not answer; call again.
        """
        copy = self._storage.quarantine()
        prepared = self._storage.uids_with_cdi_spec()
        checkpoint = Checkpoint()
        for ref in sorted(ref for ref in self._storage.refs_in_metadata() if ref.uid in prepared):
            try:
                plan = self._devices.plan(ref)
            except InvalidInput as error:
                self._log.warning("claim left out of the rebuilt checkpoint", claim=str(ref), reason=str(error))
                continue
            checkpoint = checkpoint.with_claim(PreparedClaim(plan, "completed", self._boot_id))
        self._storage.save(checkpoint)
        self._log.error("damaged checkpoint rebuilt", copy=copy, claims=sorted(checkpoint.claims))
        return checkpoint

    def stale(self, checkpoint: Checkpoint) -> frozenset[str]:
        """Claims that were prepared before the machine last started and are not allocated any more.

        None of their containers can still run. A claim that is not allocated but was prepared since then is left to the
        kubelet, which unprepares it when its containers have stopped. If the API does not answer, nothing is stale.
        """
        return frozenset(self._stale(checkpoint))

    def _stale(self, checkpoint: Checkpoint) -> Iterator[str]:
        for uid, claim in checkpoint.claims.items():
            if claim.boot_id != self._boot_id:
                try:
                    if not is_allocated(self._api, claim.plan):
                        yield uid
                except ApiError as error:
                    self._log.warning("claims of an earlier boot not checked", reason=str(error))
                    return

    def tidy(self, checkpoint: Checkpoint, stale: frozenset[str]) -> None:
        """Undo half-prepared claims, drop stale ones, restore lost files and remove files without a claim.

        Stores the remaining claims. The caller holds the lock.
        """
        dropped = [uid for uid, claim in checkpoint.claims.items() if claim.state == "started" or uid in stale]
        kept = checkpoint.without(*dropped)
        self._storage.sweep()
        for uid, claim in kept.claims.items():
            self._restore(uid, claim)
        for uid in sorted(self._storage.uids() - set(kept.claims)):
            self._storage.remove(uid)
        if dropped:
            self._storage.save(kept)
            self._log.info("half-prepared and stale claims removed", claims=sorted(dropped))

    def _restore(self, uid: str, claim: PreparedClaim) -> None:
        try:
            self._storage.write(uid, self._devices.files(claim.plan, self._storage.paths))
        except InvalidInput as error:
            self._log.error("files of a prepared claim not restored", claim=str(claim.plan.ref), reason=str(error))
