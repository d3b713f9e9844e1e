"""Every write that the controller makes to claims.

Each write carries the resourceVersion that was decided on, so a stale decision ends in a Conflict and not in a second
allocation. What the API answers is taken into the state at once; a watch that lags cannot undo that.
"""

from collections.abc import Callable
from dataclasses import dataclass

from controller.loop.finalizer import add_finalizer
from controller.loop.reader import ObjectReader
from controller.reconcile import Allocate, ClaimUpdate, Deallocate
from controller.state import Changes, ClaimRecord, State
from driver.errors import OperatorFault
from driver.kube.api import RESOURCE_CLAIMS, Api, Forbidden, Invalid, NotFound, Object, Unavailable
from driver.model import Allocation
from driver.names import FINALIZER
from driver.wire import allocation_from


@dataclass(frozen=True, slots=True)
class _LostAnswer:
    """A write of an allocation that may have taken place or may still take place."""

    body: Object
    allocation: Allocation


class ClaimWriter:
    """Writes to claims. Every method may raise any ApiError; the state then is as the API last said.

    Args:
        changed: called with what has to be looked at again, after every write.
    """

    def __init__(self, api: Api, state: State, reader: ObjectReader, changed: Callable[[Changes], None]):
        self._api = api
        self._state = state
        self._reader = reader
        self._changed = changed
        self._lost_answers: dict[str, _LostAnswer] = {}

    def write(self, update: ClaimUpdate) -> None:
        """Make the update; before an allocation the finalizer, in a write of its own.

        Raises:
            OperatorFault: the API server does not store all fields of the allocation; it was cleared again.
        """
        record = self._known(update.claim)
        raw = self._with_finalizer(record) if isinstance(update, Allocate) else record.raw
        before = raw.get("status") or {}
        status = update.status(before)
        if status == before:
            return
        body = {**raw, "status": status}
        if isinstance(update, Allocate):
            self._allocate(update, body)
        else:
            self._update_status(body)

    def _allocate(self, update: Allocate, body: Object) -> None:
        try:
            stored = self._update_status(body)
        except Unavailable:
            # The write may still take place. Its devices count as in use until the claim is known to have changed.
            self._lost_answers[update.claim] = _LostAnswer(body, update.allocation)
            self._state.assume(update.claim, update.allocation)
            self._changed(Changes(claims={update.claim: None}))
            raise
        if allocation_from(stored["status"]["allocation"]) != update.allocation:
            self.write(Deallocate(update.claim))
            raise OperatorFault(
                f"ResourceClaim {update.claim}: the API server does not store all fields of the allocation; enable the "
                "feature gates DRAConsumableCapacity, DRAPartitionableDevices and DRADeviceTaints on it"
            )

    def _with_finalizer(self, record: ClaimRecord) -> Object:
        if FINALIZER in record.claim.finalizers:
            return record.raw
        answer = add_finalizer(self._api, record.raw)
        self._changed(self._state.put(RESOURCE_CLAIMS, answer))
        return answer

    # Writes whose answer was lost

    def lost_answer(self, key: str) -> bool:
        """Whether an allocation of the claim was written without an answer, and may yet take place."""
        return key in self._lost_answers

    def resolve(self, key: str) -> None:
        """Find out whether a write without an answer took place, by repeating it if the claim is still unchanged.

        Without that, a write that is still on its way could arrive after its devices were allocated to another claim.
        """
        lost = self._lost_answers[key]
        self._reader.read(RESOURCE_CLAIMS, key)
        record = self._state.claims.get(key)
        metadata = lost.body["metadata"]
        version = record and (record.claim.uid, record.claim.resource_version)
        try:
            if version == (metadata["uid"], metadata["resourceVersion"]):
                self._update_status(lost.body)
        except (Invalid, Forbidden):
            # Rejected for good, so the first write was rejected, too. After any other error it is still unknown.
            del self._lost_answers[key]
            self._state.forget(key, lost.allocation)
            raise
        del self._lost_answers[key]
        record = self._state.claims.get(key)
        if record is None or record.claim.allocation is None:
            self._state.forget(key, lost.allocation)

    def _known(self, key: str) -> ClaimRecord:
        record = self._state.claims.get(key)
        if record is None:
            raise NotFound(f"ResourceClaim {key} does not exist", status=404)
        return record

    def _update_status(self, body: Object) -> Object:
        answer = self._api.update(RESOURCE_CLAIMS, body, "status")
        self._changed(self._state.put(RESOURCE_CLAIMS, answer))
        return answer
