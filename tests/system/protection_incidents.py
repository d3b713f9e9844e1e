"""Others that keep autoscalers from nodes, or let them have nodes, in a history."""

import random
from typing import Final

from driver.kube.api import NODES
from driver.names import Names
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.node_write_checks import DO_NOT_DISRUPT

HAPPENS: Final = 0.3
"""How often somebody annotates a node after an action."""
VALUES: Final = ("true", "false", "10m", "", None, None, None)


class ProtectionIncidents:
    """The incidents of one seed. They follow from numbers of their own: other histories stay the same.

    Args:
        happen: whether there are any.
    """

    def __init__(self, seed: int, cluster: SimulatedCluster, *, happen: bool):
        self._random = random.Random(f"protections in {seed}")
        self._cluster = cluster
        self._happen = happen

    def act(self) -> None:
        """Perhaps annotate a node, or remove annotations from it, also that of the controller."""
        if not self._happen or self._random.random() >= HAPPENS:
            return
        nodes = [node["metadata"]["name"] for node in self._cluster.user.list(NODES).items]
        if not nodes:
            return
        node, value = self._random.choice(nodes), self._random.choice(VALUES)
        annotations = {DO_NOT_DISRUPT: value}
        if value is None and self._random.random() < 0.3:
            annotations[Names().protection] = None
        self._cluster.log.note("operator", f"annotates node {node}: {annotations}")
        self._cluster.user.patch(NODES, node, {"metadata": {"annotations": annotations}})
