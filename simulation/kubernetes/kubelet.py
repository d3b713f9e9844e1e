"""The kubelet of one node: runs pods bound to it, with their claims prepared by the driver's plugin."""

import json
from collections.abc import Sequence
from datetime import datetime

from driver.clock import Clock, rfc3339
from driver.errors import LodeError
from driver.kube.api import EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object
from driver.kube.objects import claim_name, is_deleting, is_terminal, name_key, pod_phase
from driver.limits import MAX_EVENT_MESSAGE
from driver.model import Allocation
from driver.names import DEFAULT_DRIVER
from driver.wire import claim_from
from kubeletplugin.kubelet_devices import KubeletClaim
from simulation.kubernetes.component import FakeComponent, WorkKey, delete_by_uid, get_or_none, patch_conditions
from simulation.kubernetes.dra_plugin import ClaimName, ClaimResponse, DraPlugin, PluginDown
from simulation.node import Container, Jitter, SimulatedNode

PREPARE_RETRY_SECONDS = 60.0
UNPREPARE_RETRY_SECONDS = 10.0
JITTER = 0.5
"""Both retries are delayed by up to half as much in addition."""
KILL_SECONDS = 30
"""Longest time in which the containers of a pod that is no longer in the API stop."""
REGISTER_SECONDS = 1.0
DELETE_SLICES_SECONDS = 30.0
"""Time from the loss of the last connection to a plugin to the deletion of its slices."""


class _CannotStart(LodeError):
    """The pod cannot be started now."""


class _NotAllocated(_CannotStart):
    """A claim of the pod has no devices, or does not exist."""


class Kubelet(FakeComponent):
    """Starts, ends and removes the pods of one node. What must survive a restart is in its checkpoint file."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        node: SimulatedNode,
        plugin: DraPlugin,
        jitter: Jitter,
        driver: str = DEFAULT_DRIVER,
    ):
        super().__init__(api, clock)
        self._driver = driver
        self._node = node
        self._plugin = plugin
        self._jitter = jitter
        self._connected = False
        self._prepared: set[str] = set()
        self._unpreparing: set[str] = set()
        self._without_devices: set[str] = set()
        self._checkpoint = f"{node.kubelet_root}/dra_manager_state"
        self._claims: dict[str, Object] = json.loads(node.files.read(self._checkpoint) or b"{}")
        self._pods = self.watch(PODS, self._pod_changed, field_selector=f"spec.nodeName={node.name}")
        self.cdi_ids: dict[str, tuple[str, ...]] = {}
        """The CDI ids that the container runtime receives, by pod uid."""
        self.queue.add(("delete-slices",))
        self.queue.add(("register",))
        for uid in dict.fromkeys((*node.containers, *(pod for one in self._claims.values() for pod in one["pods"]))):
            self.queue.add(("pod", uid))

    def plugin_started(self) -> None:
        """Register the plugin again: its registration socket is new."""
        self.queue.add(("register",))

    def plugin_lost(self) -> None:
        """Handle a lost connection to the plugin."""
        self._connected = False
        self.queue.add(("lost",), DELETE_SLICES_SECONDS)

    def containers_changed(self, pod_uid: str) -> None:
        """Handle a change of the pod's containers."""
        self.queue.add(("pod", pod_uid))

    def is_busy(self) -> bool:
        """Whether it has more to do than to try those pods again whose claims others have to allocate."""
        return any(key not in {("pod", uid) for uid in self._without_devices} for key in self.queue)

    def claims(self) -> tuple[KubeletClaim, ...]:
        """The answer of its PodResources API: the prepared claims of the pods that it knows."""
        known = {pod["metadata"]["uid"] for pod in self._pods.all()}
        return tuple(
            KubeletClaim(claim["namespace"], claim["name"], frozenset(claim["ids"]))
            for claim in self._claims.values()
            if known.intersection(claim["pods"])
        )

    def _pod_changed(self, pod: Object) -> None:
        self.queue.add(("pod", pod["metadata"]["uid"]))

    def reconcile(self, key: WorkKey) -> None:
        """Sync one pod, delete the node's slices, or register the plugin."""
        match key:
            case ("delete-slices",):
                self._delete_slices()
            case ("register",):
                self._register()
            case ("lost",):
                if not self._connected:
                    self._delete_slices()
            case _:
                self._sync(key[1])

    def _delete_slices(self) -> None:
        """Delete the node's slices, when the kubelet starts or its driver stays away. Drivers publish them again."""
        selector = f"spec.nodeName={self._node.name}"
        for obj in self.api.list(RESOURCE_SLICES, field_selector=selector).items:
            delete_by_uid(self.api, RESOURCE_SLICES, obj)

    def _register(self) -> None:
        try:
            self._plugin.registered()
        except PluginDown:
            self.queue.add(("register",), REGISTER_SECONDS)
        else:
            self._connected = True

    def _sync(self, uid: str) -> None:
        self._without_devices.discard(uid)
        pod = next((p for p in self._pods.all() if p["metadata"]["uid"] == uid), None)
        container = self._node.containers.get(uid)
        ended = container is not None and (container.exit_phase or container.abandoned)
        if pod is None or is_deleting(pod) or ended or (container and self._deadline_has_passed(uid, pod)):
            self._end(uid, pod)
        elif is_terminal(pod):
            return
        elif container is None:
            self._start(uid, pod)
        elif pod_phase(pod) != "Running":
            self._report_running(pod)

    def _deadline_has_passed(self, uid: str, pod: Object) -> bool:
        """Whether ``activeDeadlineSeconds`` have passed since the start; if not, it is looked at again then."""
        deadline, started = pod["spec"].get("activeDeadlineSeconds"), pod["status"].get("startTime")
        if not deadline or not started or is_terminal(pod):
            return False
        left = datetime.fromisoformat(started).timestamp() + deadline - self.clock.now()
        if left > 0:
            self.queue.add(("pod", uid), left)
        return bool(left <= 0)

    def _end(self, uid: str, pod: Object | None) -> None:
        """Stop the containers, then unprepare the claims, and only then report the pod as ended or remove it."""
        container = self._node.containers.get(uid)
        if container and (left := self._seconds_to_stop(container, pod)):
            self.queue.add(("pod", uid), left)
            return
        outcome: Object = {"phase": (container.exit_phase if container else "") or "Failed"}
        if container and container.stops_at is not None and pod is not None and not is_deleting(pod):
            message = "Pod was active on the node longer than the specified deadline"
            outcome = {"phase": "Failed", "reason": "DeadlineExceeded", "message": message}
        if not self._unprepare(uid):
            self.queue.add(("pod", uid), UNPREPARE_RETRY_SECONDS * (1 + JITTER * self._jitter()))
            return
        if pod is not None and is_deleting(pod):
            delete_by_uid(self.api, PODS, pod, grace_period_seconds=0)
        elif pod is not None and container and container.abandoned:
            self.queue.add(("pod", uid))
        elif pod is not None:
            patch_conditions(self.api, pod, [_condition("Ready", "False", self.clock)], **outcome)
        self._node.containers.pop(uid, None)
        self.cdi_ids.pop(uid, None)

    def _seconds_to_stop(self, container: Container, pod: Object | None) -> float:
        """Seconds until the containers have stopped; the kubelet stops them if it has not done so yet."""
        now = self.clock.monotonic()
        container.abandoned |= pod is None
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
                responses = self._plugin.unprepare(names)
            except PluginDown:
                return False
            failed = {c for c in last if c not in responses or responses[c].error}
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
            usable = [self._usable_claim(pod, entry) for entry in pod["spec"].get("resourceClaims") or []]
            # The plugins of other drivers are never in the way.
            claims = [claim for claim in usable if self._is_for_plugin(claim)]
            ids = self._prepare(uid, claims)
        except (_CannotStart, PluginDown) as refusal:
            if isinstance(refusal, _NotAllocated):
                self._without_devices.add(uid)
            self._record_event(pod, f"Failed to prepare dynamic resources: prepare dynamic resources: {refusal}")
            self.queue.add(("pod", uid), PREPARE_RETRY_SECONDS * (1 + JITTER * self._jitter()))
            return
        allocations = [(claim["metadata"]["uid"], self._prepared_allocation(claim)) for claim in claims]
        devices = tuple((claim, result) for claim, a in allocations if a for result in a.results)
        self._node.containers[uid] = Container("/".join(name_key(pod)), devices)
        self.cdi_ids[uid] = ids
        self._report_running(pod)

    def _prepared_allocation(self, claim: Object) -> Allocation | None:
        """What the claim was prepared with, and its next pod gets: it may have another allocation since then."""
        allocation = self._claims[claim["metadata"]["uid"]]["allocation"]
        return claim_from({**claim, "status": {**claim["status"], "allocation": allocation}}).allocation

    def _is_for_plugin(self, claim: Object) -> bool:
        results = claim["status"]["allocation"]["devices"]["results"]
        return any(result["driver"] == self._driver for result in results)

    def _usable_claim(self, pod: Object, entry: Object) -> Object:
        """The claim, read from the API, if this pod may use it."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        name = claim_name(pod, entry)
        if not name:
            raise _NotAllocated(f"claim {entry['name']} is not created yet")
        claim = get_or_none(self.api, RESOURCE_CLAIMS, namespace, name)
        if claim is None:
            raise _NotAllocated(f"ResourceClaim {name} not found")
        status = claim.get("status") or {}
        if status.get("allocation") is None:
            raise _NotAllocated(f"ResourceClaim {name} not yet allocated")
        if uid not in [entry["uid"] for entry in status.get("reservedFor") or []]:
            raise _CannotStart(f"pod {pod['metadata']['name']} ({uid}) is not allowed to use ResourceClaim {name}")
        claim_uid = claim["metadata"]["uid"]
        for other, known in self._claims.items():
            if (known["namespace"], known["name"]) == (namespace, name) and other != claim_uid:
                raise _CannotStart(f"old ResourceClaim with same name {name} and different UID {other} still exists")
        if claim_uid in self._unpreparing:
            raise _CannotStart(f"ResourceClaim {name} is being unprepared")
        return claim

    def _prepare(self, uid: str, claims: Sequence[Object]) -> tuple[str, ...]:
        for claim in claims:
            namespace, name_of_claim = name_key(claim)
            blank: Object = {"namespace": namespace, "name": name_of_claim, "pods": [], "ids": [], "allocation": None}
            entry = self._claims.setdefault(claim["metadata"]["uid"], blank)
            if uid not in entry["pods"]:
                entry["pods"].append(uid)
        self._save()
        names = [ClaimName(*name_key(claim), claim["metadata"]["uid"]) for claim in claims]
        allocations = {claim["metadata"]["uid"]: claim["status"]["allocation"] for claim in claims}
        wanted = [name for name in names if name.uid not in self._prepared]
        responses = self._plugin.prepare(wanted) if wanted else {}
        problems = []
        for name in wanted:
            response = responses.get(name.uid, ClaimResponse("the plugin skipped it"))
            if response.error:
                problems.append(f"NodePrepareResources failed for ResourceClaim {name.name}: {response.error}")
            else:
                self._prepared.add(name.uid)
                self._claims[name.uid].update(ids=list(response.cdi_ids), allocation=allocations[name.uid])
        self._save()
        if problems:
            raise _CannotStart("; ".join(problems))
        return tuple(identifier for name in names for identifier in self._claims[name.uid]["ids"])

    def _save(self) -> None:
        self._node.files.write(self._checkpoint, json.dumps(self._claims).encode())

    def _report_running(self, pod: Object) -> None:
        conditions = [_condition(kind, "True", self.clock) for kind in ("Initialized", "Ready", "ContainersReady")]
        started = pod["status"].get("startTime") or rfc3339(self.clock.now())
        patch_conditions(self.api, pod, conditions, phase="Running", startTime=started)

    def _record_event(self, pod: Object, message: str) -> None:
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
            "source": {"component": "kubelet", "host": self._node.name},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self.api.create(EVENTS, event, namespace)


def _condition(kind: str, status: str, clock: Clock) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": rfc3339(clock.now())}
