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
NAMED, OWNER, LABEL, KUEUE = "gang.name", "gang: {}", "label", "Kueue"
SOURCES = (NAMED, NAMED, NAMED, OWNER, LABEL, KUEUE)
"""What says that the pods are a gang. Writes are judged only for the first (``simulation.gang_write_checks``)."""


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
        source, levels = self._random.choice(SOURCES), self._levels(size)
        self._api.create(
            RESOURCE_CLAIM_TEMPLATES, self._template(name, request, self._gang(source, name, size), levels)
        )
        made = job(name, size, template_name=name, cpu=self._random.choice(CPU))
        made["spec"]["template"]["metadata"] = _metadata(source, name, size)
        if any("groupSize" in level for level in levels):
            # A pod that takes the place of another one is in its group.
            made["spec"]["completionMode"] = "Indexed"
        self._api.create(JOBS, made)

    def _gang(self, source: str, name: str, size: int) -> Object | None:
        """What the claims say; None if only the pods do."""
        if source in (LABEL, KUEUE):
            return None
        gang: Object = {"name": name} if source == NAMED else {}
        if source == NAMED or self._random.random() < 0.5:
            gang["minAvailable"] = self._random.randint(1, size)
        if self._random.random() < 0.5:
            gang["onDomainLoss"] = self._random.choice(("wait", "move"))
        return gang

    def _levels(self, size: int) -> list[Object]:
        mode = self._random.choice(("required", "preferred", ""))
        if not mode:
            return []
        level: Object = {"nodeLabel": FABRIC_LABEL, "mode": mode}
        if mode == "preferred" and self._random.random() < 0.5:
            level["waitSeconds"] = self._random.choice((5, 60))
        if self._random.random() < 0.3:
            level["groupSize"] = self._random.randint(1, size)
        return [level]

    @staticmethod
    def _template(name: str, request: Object, gang: Object | None, levels: list[Object]) -> Object:
        parameters: Object = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig"}
        if gang is not None:
            parameters["gang"] = gang
        if levels:
            parameters["topology"] = levels
        made = template(name, request)
        if gang is not None or levels:
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


def _metadata(source: str, name: str, size: int) -> Object:
    """What the pods of a gang carry."""
    if source == LABEL:
        return {"labels": {"lode.dev/gang": ""}}
    if source == KUEUE:
        group = {"kueue.x-k8s.io/pod-group-name": name}
        return {"labels": group, "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(size)}}
    return {}
