"""A small cluster on the API in memory, and a controller driven by hand. Nobody binds pods here but the tests."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from controller.loop import Controller, Ports
from controller.writing import Channel, Lane
from driver.kube.api import (
    DEVICE_CLASSES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiCall,
    NotFound,
    Object,
    Resource,
)
from driver.kube.reflector import Reflector
from driver.names import FINALIZER, Names
from driver.observe import Metrics, logger
from driver.settings import Settings
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.simulation.stepped_writes import Latency, SteppedWrites
from tests.unit.controller.writing.terms import OneTerm

NAMES = Names()
GATE = NAMES.gate
_NOT_SERVED = "not served"


class Killed(BaseException):
    """The program is gone."""


class Meddler(Api):
    """The API as one run of the controller has it: the test may do something before or after each call."""

    def __init__(self, api: Api):
        self._api = api
        self.calls: list[str] = []
        self.bodies: list[Any] = []
        """What each call was about: the object or its name, and the patch."""
        self.before: Any = None
        self.after: Any = None

    def call(self, call: ApiCall) -> Any:
        if call.verb in ("list", "watch"):
            return self._api.call(call)
        what = f"{call}/{call.subresource}" if call.subresource else str(call)
        about = (call.name, call.body) if call.verb == "patch" else (call.body or call.name,)
        self.calls.append(what)
        self.bodies.append(about)
        if self.before:
            self.before(what, about[0])
        answer = self._api.call(call)
        if self.after:
            self.after(what, about[0])
        return answer


class ControllerWorld:
    """Nodes ``n1``, ``n2``, ... with whole cards only, class ``gpu.lode.dev``, and as many controllers as are built."""

    def __init__(self, nodes: int = 1, cards: int = 2, **settings: Any):
        self.clock = VirtualClock()
        self.api = MemoryApi(self.clock, custom=self.custom)
        self.api.meets_removal = lambda call: True
        # The test is kube-scheduler, and may bind a pod as late as it likes.
        settings = {"maxUnboundSeconds": 1e9, **settings}
        self.settings = Settings.model_validate({"controller": settings})
        self.add_class("gpu.lode.dev", 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "gpu"')
        for number in range(1, nodes + 1):
            self.add_node(f"n{number}", cards)
        self.start()

    custom: Collection[Resource] = ()
    """Kinds that the API serves besides."""
    unsafe = ""
    """Why nothing may be decided."""

    def why_unsafe(self) -> str:
        """What the controller hears when it asks why nothing may be decided."""
        return self.unsafe

    def network(self) -> Api:
        """The API as a run of the controller reaches it."""
        return self.api

    def reading(self) -> Any:
        """The API as the reflectors have it."""
        return self.meddler

    def start(self) -> Meddler:
        """A new run of the controller, in place of the old one."""
        self.meddler = Meddler(self.network())
        self.metrics = Metrics()
        self.terms = OneTerm()
        self.latency: Latency = lambda sequence, result: 0
        self.writes = SteppedWrites(
            Channel(self.meddler, self.terms, lambda result: self.controller.handle(result), self.clock),
            latency=lambda sequence, result: self.latency(sequence, result),
            bounds={Lane.PLACING: 8, Lane.REPORTING: 1},
        )
        self.controller = Controller(
            Ports(self.reading(), self.writes, self.clock, self.metrics, logger("test")),
            self.settings,
            "me",
            unsafe=lambda: self.why_unsafe(),
        )
        self._followed: dict[Reflector, tuple[float, str]] = {}
        """When each reflector caught up last, and with which version."""
        self.controller.lead(1)
        self.writes.step()
        return self.meddler

    # The cluster

    def add_class(self, name: str, expression: str) -> None:
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        self.api.create(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": spec})

    def add_node(self, name: str, cards: int, cpu: str = "8") -> None:
        node = self.api.create(NODES, {"metadata": {"name": name}})
        allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
        node["status"] = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable}
        self.api.update(NODES, node, "status")
        self.publish(name, cards)

    def publish(self, node: str, cards: int, driver: str = NAMES.driver) -> None:
        spec = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": f"{node}/{driver}", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{card}", "attributes": {"kind": {"string": "gpu"}}} for card in range(cards)],
        }
        self.api.create(RESOURCE_SLICES, {"metadata": {"name": f"{node}-{driver}"}, "spec": spec})

    def set_ready(self, node: str, ready: bool) -> None:
        raw = self.api.get(NODES, node)
        raw["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
        self.api.update(NODES, raw, "status")

    def add_claim(self, name: str, count: int = 1, device_class: str = "gpu.lode.dev", **devices: Any) -> Object:
        requests = [{"name": "gpu", "exactly": {"deviceClassName": device_class, "count": count}}]
        spec = {"devices": {"requests": requests, **devices}}
        return self.api.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def add_pod(
        self,
        name: str,
        *claims: str,
        gates: tuple[str, ...] = (GATE,),
        cpu: str = "1",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        pod = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": labels or {},
                "annotations": annotations or {},
            },
            "spec": {
                "containers": [container],
                "schedulingGates": [{"name": gate} for gate in gates],
                "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
                **spec,
            },
        }
        return self.api.create(PODS, pod, "default")

    def refuse(
        self, name: str, message: str = "0/1 nodes are available: 1 node had a taint", reason: str = "Unschedulable"
    ) -> None:
        """Say about the pod what kube-scheduler says when it fits nowhere, unless it has said just that."""
        condition: Object = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        condition["lastProbeTime"] = None
        said = [c for c in self.pod(name)["status"].get("conditions") or [] if c["type"] == "PodScheduled"]
        if [(c.get("reason"), c.get("message"), c.get("lastProbeTime")) for c in said] == [(reason, message, None)]:
            return
        patch = {"status": {"conditions": [condition]}}
        self.api.patch(PODS, name, patch, namespace="default", subresource="status", patch_type="strategic")

    def bind(self, name: str, node: str) -> None:
        """What kube-scheduler does in the end."""
        self.api.bind("default", name, node)

    def remove_pod(self, name: str) -> None:
        """Delete the pod for good, and do what the resource-claim-controller then does."""
        uid = self.pod(name)["metadata"]["uid"]
        self.api.delete(PODS, name, "default", grace_period_seconds=0)
        for claim in self.api.list(RESOURCE_CLAIMS).items:
            reserved = (claim.get("status") or {}).get("reservedFor") or []
            if [entry["uid"] for entry in reserved] == [uid]:
                claim["status"] = {}
                self.api.update(RESOURCE_CLAIMS, claim, "status")

    # Driving

    def observe(self) -> None:
        """Let the reflectors catch up."""
        for reflector in self.controller.reflectors:
            self.follow(reflector)

    def follow(self, reflector: Reflector) -> None:
        """Let a reflector catch up, unless it has at this instant and nothing was written since.

        Between two steps of the controller, a kind that is not served is asked for once at an instant: there are many.
        """
        now, version = self.clock.monotonic(), self.api.resource_version
        if self._followed.get(reflector) in ((now, version), (now, _NOT_SERVED)):
            return
        lists = not reflector.position
        reflector.step()
        if reflector.position:
            self._followed[reflector] = now, version
        elif lists:
            self._followed[reflector] = now, _NOT_SERVED

    def settle(self, seconds: float = 0) -> None:
        """Work until nothing is due for ``seconds`` more of the clock."""
        self._followed.clear()
        until = self.clock.monotonic() + seconds
        for _ in range(200_000):
            self.observe()
            if self.controller.step() or self.writes.step():
                continue
            times = (self.controller.next_due(), self.writes.next_due())
            due = min((time for time in times if time is not None), default=None)
            if due is not None and due <= self.clock.monotonic():
                continue
            if due is None or due > until:
                self.clock.advance(until - self.clock.monotonic())
                return
            self.clock.advance(due - self.clock.monotonic())
        raise AssertionError("the controller never comes to rest")

    # Looking

    def pod(self, name: str) -> Object:
        return self.api.get(PODS, name, "default")

    def claim(self, name: str) -> Object:
        return self.api.get(RESOURCE_CLAIMS, name, "default")

    def gates(self, name: str) -> list[str]:
        return [gate["name"] for gate in self.pod(name)["spec"].get("schedulingGates") or []]

    def devices(self, claim: str) -> list[str]:
        """``pool/device`` of everything the claim holds."""
        status = self.claim(claim).get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
        return [f"{result['pool'].split('/')[0]}/{result['device']}" for result in results]

    def condition(self, pod: str) -> tuple[str, str, str]:
        conditions = self.pod(pod)["status"].get("conditions") or []
        found = [c for c in conditions if c["type"] == "lode.dev/Allocated"]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else ("", "", "")

    def events(self, name: str, reason: str = "") -> list[str]:
        found = self.api.list(EVENTS).items
        return [
            event["message"]
            for event in found
            if event["involvedObject"]["name"] == name and reason in ("", event["reason"])
        ]

    def event_count(self, name: str, reason: str = "") -> int:
        """How often Events were recorded about the object."""
        found = self.api.list(EVENTS).items
        return sum(
            event["count"]
            for event in found
            if event["involvedObject"]["name"] == name and reason in ("", event["reason"])
        )

    def check(self) -> None:
        """No card is in two claims, every allocation has finalizer, timestamp and node, and no pod runs without."""
        held: list[str] = []
        for claim in self.api.list(RESOURCE_CLAIMS).items:
            status = claim.get("status") or {}
            if allocation := status.get("allocation"):
                held += [f"{r['pool']}/{r['device']}" for r in allocation["devices"]["results"]]
                assert FINALIZER in claim["metadata"]["finalizers"]
                assert allocation["allocationTimestamp"].endswith("Z")
                assert allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["key"] == "metadata.name"
        assert len(held) == len(set(held)), f"allocated twice: {held}"
        for pod in self.api.list(PODS).items:
            if not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName"):
                self._check_let_go(pod)

    def _check_let_go(self, pod: Object) -> None:
        nodes = set()
        for entry in pod["spec"].get("resourceClaims") or []:
            try:
                claim = self.claim(entry["resourceClaimName"])
            except NotFound:
                continue
            if allocation := (claim.get("status") or {}).get("allocation"):
                nodes.add(allocation["devices"]["results"][0]["pool"])
        assert len(nodes) <= 1, f"{pod['metadata']['name']} has claims on {nodes}"


@contextmanager
def expect_kill() -> Iterator[None]:
    try:
        yield
    except Killed:
        return
