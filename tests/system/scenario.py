"""A cluster of one node and its users, for tests of a certain course of events."""

from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES
from driver.kube.objects import pod_phase
from driver.model import Claim
from driver.settings import ControllerSettings, Settings
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.settled_checks import check_settled
from tests.system.history import cards
from tests.system.objects import NAMESPACE, REQUESTS, device_classes, pod, request, template

LEASE_SECONDS = 100


class Scenario:
    """A cluster of one node, and its users."""

    def __init__(self, seed: int = 0, *, profile: str = "h100x8", count: int = 8, controllers: int = 1):
        settings = Settings(controller=ControllerSettings(lease_seconds=LEASE_SECONDS))
        self.cluster = SimulatedCluster(
            seed,
            {"n1": cards(profile, count)},
            classes=device_classes(),
            controllers=controllers,
            settings=settings,
        )
        for name, device_request in {**REQUESTS, "gpu-8": request("gpu.lode.dev", count=8)}.items():
            self.cluster.user.create(RESOURCE_CLAIM_TEMPLATES, template(name, device_request))
        self.cluster.settle()

    def create(self, name: str, template_name: str, grace: int = 1) -> None:
        self.cluster.user.create(PODS, pod(name, template_name=template_name, grace=grace))

    def delete(self, name: str) -> None:
        self.cluster.user.delete(PODS, name, NAMESPACE)

    def settle(self) -> None:
        self.cluster.settle()
        check_settled(self.cluster)

    def claim(self, name: str) -> Claim:
        (claim,) = [c for c in self.cluster.invariants.claims() if c.name.startswith(f"{name}-device-")]
        return claim

    def devices(self, name: str) -> set[str]:
        allocation = self.claim(name).allocation
        return {result.device.device for result in allocation.results} if allocation else set()

    def running(self, *names: str) -> bool:
        return all(pod_phase(self.cluster.user.get(PODS, name, NAMESPACE)) == "Running" for name in names)

    def why_pending(self, name: str) -> str:
        conditions = self.cluster.user.get(PODS, name, NAMESPACE)["status"].get("conditions") or []
        return " ".join(condition.get("message") or "" for condition in conditions)
