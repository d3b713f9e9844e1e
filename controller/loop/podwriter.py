"""Every write that the controller makes to pods: our condition, the nominated node, our scheduling gate."""

from collections.abc import Callable
from typing import Any

from controller.loop.reader import ObjectReader
from controller.state import Changes, PodView, State
from driver.clock import Clock, rfc3339
from driver.kube.api import PODS, Api, Conflict, Invalid, Object


class PodWriter:
    """Writes to pods. Every method may raise any ApiError; the state then is as the API last said.

    Args:
        changed: called with what has to be looked at again, after every write.
    """

    def __init__(self, api: Api, clock: Clock, state: State, reader: ObjectReader, changed: Callable[[Changes], None]):
        self._api = api
        self._clock = clock
        self._state = state
        self._reader = reader
        self._changed = changed

    def admit(self, pod: PodView, node: str) -> None:
        """Set the condition that the pod has its devices, nominate the node, then remove our gate if it is there.

        kube-scheduler tries ``nominatedNodeName`` before all other nodes and keeps its CPU and memory for the pod.

        Args:
            node: "" if the devices can be reached from every node.
        """
        reported = pod.allocated is not None and pod.allocated.status == "True"
        nominated = None if pod.node_name or not node else node
        if not reported or (nominated and nominated != pod.nominated):
            message = f"on node {node}" if node else "reachable from every node"
            self.set_condition(pod, "True", "Allocated", message, nominated=nominated)
        self.remove_gate(pod)

    def outdate_verdict(self, pod: PodView) -> None:
        """Mark what kube-scheduler said about the pod as older than the allocation that follows.

        The mark is ``lastProbeTime`` of the condition PodScheduled; ``PodView.unschedulable`` says how it works.
        """
        mark = {"type": "PodScheduled", "lastProbeTime": rfc3339(self._clock.now())}
        self._patch_status(pod, {"conditions": [mark]})

    def remove_gate(self, pod: PodView) -> None:
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
            # A test of the patch failed: the gates have changed.
            raise Conflict(error.message, status=error.status, reason=error.reason) from error
        self._changed(self._state.put(PODS, answer))

    def set_condition(
        self, pod: PodView, status: str, reason: str, message: str, *, nominated: str | None = None, clear: bool = False
    ) -> None:
        """Set our condition on the pod; also nominate a node for it, or with ``clear`` remove the nomination."""
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
        self._patch_status(pod, changed)

    def _patch_status(self, pod: PodView, changed: Object) -> None:
        patch: Any = {"metadata": {"uid": pod.uid}, "status": changed}
        try:
            answer = self._api.patch(
                PODS, pod.name, patch, namespace=pod.namespace, subresource="status", patch_type="strategic"
            )
        except Invalid as error:
            # If another pod has the name now, the API server answers 422 to the other uid, not 409.
            self._reader.read(PODS, pod.key)
            current = self._state.pods.get(pod.key)
            if current is not None and current.uid == pod.uid:
                raise
            raise Conflict(error.message, status=error.status, reason=error.reason) from error
        self._changed(self._state.put(PODS, answer))
