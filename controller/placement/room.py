"""How many pods of a kind a node takes besides those on it, as far as anything but devices is concerned. Pure."""

from dataclasses import dataclass

from controller.placement.needs import Needs
from controller.placement.nodes import Nodes
from controller.placement.podcheck import PodCheck
from driver.quantity import NANO


@dataclass(frozen=True, slots=True)
class Room:
    """How many pods fit at once, and what there is too little of for one more."""

    pods: int
    limit: str


class PodRoom:
    """The room that nodes have for a pod and others like it. Valid until pods or nodes change.

    Attributes:
        version: with ``Nodes.version_of`` a node: differs from earlier if an answer there can have changed since.
    """

    def __init__(self, pod: str, needs: Needs, nodes: Nodes):
        self._check = PodCheck(pod, needs, nodes)
        self._needs = needs
        self._nodes = nodes
        self.version = self._check.version

    def on(self, node: str) -> Room:
        """The room of the node of this name. Volumes, affinity and spread among the pods themselves do not count."""
        if not self._check.passes(node):
            return Room(0, self._check.reasons(node)[0])
        view, needs = self._nodes.view(node), self._needs
        assert view.facts is not None
        allocatable = view.facts.allocatable
        found = Room(allocatable.get("pods", 0) // NANO - view.pods, "too many pods")
        if needs.ports:
            found = Room(1, f"host port {needs.ports[0].port}/{needs.ports[0].protocol} is taken")
        for name, amount in sorted(needs.requests.items()):
            total = allocatable.get(name, 0)
            # Only devices can stand for a resource that the node lacks; the check has passed.
            pods = (total - view.used[name]) // amount if total else found.pods
            if pods < found.pods:
                found = Room(pods, f"insufficient {name}")
        return found
