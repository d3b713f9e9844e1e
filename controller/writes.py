"""Carries decisions out: every write the controller makes to claims and pods, in the order the API wants them.

Each write to a claim carries the resourceVersion that was decided on, so a stale decision ends in a Conflict and not in
a second allocation. What the API answers is taken into the state at once; a watch that lags cannot undo that.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from controller.decisions import Place, TakeBack
from controller.finalizer import add_finalizer
from controller.pods import PodView
from controller.records import Changes, ClaimRecord
from controller.state import State
from driver.clock import Clock, rfc3339
from driver.errors import OperatorFault
from driver.kube.api import (
    PODS,
    RESOURCE_CLAIMS,
    Api,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Object,
    Resource,
    Unavailable,
)
from driver.model import Allocation, Consumer
from driver.names import FINALIZER
from driver.wire import allocation_from, allocation_to, consumer_to


class Writer:
    """Writes to claims and pods. Every method may raise any ApiError; the state then is as the API last said.

    Args:
        changed: told what has to be looked at again after each write.
    """

    def __init__(self, api: Api, clock: Clock, state: State, changed: Callable[[Changes], None]):
        self._api = api
        self._clock = clock
        self._state = state
        self._changed = changed
        self._doubts: dict[str, tuple[Object, Allocation]] = {}

    # Reading again

    def refresh(self, pod_key: str) -> None:
        """Read the pod and its claims anew."""
        self._read(PODS, pod_key)
        pod = self._state.pods.get(pod_key)
        for key in pod.claim_keys if pod else ():
            self._read(RESOURCE_CLAIMS, key)

    def _read(self, resource: Resource, key: str) -> None:
        namespace, name = key.split("/")
        try:
            self._changed(self._state.put(resource, self._api.get(resource, name, namespace)))
        except NotFound:
            self._changed(self._state.drop(resource, key))

    # Allocating

    def place(self, pod: PodView, decision: Place) -> None:
        """Finalizer and allocation of each claim, then the pod's status, then the gate.

        Raises:
            OperatorFault: the API server does not store what an allocation needs; nothing is left allocated by it.
        """
        for key, allocation in decision.allocations:
            self._allocate(key, allocation, pod)
        for key in decision.reserve:
            self._reserve(key, pod)
        self.let_go(pod, decision.node)

    def _allocate(self, key: str, allocation: Allocation, pod: PodView) -> None:
        claim = self._with_finalizer(key)
        stamped = replace(allocation, timestamp=rfc3339(self._clock.now()))
        status = {"allocation": allocation_to(stamped), "reservedFor": [_consumer(pod)]}
        body = {**claim, "status": {**(claim.get("status") or {}), **status}}
        try:
            stored = self._update(body, "status")
        except Unavailable:
            # The write may still take place. Its devices count as in use until the claim is known to have moved on.
            self._doubts[key] = (body, allocation)
            self._state.assume(key, allocation)
            self._changed(Changes(claims={key: None}))
            raise
        if allocation_from(stored["status"]["allocation"]) != stamped:
            self._clear(key)
            raise OperatorFault(
                f"ResourceClaim {key}: the API server does not store all fields of the allocation; enable the feature "
                "gates DRAConsumableCapacity, DRAPartitionableDevices and DRADeviceTaints on it"
            )

    def _with_finalizer(self, key: str) -> Object:
        record = self._known(key)
        if FINALIZER in record.claim.finalizers:
            return record.raw
        answer = add_finalizer(self._api, record.raw)
        self._changed(self._state.put(RESOURCE_CLAIMS, answer))
        return answer

    def _reserve(self, key: str, pod: PodView) -> None:
        raw = self._known(key).raw
        consumers = [*(raw["status"].get("reservedFor") or ()), _consumer(pod)]
        self._update({**raw, "status": {**raw["status"], "reservedFor": consumers}}, "status")

    def let_go(self, pod: PodView, node: str) -> None:
        """Tell the pod that it has its devices and where, then lift the gate if it is there.

        kube-scheduler tries ``nominatedNodeName`` before all other nodes and keeps its CPU and memory for the pod.
        """
        told = pod.allocated is not None and pod.allocated.status == "True"
        nominated = None if pod.node_name or not node else node
        if not told or (nominated and nominated != pod.nominated):
            message = f"on node {node}" if node else "reachable from every node"
            self.condition(pod, "True", "Allocated", message, nominated=nominated)
        self.lift(pod)

    def lift(self, pod: PodView) -> None:
        """Remove our gate, and nothing else, if the pod has it."""
        current = self._state.pods.get(pod.key)
        if current is None or current.uid != pod.uid or self._state.names.gate not in current.gates:
            return
        path = f"/spec/schedulingGates/{current.gates.index(self._state.names.gate)}"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": f"{path}/name", "value": self._state.names.gate},
            {"op": "remove", "path": path},
        ]
        try:
            answer = self._api.patch(PODS, pod.name, patch, namespace=pod.namespace, patch_type="json")
        except Invalid as error:
            # A test failed: the gates are not where they were.
            raise Conflict(error.message, status=error.status, reason=error.reason) from error
        self._changed(self._state.put(PODS, answer))

    def condition(
        self, pod: PodView, status: str, reason: str, message: str, *, nominated: str | None = None, clear: bool = False
    ) -> None:
        """Set our condition on the pod; also nominate a node for it, or with ``clear`` none."""
        before = pod.allocated
        since = before.since if before and before.status == status and before.since else rfc3339(self._clock.now())
        condition = {
            "type": self._state.condition_type,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }
        changed: Object = {"conditions": [condition]}
        if nominated or clear:
            changed["nominatedNodeName"] = nominated
        patch: Any = {"metadata": {"uid": pod.uid}, "status": changed}
        try:
            answer = self._api.patch(
                PODS, pod.name, patch, namespace=pod.namespace, subresource="status", patch_type="strategic"
            )
        except Invalid as error:
            # The API server answers 422, not 409, to the uid of a pod whose name another pod has now.
            self._read(PODS, pod.key)
            current = self._state.pods.get(pod.key)
            if current is not None and current.uid == pod.uid:
                raise
            raise Conflict(error.message, status=error.status, reason=error.reason) from error
        self._changed(self._state.put(PODS, answer))

    # Taking back

    def release(self, pod: PodView, claims: tuple[str, ...]) -> None:
        """Drop the pod's reservation of the claims; they stay allocated."""
        for key in claims:
            record = self._known(key)
            kept = [consumer_to(c) for c in record.claim.reserved_for if c.uid != pod.uid]
            if len(kept) < len(record.claim.reserved_for):
                self._update({**record.raw, "status": {**record.raw["status"], "reservedFor": kept}}, "status")

    def take_back(self, pod: PodView, decision: TakeBack) -> bool:
        """Clear the allocations; False if the pod turned out to have changed, so that it must be decided anew."""
        if decision.refused:
            self._read(PODS, pod.key)
            current = self._state.pods.get(pod.key)
            if current is None or current.uid != pod.uid or current.node_name or not current.refusal:
                return False
        for key in decision.claims:
            self._clear(key)
        return True

    def free(self, key: str) -> None:
        """Clear the allocation of a claim that nobody uses."""
        self._clear(key)

    def _clear(self, key: str) -> None:
        self._update({**self._known(key).raw, "status": {}}, "status")

    # Writes whose answer was lost

    def in_doubt(self, key: str) -> bool:
        """Whether an allocation of the claim was written without an answer and is not known to have failed."""
        return key in self._doubts

    def settle(self, key: str) -> None:
        """Find out whether a write without an answer took place, by making it again if nothing followed it.

        A write that is still on its way could otherwise arrive after its devices went to somebody else.
        """
        body, allocation = self._doubts[key]
        self._read(RESOURCE_CLAIMS, key)
        record = self._state.claims.get(key)
        metadata = body["metadata"]
        seen = record and (record.claim.uid, record.claim.resource_version)
        try:
            if seen == (metadata["uid"], metadata["resourceVersion"]):
                self._update(body, "status")
        except (Invalid, Forbidden):
            # Refused for good, so the first one was refused too. Any other error leaves the question open.
            del self._doubts[key]
            self._state.forget(key, allocation)
            raise
        del self._doubts[key]
        record = self._state.claims.get(key)
        if record is None or record.claim.allocation is None:
            self._state.forget(key, allocation)

    def _known(self, key: str) -> ClaimRecord:
        record = self._state.claims.get(key)
        if record is None:
            raise NotFound(f"ResourceClaim {key} does not exist", status=404)
        return record

    def _update(self, body: Object, subresource: str = "") -> Object:
        answer = self._api.update(RESOURCE_CLAIMS, body, subresource)
        self._changed(self._state.put(RESOURCE_CLAIMS, answer))
        return answer


def _consumer(pod: PodView) -> Object:
    return consumer_to(Consumer("pods", pod.name, pod.uid))
