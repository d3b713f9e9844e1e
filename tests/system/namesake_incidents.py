"""Pods that are deleted and made again under their names while what was read of the old ones is on its way."""

import random
from contextlib import suppress
from typing import Final

from driver.kube.api import PODS, NotFound
from driver.kube.objects import is_deleting
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.faults import FaultProfile
from tests.system.objects import NAMESPACE, REQUESTS, pod

SEEDS: Final = 0.5
"""In how many of the histories in which answers are slow pods are made again."""
HAPPENS: Final = 0.4
"""How often one is made again after an action, in such a history."""
MOST: Final = 8
"""How often in a history."""
STEPS: Final = 100
"""After so many steps a pod is made again although its placement is not being written."""
SECONDS: Final = (0.0, 0.0, 1.0, 3.0)
"""How long it is gone: an answer takes up to 5 s."""


class NamesakeIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster, faults: FaultProfile):
        self._random = random.Random(f"pods made again in {seed}")
        self._cluster = cluster
        self._left = MOST if self._random.random() < SEEDS and faults.network.slow > 0 else 0

    def act(self) -> None:
        """Perhaps make a pod again that is being placed: a new one, or one that waits."""
        if not self._left or self._random.random() >= HAPPENS:
            return
        self._left -= 1
        api = self._cluster.user
        pods = [one for one in api.list(PODS).items if "generateName" not in one["metadata"]]
        waiting = [one for one in pods if one["spec"].get("schedulingGates") and not is_deleting(one)]
        if waiting and self._random.random() < 0.3:
            name = self._random.choice(waiting)["metadata"]["name"]
        else:
            name = f"again-{self._left}"
            self._make(name)
        for _ in range(STEPS):
            if self._is_written(name) or not self._cluster.step():
                break
        with suppress(NotFound):
            api.delete(PODS, name, NAMESPACE, grace_period_seconds=0)
        self._cluster.advance(self._random.choice(SECONDS))
        self._make(name)

    def _make(self, name: str) -> None:
        self._cluster.user.create(PODS, pod(name, template_name=self._random.choice(list(REQUESTS))))

    def _is_written(self, name: str) -> bool:
        """Whether a controller has decided where the pod goes, and is writing it."""
        states = [program.controller.state for program in self._cluster.controllers()]
        users = [user for state in states for claim in state.claims.promised for user in state.pods.using(claim)]
        return f"{NAMESPACE}/{name}" in users
