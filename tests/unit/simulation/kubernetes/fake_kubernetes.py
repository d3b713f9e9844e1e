"""A small cluster for one fake component after another: everything is stepped until nothing is left to do."""

from collections.abc import Sequence
from typing import Any

from driver.kube.api import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Object
from driver.names import Names
from memoryapi import JOBS, MemoryApi
from simulation.kubernetes.admission import AdmissionApi
from simulation.kubernetes.component import FakeComponent
from simulation.kubernetes.dra_plugin import ClaimName, ClaimResponse, PluginDown
from simulation.kubernetes.garbage_collector import GarbageCollector
from simulation.kubernetes.job_controller import JobController
from simulation.kubernetes.resource_claim_controller import ResourceClaimController
from tests.simulation.clock import VirtualClock

NAMES = Names("lode.dev")


class FakeKubernetes:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.api = MemoryApi(self.clock)
        self.components: list[FakeComponent] = []

    def as_user(self, user: str) -> AdmissionApi:
        return AdmissionApi(self.api, NAMES, user)

    def settle(self) -> None:
        for _ in range(1000):
            version = self.api.resource_version
            for component in self.components:
                for reflector in component.reflectors:
                    reflector.step()
            worked = [component.step() for component in self.components]
            if not any(worked) and version == self.api.resource_version:
                return
        raise AssertionError("does not settle")

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.settle()

    def node(self, name: str, **spec: Any) -> Object:
        return self.api.create(
            NODES, {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"cpu": "2", "pods": "10"}}}
        )

    def template(self, name: str = "t") -> Object:
        want = {"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}
        spec = {"metadata": {"labels": {"from": name}}, "spec": {"devices": {"requests": [want]}}}
        return self.api.create(
            RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        )

    def pod(self, name: str = "p", *, cpu: str = "1", **spec: Any) -> Object:
        container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}}
        entries = [{"name": "device", "resourceClaimTemplateName": "t"}]
        body = {"containers": [container], "resourceClaims": entries, **spec}
        return self.as_user("kubectl").create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": body})

    def get(self, name: str = "p") -> Object:
        return self.api.get(PODS, name, "default")

    def claims(self) -> list[Object]:
        return list(self.api.list(RESOURCE_CLAIMS).items)

    def allocate(self, node: str = "n1", *, device: str = "gpu-0", reserve: Object | None = None) -> Object:
        """What the controller does with the only claim."""
        (claim,) = self.claims()
        api = self.as_user("lode-controller")
        claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        claim = api.update(RESOURCE_CLAIMS, claim)
        result = {"request": "r", "driver": "lode.dev", "pool": f"{node}/lode.dev", "device": device}
        only = {"key": "metadata.name", "operator": "In", "values": [node]}
        claim["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
                "allocationTimestamp": "2026-11-21T12:00:00Z",
            }
        }
        if reserve:
            uid = reserve["metadata"]["uid"]
            claim["status"]["reservedFor"] = [{"resource": "pods", "name": reserve["metadata"]["name"], "uid": uid}]
        return api.update(RESOURCE_CLAIMS, claim, "status")

    def remove_gate(self, name: str = "p") -> None:
        self.api.patch(PODS, name, {"spec": {"schedulingGates": None}}, namespace="default")


class FakePlugin:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.error = ""
        self.down = False

    def registered(self) -> None:
        self._record("registered", [])

    def prepare(self, claims: Sequence[ClaimName]) -> dict[str, ClaimResponse]:
        return self._record("prepare", claims)

    def unprepare(self, claims: Sequence[ClaimName]) -> dict[str, ClaimResponse]:
        return self._record("unprepare", claims)

    def _record(self, call: str, claims: Sequence[ClaimName]) -> dict[str, ClaimResponse]:
        if self.down:
            raise PluginDown("driver lode.dev is not registered")
        self.calls.append(call)
        return {claim.uid: ClaimResponse(self.error, (f"lode.dev/device={claim.uid}",)) for claim in claims}


def kubernetes_with_a_job(mode: str = "NonIndexed") -> FakeKubernetes:
    """A Job of four pods with a claim each."""
    rig = FakeKubernetes()
    rig.components = [
        JobController(rig.as_user("job-controller"), rig.clock),
        GarbageCollector(rig.as_user("garbage-collector"), rig.clock),
        ResourceClaimController(rig.as_user("resource-claim-controller"), rig.clock),
    ]
    rig.template()
    entries = [{"name": "device", "resourceClaimTemplateName": "t"}]
    spec = {"containers": [{"name": "c", "image": "i:1"}], "resourceClaims": entries, "restartPolicy": "Never"}
    job = {"completions": 4, "parallelism": 4, "completionMode": mode, "template": {"spec": spec}}
    rig.api.create(JOBS, {"metadata": {"name": "j", "namespace": "default"}, "spec": job})
    return rig
