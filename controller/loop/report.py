"""Tells users why their pod waits: a condition on the pod, Events on the pod and its claims, without repetition."""

from dataclasses import dataclass

from controller.reconcile import Reason, Wait
from controller.state import PodView, State
from controller.writing import Lane, Writes, WriteSequence
from controller.writing.sequences import condition, pod_target
from controller.writing.steps import CreateObject, ObjectKey, PatchPodStatus, Step, Target
from driver.backoff import delay
from driver.clock import Clock, rfc3339
from driver.kube.api import EVENTS, PODS, RESOURCE_CLAIMS, Object, Resource
from driver.limits import MAX_EVENT_MESSAGE

_NAME_LIMIT = 200
"""Characters of the object's name in an Event's name, which has to fit into 253 with its suffix."""


@dataclass(frozen=True, slots=True)
class LastReport:
    """The last report about a pod that waits."""

    reason: Reason
    message: str
    at: float
    """Monotonic seconds."""
    interval: float
    """The back-off at that time, in seconds."""


class Reporter:
    """Has conditions and Events written, in the telling lane: no pod ever waits for them to be served."""

    def __init__(self, writes: Writes, clock: Clock, state: State, identity: str):
        self._writes = writes
        self._clock = clock
        self._state = state
        self._identity = identity
        self._sequence = 0

    def report_wait(
        self, pod: PodView, wait: Wait, attempt: int, bound: float, last: LastReport | None
    ) -> LastReport | None:
        """Report why the pod waits, unless that was done already; returns the last report.

        The same message is reported again only when the back-off has grown; another message with the same reason not
        before the back-off has passed, because in a busy cluster the numbers in it change all the time.

        Args:
            attempt: number of attempts to place the pod, from 1.
            bound: longest back-off in seconds.
        """
        now, interval = self._clock.monotonic(), delay(attempt, bound=bound)
        if last is not None and last.reason == wait.reason:
            if last.message == wait.message and interval <= last.interval:
                return last
            if now - last.at < last.interval:
                return last
        reason, known = wait.reason.value, pod.allocated
        if known is None or (known.status, known.reason, known.message) != ("False", reason, wait.message):
            self._set_condition(pod, reason, wait.message, clear=bool(pod.nominated))
        self._write_event(PODS, pod.key, pod.uid, reason, wait.message)
        for key in wait.claims:
            if record := self._state.claims.get(key):
                self._write_event(RESOURCE_CLAIMS, key, record.claim.uid, reason, wait.message)
        return LastReport(wait.reason, wait.message, now, interval)

    def report_taken_back(self, pod: PodView, node: str, message: str) -> None:
        """Report that the pod lost its devices on a node."""
        text = f"took back the devices on node {node}: {message}"
        self._set_condition(pod, "TakenBack", text, clear=True)
        self._write_event(PODS, pod.key, pod.uid, "AllocationTakenBack", text)

    def _set_condition(self, pod: PodView, reason: str, message: str, *, clear: bool) -> None:
        timestamp = rfc3339(self._clock.now())
        status: Object = {"conditions": [condition(self._state, pod, "False", reason, message, timestamp)]}
        if clear:
            status["nominatedNodeName"] = None
        self._tell((PODS, pod.key), "condition", PatchPodStatus(pod_target(pod), status))

    def _write_event(self, resource: Resource, key: str, uid: str, reason: str, message: str) -> None:
        """Write a Warning about an object."""
        namespace, name = key.split("/")
        self._sequence += 1
        now = self._clock.now()
        event: Object = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{name[:_NAME_LIMIT]}.{int(now * 1e6):x}{self._sequence:x}",
                "namespace": namespace,
            },
            "involvedObject": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
            "type": "Warning",
            "reason": reason,
            "message": message if len(message) <= MAX_EVENT_MESSAGE else message[: MAX_EVENT_MESSAGE - 1] + "…",
            "source": {"component": "lode-controller"},
            "reportingComponent": f"{self._state.names.driver}/controller",
            "reportingInstance": self._identity[:128],
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
            "count": 1,
        }
        target = Target(EVENTS, f"{namespace}/{event['metadata']['name']}", "")
        self._tell((resource, key), reason, CreateObject(target, event))

    def _tell(self, about: ObjectKey, reason: str, step: Step) -> None:
        """Have something told about an object; it takes the place of what was to be told with the same reason."""
        self._writes.tell((about, reason), WriteSequence(("told", about[1]), (step,), Lane.TELLING))
