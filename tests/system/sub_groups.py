"""What users do with gangs of sub-groups and of groups: each is a Job, whose pods are of use only together."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from driver.kube.api import (
    COMPOSITE_POD_GROUPS,
    GROVE_POD_GANGS,
    JOBS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    VOLCANO_POD_GROUPS,
    Object,
    Resource,
)
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
KINDS = (VOLCANO_POD_GROUPS, GROVE_POD_GANGS, COMPOSITE_POD_GROUPS[0], POD_GROUPS[0])
"""The kinds of groups that are made."""
_REQUESTS = ("gpu-1", "npu-1", "share-small", "share-small", "share-large", "npu-share", "mig-small")
_SMALL = ("gpu-1", "share-small", "share-small")
_CPU = ("10m", "10m", *CPU)
_HOST = "kubernetes.io/hostname"


class RandomSubGroups:
    """Actions with gangs of sub-groups. They follow from numbers of their own."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"sub-groups of {seed}")
        self._kinds = random.Random(f"kinds of groups of {seed}")
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
        asked, groups = REQUESTS[self._random.choice(_REQUESTS)], None
        if self._random.random() < 0.5:
            kind = self._kinds.choice(KINDS[:3])
            if kind != VOLCANO_POD_GROUPS:
                # All of a tree, and each minimum of a PodGang, have to fit at once: so they are small.
                members, size = [min(2, pods) for pods in members[:2]], self._kinds.choice((1, 1, 2))
                number, least, asked = len(members), min(least, 2), REQUESTS[self._kinds.choice(_SMALL)]
            groups = _Groups(kind, name, size, least, number, total, around < 0.4, inside < 0.4)
            for made_as, one in groups.objects():
                self._api.create(made_as, one)
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
            one["spec"]["template"]["metadata"] = {"labels": {LABEL: str(replica)}}
            if groups is not None:
                groups.join(one["spec"]["template"], f"{name}-{replica}")
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
        """One of its Jobs is deleted, or all, and its groups with them."""
        names = [one["metadata"]["name"] for one in self._jobs()]
        if not names:
            return
        gang = self._random.choice(names).rpartition("-")[0]
        of_gang = [name for name in names if name.rpartition("-")[0] == gang]
        whole = self._random.random() < 0.5
        for name in of_gang if whole else of_gang[:1]:
            self._api.delete(JOBS, name, NAMESPACE)
        for kind in KINDS if whole else ():
            found = [one["metadata"]["name"] for one in self._api.list(kind).items]
            for name in [name for name in found if name in (gang, *of_gang)]:
                self._api.delete(kind, name, NAMESPACE)

    def _jobs(self) -> list[Object]:
        return [one for one in self._api.list(JOBS).items if one["metadata"]["name"].startswith("parts-")]


@dataclass(frozen=True)
class _Groups:
    """What another system makes of a gang: ``number`` groups of ``size`` pods, of which ``least`` have to start."""

    kind: Resource
    name: str
    size: int
    least: int
    number: int
    total: int
    around: bool
    inside: bool

    def objects(self) -> Iterator[tuple[Resource, Object]]:
        """The objects, each with its kind."""
        if self.kind == VOLCANO_POD_GROUPS:
            yield self.kind, self._object(self.name, self._of_volcano())
        elif self.kind == GROVE_POD_GANGS:
            yield self.kind, self._object(self.name, self._of_grove())
        else:
            of_tree: Object = {"schedulingPolicy": {"gang": {"minGroupCount": self.least}}}
            yield self.kind, self._object(self.name, of_tree | _constraints(FABRIC_LABEL, self.around))
            of_group: Object = {"schedulingPolicy": {"gang": {"minCount": self.size}}}
            of_group |= {"parentCompositePodGroupName": self.name} | _constraints(_HOST, self.inside)
            for one in self._groups:
                yield POD_GROUPS[0], self._object(one, of_group)

    def join(self, pod: Object, group: str) -> None:
        """Make pods of this template members."""
        if self.kind == VOLCANO_POD_GROUPS:
            pod["metadata"]["annotations"] = {GROUP: self.name}
        elif self.kind == GROVE_POD_GANGS:
            pod["metadata"]["labels"] |= {"grove.io/podgang": self.name, "grove.io/podclique": group}
        else:
            pod["spec"]["schedulingGroup"] = {"podGroupName": group}

    @property
    def _groups(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.number)]

    def _object(self, name: str, spec: Object) -> Object:
        return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}

    def _of_volcano(self) -> Object:
        policy: Object = {"name": "replicas", "matchLabelKeys": [LABEL], "subGroupSize": self.size}
        policy["minSubGroups"] = self.least
        if self.inside:
            policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
        spec: Object = {"minMember": self.total, "subGroupPolicy": [policy]}
        return spec | ({"networkTopology": {"mode": "hard", "highestTierAllowed": 2}} if self.around else {})

    def _of_grove(self) -> Object:
        """The first cliques have a minimum."""
        minimums = [self.size if number < self.least else 0 for number in range(self.number)]
        cliques = [
            {"name": name, "podReferences": [], "minReplicas": least} | _packed(_HOST, self.inside)
            for name, least in zip(self._groups, minimums, strict=True)
        ]
        return {"podgroups": cliques} | _packed(FABRIC_LABEL, self.around)


def _constraints(key: str, asked: bool) -> Object:
    return {"schedulingConstraints": {"topology": [{"key": key}]}} if asked else {}


def _packed(key: str, asked: bool) -> Object:
    return {"topologyConstraint": {"packConstraint": {"required": key}}} if asked else {}
