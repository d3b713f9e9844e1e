"""Pods in another namespace, in a history: they hold devices and wait for them, and no text may name them elsewhere."""

import random
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from driver.kube.api import NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES, NotFound, Object
from driver.kube.objects import is_deleting, is_terminal
from tests.simulation.cluster import SimulatedCluster
from tests.system.objects import REQUESTS, pod, template

SEEDS: Final = 0.25
"""In how many histories there is another namespace."""
HAPPENS: Final = 0.4
"""How often a pod comes or goes there after an action, in such a history."""
TEAM: Final = "team-b"
MOST_PODS: Final = 5
GRACES: Final = (1, 1, 30, 120)


class NamespaceIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same.

    Args:
        draw: one in which those histories have none that written changes are recorded with.
        wanted: the requests of the pods, by the names of their templates.
        priorities: of the pods.
    """

    def __init__(
        self, seed: int, cluster: SimulatedCluster, draw: int, wanted: Collection[str], priorities: Sequence[int] = (0,)
    ):
        self._random = random.Random(f"another namespace {draw} in {seed}")
        self._api = cluster.user
        self._happen = self._random.random() < SEEDS
        self._wanted = sorted(wanted)
        self._priorities = priorities
        self._count = 0
        if self._happen:
            self._api.create(NAMESPACES, {"metadata": {"name": TEAM}})
            for name in self._wanted:
                self._api.create(RESOURCE_CLAIM_TEMPLATES, template(name, REQUESTS[name], TEAM))

    def act(self) -> None:
        """Perhaps let a pod come or go."""
        chance = self._random
        if not self._happen or chance.random() >= HAPPENS:
            return
        pods = self._pods()
        if pods and (len(pods) >= MOST_PODS or chance.random() < 0.3):
            with suppress(NotFound):
                self._api.delete(PODS, chance.choice(pods)["metadata"]["name"], TEAM)
            return
        self._count += 1
        name, priority, grace = chance.choice(self._wanted), chance.choice(self._priorities), chance.choice(GRACES)
        made = pod(f"{name}-of-team-{self._count}", template_name=name, priority=priority, grace=grace)
        made["metadata"] |= {"namespace": TEAM, "labels": {"app": "team"}}
        self._api.create(PODS, made)

    def _pods(self) -> list[Object]:
        pods = self._api.list(PODS, namespace=TEAM).items
        return [one for one in pods if not is_deleting(one) and not is_terminal(one)]
