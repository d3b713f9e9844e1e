"""Gangs that wait for nodes that others use."""

from typing import Any

from driver.clock import rfc3339
from driver.kube.api import PODS
from tests.unit.controller.loop.gangworld import GangWorld

HOLD_AFTER = 60
LIMIT = 600
GRACE = 30


class Busy(GangWorld):
    """Both nodes of fabric a are taken, for as long as ``limits`` say, and a gang of 4 has waited long."""

    def __init__(self, *limits: int | None):
        super().__init__(a=2, settings={"hold": {"afterSeconds": HOLD_AFTER}})
        self.old = tuple(self.single(f"old-{number}", limit) for number, limit in enumerate(limits))
        self.settle(5)
        for pod in self.old:
            self.run(pod)
        self.gang = self.add_gang("train", 4)
        self.settle(HOLD_AFTER + 30)

    def single(self, name: str, limit: int | None = None) -> str:
        """A pod for one card, with a deadline."""
        self.add_claim(name)
        spec: dict[str, Any] = {} if limit is None else {"activeDeadlineSeconds": limit}
        self.add_pod(name, name, **spec)
        return name

    def run(self, pod: str) -> None:
        """kube-scheduler binds the pod, and the kubelet accepts it."""
        self.bind(pod, self.node_of(pod))
        status = {"status": {"phase": "Running", "startTime": rfc3339(self.clock.now())}}
        self.api.patch(PODS, pod, status, namespace="default", subresource="status")

    def passes(self, *pods: str) -> list[str]:
        """Those that were placed, soon after."""
        self.settle(5)
        return [pod for pod in pods if self.devices(pod)]
