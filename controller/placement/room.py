"""Finds the number of like pods that a node takes besides those on it, apart from devices. Pure."""

from typing import NamedTuple

from controller.placement.needs import Needs
from controller.placement.nodes import Nodes
from controller.placement.podcheck import PodCheck
from driver.quantity import NANO


class Room(NamedTuple):
    """Number of pods that fit at once, and the reason why one more does not."""

    pods: int
    limit: str


class PodRoom:
    """The room of nodes for a pod and others like it. Valid until pods or nodes change.

    Attributes:
        version: with ``Nodes.version_of`` a node, changes whenever an answer there may change.
    """

    def __init__(self, pod: str, needs: Needs, nodes: Nodes):
        self._check = PodCheck(pod, needs, nodes)
        self._ports = needs.ports
        self._requests = sorted(needs.requests.items())
        self._nodes = nodes
        self.version = self._check.version

    def on(self, node: str) -> Room:
        """The room of a node. Volumes, affinity and spread among the like pods themselves do not count."""
        if not self._check.passes(node):
            return Room(0, self._check.reasons(node)[0])
        view = self._nodes.view(node)
        assert view.facts is not None
        allocatable = view.facts.allocatable
        pods, limit = allocatable.get("pods", 0) // NANO - view.pods, "too many pods"
        if self._ports:
            pods, limit = 1, f"host port {self._ports[0].port}/{self._ports[0].protocol} is taken"
        for name, amount in self._requests:
            # Only devices can stand for a resource that the node lacks; the check has passed.
            if (total := allocatable.get(name, 0)) and (left := (total - view.used.get(name, 0)) // amount) < pods:
                pods, limit = left, f"insufficient {name}"
        return Room(pods, limit)
