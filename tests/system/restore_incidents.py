"""etcd is restored from a backup, in a history."""

import random
from typing import Final

from memoryapi.store import Backup
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.restores import BUMP, restore

SEEDS: Final = 0.125
"""In how many histories a backup is restored."""
HAPPENS: Final = 0.2
"""How often a backup is made after an action, or else one is restored, in such a history."""
MOST: Final = 2
"""How often one is restored."""


class RestoreIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"restored in {seed}")
        self._cluster = cluster
        self.happen = self._random.random() < SEEDS
        self._left = MOST if self.happen else 0
        self._backup: Backup | None = None

    def act(self) -> None:
        """Perhaps make a backup, or restore the last one."""
        if not self._left or self._random.random() >= HAPPENS:
            return
        if self._backup is None or self._random.random() < 0.3:
            self._cluster.log.note("operator", "makes a backup")
            self._backup = self._cluster.api.backup()
        else:
            self._left -= 1
            restore(self._cluster, self._backup, bump=self._random.choice((0, BUMP)))
            self._backup = None
