"""What users do with gangs of sub-groups: each is a Job, whose pods are of use only together."""

import random
from collections.abc import Callable

from driver.kube.api import JOBS, PODS, RESOURCE_CLAIM_TEMPLATES, VOLCANO_POD_GROUPS, Object
from driver.kube.objects import is_terminal
from driver.settings import TierLevel
from tests.simulation.cluster import SimulatedCluster
from tests.system.gangs import CPU, FABRIC_LABEL, MOST_PODS, gang_template
from tests.system.objects import NAMESPACE, REQUESTS, job

LABEL = "simulation/replica"
"""Pods with the same value of this label are one sub-group."""
GROUP = "scheduling.k8s.io/group-name"
TIERS: dict[int | str, TierLevel] = {
    1: TierLevel(node_label="kubernetes.io/hostname"),
    2: TierLevel(node_label=FABRIC_LABEL),
}
"""Setting ``controller.volcanoTiers`` of histories with gangs."""
_REQUESTS = ("gpu-1", "npu-1", "share-small", "share-small", "share-large", "npu-share", "mig-small")
_CPU = ("10m", "10m", *CPU)


class RandomSubGroups:
    """Actions with gangs of sub-groups. They follow from numbers of their own."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"sub-groups of {seed}")
        self._api = cluster.user
        self._count = 0

    @property
    def actions(self) -> list[tuple[int, Callable[[], None]]]:
        """Each action with its weight."""
        return [(20, self._new_gang), (3, self._lose_sub_group), (2, self._delete_gang)]

    def _new_gang(self) -> None:
        """Two or three Jobs, each of which is a sub-group, perhaps with a pod too many or too few."""
        if len([pod for pod in self._api.list(PODS).items if not is_terminal(pod)]) >= MOST_PODS:
            return
        self._count += 1
        name, size = f"parts-{self._count}", self._random.choice((1, 2, 2, 3))
        number = self._random.choice((2, 3))
        least, around, inside = self._random.randint(1, number), self._random.random(), self._random.random()
        members = [max(1, size + self._random.choice((-1, 0, 0, 0, 0, 1))) for _ in range(number)]
        total = sum(members) if self._random.random() < 0.2 else size * least
        asked, annotations = REQUESTS[self._random.choice(_REQUESTS)], {}
        if self._random.random() < 0.5:
            annotations = {GROUP: name}
            self._api.create(VOLCANO_POD_GROUPS, _pod_group(name, size, least, total, around < 0.4, inside < 0.4))
            made = gang_template(name, asked, None, [])
        else:
            gang: Object = {"name": name, "subGroup": {"label": LABEL, "size": size, "minAvailable": least}}
            if total > size * least:
                gang["minAvailable"] = total
            made = gang_template(name, asked, gang, self._levels(around, inside))
        self._api.create(RESOURCE_CLAIM_TEMPLATES, made)
        cpu = self._random.choice(_CPU)
        for replica, pods in enumerate(members):
            one = job(f"{name}-{replica}", pods, template_name=name, cpu=cpu)
            one["spec"]["template"]["metadata"] = {"labels": {LABEL: str(replica)}, "annotations": annotations}
            self._api.create(JOBS, one)

    def _levels(self, around: float, inside: float) -> list[Object]:
        levels: list[Object] = []
        if around < 0.4:
            levels.append({"nodeLabel": FABRIC_LABEL, "mode": self._random.choice(("required", "preferred"))})
        if inside < 0.4:
            key = (
                self._random.choice(("kubernetes.io/hostname", FABRIC_LABEL))
                if not levels
                else "kubernetes.io/hostname"
            )
            mode = self._random.choice(("required", "preferred"))
            levels.append({"nodeLabel": key, "mode": mode, "perSubGroup": True})
        return levels

    def _lose_sub_group(self) -> None:
        """All pods of a sub-group are lost at once; its Job makes new ones."""
        jobs = self._jobs()
        if jobs:
            lost = self._random.choice(jobs)["metadata"]["uid"]
            for pod in self._api.list(PODS).items:
                if any(owner["uid"] == lost for owner in pod["metadata"].get("ownerReferences") or ()):
                    self._api.delete(PODS, pod["metadata"]["name"], NAMESPACE, grace_period_seconds=0)

    def _delete_gang(self) -> None:
        """One of its Jobs is deleted, or all, and its PodGroup with them."""
        names = [one["metadata"]["name"] for one in self._jobs()]
        if not names:
            return
        gang = self._random.choice(names).rpartition("-")[0]
        of_gang = [name for name in names if name.rpartition("-")[0] == gang]
        whole = self._random.random() < 0.5
        for name in of_gang if whole else of_gang[:1]:
            self._api.delete(JOBS, name, NAMESPACE)
        if whole and any(one["metadata"]["name"] == gang for one in self._api.list(VOLCANO_POD_GROUPS).items):
            self._api.delete(VOLCANO_POD_GROUPS, gang, NAMESPACE)

    def _jobs(self) -> list[Object]:
        return [one for one in self._api.list(JOBS).items if one["metadata"]["name"].startswith("parts-")]


def _pod_group(name: str, size: int, least: int, total: int, around: bool, inside: bool) -> Object:
    """What Volcano reads of the gang."""
    policy: Object = {"name": "replicas", "matchLabelKeys": [LABEL], "subGroupSize": size, "minSubGroups": least}
    if inside:
        policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    spec: Object = {"minMember": total, "subGroupPolicy": [policy]}
    if around:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": 2}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
