"""Conditions by which others say what is wrong with a node, in a history; some of them close it for new pods."""

import random
from typing import Final

from driver.kube.api import NODES
from tests.simulation.closed_nodes import CLOSE, DO_NOT_CLOSE
from tests.simulation.cluster import SimulatedCluster

SEEDS: Final = 0.15
"""In how many histories there are such conditions. In a third of them, none closes a node."""
HAPPENS: Final = 0.5
"""How often a condition of a node changes after an action, in such a history."""
TYPES: Final = (*sorted(CLOSE), *DO_NOT_CLOSE)
STATUS: Final = ("True", "True", "True", "False", "Unknown")
UNDOING_STEPS: Final = 100


def conditions_close(seed: int) -> bool:
    """Whether conditions close nodes in the history of this seed."""
    chance = random.Random(f"conditions of nodes in {seed}")
    return chance.random() < SEEDS and chance.random() < 2 / 3


class ConditionIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._happen = random.Random(f"conditions of nodes in {seed}").random() < SEEDS
        self._random = random.Random(f"which conditions of nodes in {seed}")
        self._cluster = cluster
        self._api = cluster.user

    def act(self) -> None:
        """Perhaps change a condition of some node."""
        if self._happen and self._random.random() < HAPPENS:
            node = self._random.choice(list(self._cluster.nodes))
            self._report(node, self._random.choice(TYPES), self._random.choice(STATUS))

    def undo(self) -> None:
        """Take all of them back, so that each node opens again and has to wake those that wait for it alone."""
        if self._happen:
            for node in self._cluster.nodes:
                for kind in TYPES:
                    self._report(node, kind, "False")
                self._cluster.run(UNDOING_STEPS)

    def _report(self, node: str, kind: str, status: str) -> None:
        known = self._api.get(NODES, node)["status"]["conditions"]
        others = [one for one in known if one["type"] != kind]
        if len(others) == len(known) and status == "False":
            return
        self._cluster.log.note("monitor", f"node {node}: {kind} is {status}")
        said = {"type": kind, "status": status, "reason": "Seen", "message": ""}
        self._api.patch(NODES, node, {"status": {"conditions": [*others, said]}}, subresource="status")
