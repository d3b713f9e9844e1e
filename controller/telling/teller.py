"""Says why pods wait: a condition on the pod, an Event on the pod and on claims that are at fault."""

from collections.abc import Collection
from typing import Final

from controller.reconcile import DoubleUse, Reason, UnhealthyUse, Wait
from controller.state import PodView, State, UnreadableObject
from controller.telling.events import warning
from controller.telling.told import ToldPods
from controller.writing import Lane, Writes, WriteSequence
from controller.writing.sequences import condition, pod_target
from controller.writing.steps import ObjectKey, PatchPodStatus, Step
from driver.clock import Clock, rfc3339
from driver.kube.api import PODS, RESOURCE_CLAIMS, Object, Resource
from driver.observe import Logger

_CONDITION: Final = "condition"


class Teller:
    """Has conditions and Events written in the telling lane, so that no pod waits for words to be served.

    Only news is written: another reason at once, other words for the same reason after ``RETELL_SECONDS``.

    Args:
        identity: of this run of the program.
    """

    def __init__(self, writes: Writes, clock: Clock, state: State, log: Logger, identity: str):
        self._writes = writes
        self._clock = clock
        self._state = state
        self._identity = identity
        self._told = ToldPods()
        self._log = log

    def shows(self, pod: PodView, reason: Reason) -> bool:
        """Whether the pod's condition says so. It may not: a write for the pod drops what was still to be told."""
        known = pod.allocated
        return known is not None and (known.status, known.reason) == ("False", reason.value)

    def retell_at(self, pod: PodView, reason: Reason) -> float | None:
        """From when on (monotonic seconds) other words of the reason are told; None if any words are told now."""
        return self._told.retell_at(pod, reason.value, self._clock.monotonic())

    def tell_wait(self, pod: PodView, wait: Wait, *, event: bool = True) -> float | None:
        """Say why the pod waits if that is news; returns when other words may be told, if these are not told now.

        Args:
            event: whether there is an Event, too; not if another pod has it, because the wait is about several pods.
        """
        now, reason = self._clock.monotonic(), wait.reason.value
        if not self._told.tell(pod, reason, wait.message, now):
            if not self.shows(pod, wait.reason):
                self._set_condition(pod, reason, wait.message)
            return None if self._told.is_told(pod, wait.message) else self._told.retell_at(pod, reason, now)
        self._log.info("pod waits", pod=pod.key, reason=reason, message=wait.message)
        known = pod.allocated
        if known is None or (known.status, known.reason, known.message) != ("False", reason, wait.message):
            self._set_condition(pod, reason, wait.message)
        if event:
            self._warn(PODS, pod.key, pod.uid, reason, wait.message)
        for key in wait.claims if event else ():
            if record := self._state.claims.get(key):
                self._warn(RESOURCE_CLAIMS, key, record.claim.uid, reason, wait.message)
        return None

    def tell_taken_back(self, pod: PodView, node: str, message: str) -> None:
        """Say that the pod lost its devices on a node. The condition follows when it is placed anew or has to wait."""
        text = f"took back the devices on node {node}: {message}"
        self._warn(PODS, pod.key, pod.uid, "AllocationTakenBack", text)

    def tell_double_use(self, double: DoubleUse) -> None:
        """Say on every claim that takes part that something is held by more claims than there is of it."""
        for key in (double.claim, *double.rivals):
            if record := self._state.claims.get(key):
                reason = Reason.DOUBLE_USE.value
                self._warn(RESOURCE_CLAIMS, key, record.claim.uid, reason, double.message(key))

    def tell_unhealthy(self, use: UnhealthyUse, pods: Collection[str]) -> None:
        """Say on these pods, which use it, that a device does not work."""
        for key in pods:
            if pod := self._state.pods.get(key):
                self._warn(PODS, key, pod.uid, Reason.DEVICE_UNHEALTHY.value, use.message)

    def tell_unreadable(self, found: UnreadableObject) -> None:
        """Say on the object that it cannot be decoded, if it is in a namespace, where its author may look."""
        if found.resource.namespaced and found.uid:
            message = f"cannot be decoded, and counts as it was before: {found.problem}; write it anew without that"
            self._warn(found.resource, found.key, found.uid, Reason.UNREADABLE.value, message)

    def forget(self, pod: str) -> None:
        """The pod has its devices, or telling failed; whatever is to be said next is news."""
        self._told.forget(pod)

    def _set_condition(self, pod: PodView, reason: str, message: str) -> None:
        timestamp = rfc3339(self._clock.now())
        status: Object = {"conditions": [condition(self._state, pod, "False", reason, message, timestamp)]}
        if pod.nominated:
            status["nominatedNodeName"] = None
        self._tell((PODS, pod.key), _CONDITION, PatchPodStatus(pod_target(pod), status))

    def _warn(self, resource: Resource, key: str, uid: str, reason: str, message: str) -> None:
        timestamp = rfc3339(self._clock.now())
        reporter = f"{self._state.names.driver}/controller"
        step = warning(
            resource, key, uid, reason, message, reporter=reporter, instance=self._identity, timestamp=timestamp
        )
        self._tell((resource, key), reason, step)

    def _tell(self, about: ObjectKey, what: str, step: Step) -> None:
        self._writes.tell((about, what), WriteSequence(("told", about[1]), (step,), Lane.TELLING))
