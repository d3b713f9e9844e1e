"""Moments in which nodes cannot start threads, in a history: too many processes run there."""

import random

from tests.simulation.cluster import SimulatedCluster

SEEDS = 0.125
"""In how many histories nodes run out of threads."""
HAPPENS = 0.2
"""How often that begins or ends on some node after an action, in such a history."""


class ThreadIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"threads of {seed}")
        self._cluster = cluster
        cluster.guarded = self._random.random() < SEEDS

    def act(self) -> None:
        """Perhaps let some node have no threads left, or have some again."""
        if self._cluster.guarded and self._random.random() < HAPPENS:
            name = self._random.choice(list(self._cluster.nodes))
            hardware = self._cluster.hardware[name]
            hardware.threads = not hardware.threads
            self._cluster.log.note(name, "has threads" if hardware.threads else "has no threads")
