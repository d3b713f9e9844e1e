"""A cluster whose cards are taken by pods that may be evicted."""

from typing import Any

from driver.kube.api import POD_DISRUPTION_BUDGETS, PODS, RESOURCE_CLAIMS, NotFound
from tests.unit.controller.loop.world import ControllerWorld

HIGH = 1000
NO_RIGHT = (
    'pods "a" is forbidden: User "system:serviceaccount:lode:lode-controller" cannot create resource "pods/eviction" '
    'in API group "" in the namespace "default"'
)
"""What the API server answers to whoever has not been granted the right to evict pods."""


class PreemptingWorld(ControllerWorld):
    """A world in which preemption is on. The test ends pods that were evicted, as their kubelet does."""

    def __init__(self, nodes: int = 1, cards: int = 2, **settings: Any):
        super().__init__(nodes, cards, **{"preemption": {"enabled": True}, **settings})

    def wanting(self, name: str, priority: int = 0, count: int = 1, **pod: Any) -> None:
        """A pod that waits for so many cards, with a claim of its name."""
        self.add_claim(name, count)
        self.add_pod(name, name, priority=priority, **pod)

    def running(self, name: str, priority: int = 0, count: int = 1, **pod: Any) -> str:
        """A pod that runs with so many cards; its node."""
        self.wanting(name, priority, count, **pod)
        self.settle()
        assert self.gates(name) == []
        node = self.devices(name)[0].split("/")[0]
        self.bind(name, node)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        where = {"namespace": "default", "subresource": "status"}
        self.api.patch(PODS, name, {"status": status}, patch_type="strategic", **where)
        self.settle()
        return node

    def evicted(self) -> list[str]:
        """The pods that were told to end, and still exist."""
        pods = self.api.list(PODS).items
        return [pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")]

    def end(self, name: str) -> None:
        """The pod ends, and its claim is cleared."""
        self.remove_pod(name)
        self.settle()

    def budget(self, allowed: int, **labels: str) -> None:
        """A budget for pods with these labels, or another number for it."""
        name, spec = "budget", {"selector": {"matchLabels": labels}, "minAvailable": 1}
        metadata = {"name": name, "namespace": "default"}
        try:
            self.api.get(POD_DISRUPTION_BUDGETS, name, "default")
        except NotFound:
            self.api.create(POD_DISRUPTION_BUDGETS, {"metadata": metadata, "spec": spec})
        numbers = {"currentHealthy": 9, "desiredHealthy": 9, "expectedPods": 9, "observedGeneration": 1}
        patch = {"status": {**numbers, "disruptionsAllowed": allowed}}
        self.api.patch(POD_DISRUPTION_BUDGETS, name, patch, namespace="default", subresource="status")

    def held_by(self, name: str) -> list[str]:
        """The devices of the claim; none if it is gone."""
        return self.devices(name) if self.has_claim(name) else []

    def has_claim(self, name: str) -> bool:
        return any(claim["metadata"]["name"] == name for claim in self.api.list(RESOURCE_CLAIMS).items)
