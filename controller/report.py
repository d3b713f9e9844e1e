"""Tells users why their pod waits: a condition on the pod, Events on pod and claim, and nothing twice in a row."""

from dataclasses import dataclass

from controller.decisions import Wait
from controller.pods import PodView
from controller.state import State
from controller.writes import Writer
from driver.backoff import delay
from driver.clock import Clock, rfc3339
from driver.kube.api import EVENTS, PODS, RESOURCE_CLAIMS, AlreadyExists, Api, ApiError, Object, Resource
from driver.observe import Logger

_NAME_LIMIT = 200
_MESSAGE_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Told:
    """What a pod's user was told last."""

    reason: str
    message: str
    at: float
    """Monotonic seconds."""
    interval: float
    """The back-off at that time, seconds."""


class Reporter:
    """Writes conditions and Events. Failing to is logged and never keeps a pod from being served."""

    def __init__(self, api: Api, clock: Clock, state: State, writer: Writer, log: Logger, identity: str):
        self._api = api
        self._clock = clock
        self._state = state
        self._writer = writer
        self._log = log
        self._identity = identity
        self._sequence = 0

    def waits(self, pod: PodView, wait: Wait, attempt: int, bound: float, told: Told | None) -> Told | None:
        """Say why the pod waits, unless that was said already; returns what has been said last.

        The same again is said only when the back-off has grown, something new of the same kind not before the back-off
        has passed: a busy cluster changes its numbers all the time.
        """
        now, interval = self._clock.monotonic(), delay(attempt, bound=bound)
        if told is not None and told.reason == wait.reason:
            if told.message == wait.message and interval <= told.interval:
                return told
            if now - told.at < told.interval:
                return told
        known = pod.allocated
        if known is None or (known.status, known.reason, known.message) != ("False", wait.reason, wait.message):
            try:
                self._writer.condition(pod, "False", wait.reason, wait.message, clear=bool(pod.nominated))
            except ApiError as error:
                self._log.warning("condition not written", pod=pod.key, error=str(error))
        self.event(PODS, pod.key, pod.uid, wait.reason, wait.message)
        for key in wait.claims:
            if record := self._state.claims.get(key):
                self.event(RESOURCE_CLAIMS, key, record.claim.uid, wait.reason, wait.message)
        return Told(wait.reason, wait.message, now, interval)

    def taken_back(self, pod: PodView, node: str, message: str) -> None:
        """Say that the pod lost its devices on a node again."""
        text = f"took back the devices on node {node}: {message}"
        try:
            self._writer.condition(pod, "False", "TakenBack", text, clear=True)
        except ApiError as error:
            self._log.warning("condition not written", pod=pod.key, error=str(error))
        self.event(PODS, pod.key, pod.uid, "AllocationTakenBack", text)

    def event(self, resource: Resource, key: str, uid: str, reason: str, message: str) -> None:
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
            "message": message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…",
            "source": {"component": "lode-controller"},
            "reportingComponent": f"{self._state.names.driver}/controller",
            "reportingInstance": self._identity[:128],
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
            "count": 1,
        }
        try:
            self._api.create(EVENTS, event, namespace)
        except AlreadyExists:
            return
        except ApiError as error:
            self._log.warning("event not written", object=key, reason=reason, error=str(error))
