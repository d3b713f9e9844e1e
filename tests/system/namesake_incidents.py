"""Pods that are deleted and made again under their names while what was read of the old ones is on its way."""

import random
from typing import Final

from driver.kube.api import PODS
from driver.kube.objects import is_deleting
from simulation.cluster import Cluster
from simulation.faults import FaultProfile
from tests.system.objects import NAMESPACE, REQUESTS, pod

SEEDS: Final = 0.5
"""In how many of the histories in which answers are slow pods are made again."""
HAPPENS: Final = 0.5
"""How often one is made again after an action, in such a history."""
STEPS: Final = (2, 5, 10, 20)
"""How many steps the programs make in between."""


class NamesakeIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: Cluster, faults: FaultProfile):
        self._random = random.Random(f"pods made again in {seed}")
        self._cluster = cluster
        self._happen = self._random.random() < SEEDS and faults.network.slow > 0

    def act(self) -> None:
        """Perhaps make a pod again, often one that is being placed."""
        if not self._happen or self._random.random() >= HAPPENS:
            return
        api = self._cluster.user
        pods = [one for one in api.list(PODS).items if not is_deleting(one) and "generateName" not in one["metadata"]]
        gated = [one for one in pods if one["spec"].get("schedulingGates")]
        if not pods:
            return
        name = self._random.choice(gated if gated and self._random.random() < 0.8 else pods)["metadata"]["name"]
        self._cluster.log.note("user", f"makes {name} again")
        api.delete(PODS, name, NAMESPACE, grace_period_seconds=0)
        self._cluster.run(self._random.choice(STEPS))
        api.create(PODS, pod(name, template_name=self._random.choice(list(REQUESTS))))
        self._cluster.run(self._random.choice(STEPS))
