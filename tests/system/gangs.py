"""What users do with gangs: Jobs whose pods start together, inside one fabric or anywhere."""

import random
from collections.abc import Callable

from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES, Object
from driver.kube.objects import controller_of, is_terminal
from memoryapi import JOBS
from simulation.cluster import Cluster
from tests.system.objects import NAMESPACE, REQUESTS, job, template

FABRIC_LABEL = "simulation/fabric"
MOST_PODS = 24
SIZES = (2, 3, 4)
CPU = ("10m", "1", "3")


def fabrics(nodes: list[str]) -> dict[str, dict[str, str]]:
    """Labels of nodes: every other node is in another fabric."""
    return {name: {FABRIC_LABEL: f"fabric-{number % 2}"} for number, name in enumerate(nodes)}


class RandomGangs:
    """Actions with gangs."""

    def __init__(self, seed: int, cluster: Cluster):
        self._random = random.Random(f"gangs of {seed}")
        self._api = cluster.user
        self._count = 0

    @property
    def actions(self) -> list[tuple[int, Callable[[], None]]]:
        """Each action with its weight."""
        return [(20, self._new_gang), (6, self._lose_members), (3, self._delete_gang)]

    def _new_gang(self) -> None:
        """A Job of which some or all pods have to start together."""
        if len([pod for pod in self._api.list(PODS).items if not is_terminal(pod)]) >= MOST_PODS:
            return
        self._count += 1
        name, size = f"gang-{self._count}", self._random.choice(SIZES)
        request = self._random.choice(list(REQUESTS.values()))
        minimum = self._random.randint(1, size)
        self._api.create(RESOURCE_CLAIM_TEMPLATES, self._template(name, request, minimum))
        cpu = self._random.choice(CPU)
        self._api.create(JOBS, job(name, size, template_name=name, cpu=cpu))

    def _template(self, name: str, request: Object, minimum: int) -> Object:
        parameters: Object = {
            "apiVersion": "lode.dev/v1alpha1",
            "kind": "PlacementConfig",
            "gang": {"name": name, "minAvailable": minimum},
        }
        mode = self._random.choice(("required", "preferred", ""))
        if mode:
            level: Object = {"nodeLabel": FABRIC_LABEL, "mode": mode}
            if mode == "preferred" and self._random.random() < 0.5:
                level["waitSeconds"] = self._random.choice((5, 60))
            parameters["topology"] = [level]
        made = template(name, request)
        config = {"opaque": {"driver": "lode.dev", "parameters": parameters}}
        made["spec"]["spec"]["devices"]["config"] = [config]
        return made

    def _members(self) -> list[Object]:
        return [pod for pod in self._api.list(PODS).items if controller_of(pod, "Job")]

    def _lose_members(self) -> None:
        """One or two pods of a gang are lost at once; the Job makes new ones."""
        members = self._members()
        for pod in self._random.sample(members, min(len(members), self._random.choice((1, 2)))):
            self._api.delete(PODS, pod["metadata"]["name"], NAMESPACE, grace_period_seconds=0)

    def _delete_gang(self) -> None:
        jobs = [one for one in self._api.list(JOBS).items if one["metadata"]["name"].startswith("gang-")]
        if jobs:
            self._api.delete(JOBS, self._random.choice(jobs)["metadata"]["name"], NAMESPACE)
