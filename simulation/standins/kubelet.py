"""The kubelet of one node: runs pods bound to it, with their claims prepared by the driver's plugin."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from driver.clock import Clock, rfc3339
from driver.errors import LodeError
from driver.kube.api import EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.limits import MAX_EVENT_MESSAGE
from driver.wire import claim_from
from simulation.standins.claims import claim_name
from simulation.standins.informed import (
    Key,
    StandIn,
    delete_exactly,
    is_deleting,
    is_terminal,
    name_key,
    phase,
)
from simulation.standins.machine import Container, Jitter, Machine
from simulation.standins.scheduler import set_conditions

CHECKPOINT = "/var/lib/kubelet/dra_manager_state"
PREPARE_RETRY_SECONDS = 60.0
UNPREPARE_RETRY_SECONDS = 10.0
JITTER = 0.5
"""Both retries come up to half as much later."""
KILL_SECONDS = 30
"""How long containers of a pod that is gone from the API may take to stop."""
REGISTER_SECONDS = 1.0
WIPE_SECONDS = 30.0
"""How long after the last connection to a plugin broke its slices are deleted."""


@dataclass(frozen=True, slots=True)
class ClaimName:
    """How a kubelet names a claim to a plugin."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a plugin says about one claim."""

    error: str = ""
    cdi_ids: tuple[str, ...] = ()


class PluginDown(LodeError):
    """No plugin of the driver is registered, or the call did not come through."""


class Plugin(Protocol):
    """The driver's plugin as the kubelet reaches it. Every method may raise PluginDown."""

    def registered(self) -> None:
        """Called once when kubelet and plugin have found each other, again after either was started anew."""
        ...

    def prepare(self, claims: Sequence[ClaimName]) -> Mapping[str, Answer]:
        """NodePrepareResources."""
        ...

    def unprepare(self, claims: Sequence[ClaimName]) -> Mapping[str, Answer]:
        """NodeUnprepareResources."""
        ...


class _Refused(LodeError):
    """The pod cannot be started now."""


class Kubelet(StandIn):
    """Starts, ends and removes the pods of one node. What it must not forget is in its checkpoint file."""

    def __init__(self, api: Api, clock: Clock, machine: Machine, plugin: Plugin, jitter: Jitter):
        super().__init__(api, clock)
        self._machine = machine
        self._plugin = plugin
        self._jitter = jitter
        self._connected = False
        self._prepared: set[str] = set()
        self._unpreparing: set[str] = set()
        self._claims: dict[str, Object] = json.loads(machine.files.read(CHECKPOINT) or b"{}")
        self._pods = self.watch(PODS, self._pod_changed, field_selector=f"spec.nodeName={machine.name}")
        self.cdi_ids: dict[str, tuple[str, ...]] = {}
        """What the container runtime is given, by pod uid."""
        self.queue.add(("wipe",))
        self.queue.add(("register",))
        for uid in {*machine.containers, *(pod for claim in self._claims.values() for pod in claim["pods"])}:
            self.queue.add(("pod", uid))

    def plugin_started(self) -> None:
        """Look for the plugin again: its registration socket is new."""
        self.queue.add(("register",))

    def plugin_lost(self) -> None:
        """Notice that the connection to the plugin broke."""
        self._connected = False
        self.queue.add(("lost",), WIPE_SECONDS)

    def look_at(self, pod_uid: str) -> None:
        """Notice that something about the pod's containers changed."""
        self.queue.add(("pod", pod_uid))

    def _pod_changed(self, pod: Object) -> None:
        self.queue.add(("pod", pod["metadata"]["uid"]))

    def reconcile(self, key: Key) -> None:
        """One sync of one pod, or a chore."""
        match key:
            case ("wipe",):
                self._wipe()
            case ("register",):
                self._register()
            case ("lost",):
                if not self._connected:
                    self._wipe()
            case _:
                self._sync(key[1])

    def _wipe(self) -> None:
        """Delete the slices of this node: at the start, and when a driver is gone for good. Drivers publish anew."""
        selector = f"spec.nodeName={self._machine.name}"
        for found in self.api.list(RESOURCE_SLICES, field_selector=selector).items:
            delete_exactly(self.api, RESOURCE_SLICES, found)

    def _register(self) -> None:
        try:
            self._plugin.registered()
        except PluginDown:
            self.queue.add(("register",), REGISTER_SECONDS)
        else:
            self._connected = True

    def _sync(self, uid: str) -> None:
        pod = next((p for p in self._pods.all() if p["metadata"]["uid"] == uid), None)
        container = self._machine.containers.get(uid)
        ended = container is not None and container.exit_phase
        if pod is None or is_deleting(pod) or ended:
            self._end(uid, pod)
        elif is_terminal(pod):
            return
        elif container is None:
            self._start(uid, pod)
        elif phase(pod) != "Running":
            self._report_running(pod)

    def _end(self, uid: str, pod: Object | None) -> None:
        """Containers first, then the claims, and only then is the pod reported as ended or removed."""
        container = self._machine.containers.get(uid)
        if container and (left := self._still_stops(container, pod)):
            self.queue.add(("pod", uid), left)
            return
        outcome = container.exit_phase if container else ""
        if not self._unprepare(uid):
            self.queue.add(("pod", uid), UNPREPARE_RETRY_SECONDS * (1 + JITTER * self._jitter()))
            return
        if pod is not None and is_deleting(pod):
            delete_exactly(self.api, PODS, pod, grace_period_seconds=0)
        elif pod is not None:
            set_conditions(self.api, pod, [_condition("Ready", "False", self.clock)], phase=outcome or "Failed")
        self._machine.containers.pop(uid, None)
        self.cdi_ids.pop(uid, None)

    def _still_stops(self, container: Container, pod: Object | None) -> float:
        """Seconds until the containers have stopped; they are told to if they were not yet."""
        now = self.clock.monotonic()
        if not container.exit_phase and container.stops_at is None:
            grace = (pod or {"spec": {}})["spec"].get("terminationGracePeriodSeconds", KILL_SECONDS)
            container.stops_at = now + grace * self._jitter()
        if not container.exit_phase and container.stops_at is not None and now < container.stops_at:
            return container.stops_at - now
        container.exit_phase = container.exit_phase or "Failed"
        return 0.0

    def _unprepare(self, uid: str) -> bool:
        last = [claim for claim, entry in self._claims.items() if entry["pods"] == [uid]]
        self._unpreparing |= set(last)
        failed = set()
        if last:
            names = [ClaimName(self._claims[c]["namespace"], self._claims[c]["name"], c) for c in last]
            try:
                answers = self._plugin.unprepare(names)
            except PluginDown:
                return False
            failed = {c for c in last if c not in answers or answers[c].error}
        for claim in [c for c, entry in self._claims.items() if uid in entry["pods"] and c not in failed]:
            self._claims[claim]["pods"].remove(uid)
            if not self._claims[claim]["pods"]:
                del self._claims[claim]
                self._prepared.discard(claim)
                self._unpreparing.discard(claim)
        self._save()
        return not failed

    def _start(self, uid: str, pod: Object) -> None:
        try:
            claims = [self._usable(pod, entry) for entry in pod["spec"].get("resourceClaims") or []]
            ids = self._prepare(uid, claims)
        except (_Refused, PluginDown) as refusal:
            self._tell(pod, f"Failed to prepare dynamic resources: prepare dynamic resources: {refusal}")
            self.queue.add(("pod", uid), PREPARE_RETRY_SECONDS * (1 + JITTER * self._jitter()))
            return
        allocations = [(claim["metadata"]["uid"], claim_from(claim).allocation) for claim in claims]
        devices = tuple((claim, result) for claim, a in allocations if a for result in a.results)
        self._machine.containers[uid] = Container("/".join(name_key(pod)), devices)
        self.cdi_ids[uid] = ids
        self._report_running(pod)

    def _usable(self, pod: Object, entry: Object) -> Object:
        """The claim, read from the API, if this pod may use it."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        name = claim_name(pod, entry)
        if not name:
            raise _Refused(f"claim {entry['name']} is not made yet")
        claim = self.api.get(RESOURCE_CLAIMS, name, namespace)
        status = claim.get("status") or {}
        if status.get("allocation") is None:
            raise _Refused(f"ResourceClaim {name} not yet allocated")
        if uid not in [entry["uid"] for entry in status.get("reservedFor") or []]:
            raise _Refused(f"pod {pod['metadata']['name']} ({uid}) is not allowed to use ResourceClaim {name}")
        claim_uid = claim["metadata"]["uid"]
        for other, known in self._claims.items():
            if (known["namespace"], known["name"]) == (namespace, name) and other != claim_uid:
                raise _Refused(f"old ResourceClaim with same name {name} and different UID {other} still exists")
        if claim_uid in self._unpreparing:
            raise _Refused(f"ResourceClaim {name} is being unprepared")
        return claim

    def _prepare(self, uid: str, claims: Sequence[Object]) -> tuple[str, ...]:
        for claim in claims:
            namespace, called = name_key(claim)
            blank = {"namespace": namespace, "name": called, "pods": [], "ids": []}
            entry = self._claims.setdefault(claim["metadata"]["uid"], blank)
            if uid not in entry["pods"]:
                entry["pods"].append(uid)
        self._save()
        names = [ClaimName(*name_key(claim), claim["metadata"]["uid"]) for claim in claims]
        wanted = [name for name in names if name.uid not in self._prepared]
        answers = self._plugin.prepare(wanted) if wanted else {}
        problems = []
        for name in wanted:
            answer = answers.get(name.uid, Answer("the plugin skipped it"))
            if answer.error:
                problems.append(f"NodePrepareResources failed for ResourceClaim {name.name}: {answer.error}")
            else:
                self._prepared.add(name.uid)
                self._claims[name.uid]["ids"] = list(answer.cdi_ids)
        self._save()
        if problems:
            raise _Refused("; ".join(problems))
        return tuple(identifier for name in names for identifier in self._claims[name.uid]["ids"])

    def _save(self) -> None:
        self._machine.files.write(CHECKPOINT, json.dumps(self._claims).encode())

    def _report_running(self, pod: Object) -> None:
        conditions = [_condition(kind, "True", self.clock) for kind in ("Initialized", "Ready", "ContainersReady")]
        started = rfc3339(self.clock.now())
        set_conditions(self.api, pod, conditions, phase="Running", startTime=started)

    def _tell(self, pod: Object, message: str) -> None:
        namespace, name = name_key(pod)
        now = rfc3339(self.clock.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{name}.", "namespace": namespace},
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": name, "uid": pod["metadata"]["uid"]},
            "type": "Warning",
            "reason": "FailedPrepareDynamicResources",
            "message": message[:MAX_EVENT_MESSAGE],
            "source": {"component": "kubelet", "host": self._machine.name},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self.api.create(EVENTS, event, namespace)


def _condition(kind: str, status: str, clock: Clock) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": rfc3339(clock.now())}
