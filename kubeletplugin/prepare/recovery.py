"""Putting a node in order when the plugin starts, and after its checkpoint was damaged."""

from collections.abc import Iterator

from driver.errors import InvalidInput
from driver.kube.api import Api, ApiError
from driver.observe import Logger
from kubeletplugin.prepare import holders
from kubeletplugin.prepare.checkpoint import Checkpoint, ClaimRecord
from kubeletplugin.prepare.records import Records
from kubeletplugin.prepare.site import Site


class Recovery:
    """Finishes or undoes what a killed instance left behind."""

    def __init__(self, api: Api, records: Records, site: Site, boot_id: str, log: Logger):
        self._api = api
        self._records = records
        self._site = site
        self._boot_id = boot_id
        self._log = log

    def rebuild(self) -> Checkpoint:
        """The checkpoint made anew from the claims that have files here, and stored; the damaged one is kept aside.

        Only claims with a CDI spec were prepared since the machine was started, and only those matter: the kubelet has
        all others prepared again. The caller holds the lock.

        Raises:
            ApiError: the API gave no answer; try again.
        """
        copy = self._records.quarantine()
        prepared = self._records.specified()
        checkpoint = Checkpoint()
        for ref in sorted(ref for ref in self._records.described() if ref.uid in prepared):
            try:
                plan = self._site.plan(ref)
            except InvalidInput as error:
                self._log.warning("claim not taken over into the new checkpoint", claim=str(ref), reason=str(error))
                continue
            checkpoint = checkpoint.having(ClaimRecord(plan, "completed", self._boot_id))
        self._records.save(checkpoint)
        self._log.error("damaged checkpoint replaced", copy=copy, claims=sorted(checkpoint.claims))
        return checkpoint

    def stale(self, checkpoint: Checkpoint) -> frozenset[str]:
        """Claims prepared before the machine was started last that the API knows no more.

        Nothing of theirs can still run. A claim that is gone but was prepared since then is left to the kubelet, which
        gives it up once its containers have stopped. Without an answer from the API nothing is stale.
        """
        return frozenset(self._stale(checkpoint))

    def _stale(self, checkpoint: Checkpoint) -> Iterator[str]:
        for uid, record in checkpoint.claims.items():
            if record.boot_id != self._boot_id:
                try:
                    if holders.standing(self._api, record.plan) == "gone":
                        yield uid
                except ApiError as error:
                    self._log.warning("claims of an earlier boot not looked at", reason=str(error))
                    return

    def tidy(self, checkpoint: Checkpoint, stale: frozenset[str]) -> None:
        """Undo half-prepared claims, drop stale ones, restore lost files, remove files of no claim and unfinished ones;
        store the rest.

        The caller holds the lock.
        """
        dropped = [uid for uid, record in checkpoint.claims.items() if record.state == "started" or uid in stale]
        kept = checkpoint.without(*dropped)
        self._records.sweep()
        for uid, record in kept.claims.items():
            self._restore(uid, record)
        for uid in sorted(self._records.uids() - set(kept.claims)):
            self._records.remove(uid)
        if dropped:
            self._records.save(kept)
            self._log.info("half-prepared and stale claims removed", claims=sorted(dropped))

    def _restore(self, uid: str, record: ClaimRecord) -> None:
        try:
            self._records.write(uid, self._site.files(record.plan, self._records.places))
        except InvalidInput as error:
            self._log.error(
                "files of a prepared claim cannot be restored", claim=str(record.plan.ref), reason=str(error)
            )
