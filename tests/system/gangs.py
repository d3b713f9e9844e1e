"""What users do with gangs: Jobs whose pods start together, inside one fabric or anywhere."""

import random
from collections.abc import Callable

from driver.kube.api import NODES, PODS, RESOURCE_CLAIM_TEMPLATES, Object
from driver.kube.objects import controller_of, is_terminal
from memoryapi import JOBS
from tests.simulation.cluster import SimulatedCluster
from tests.system.objects import NAMESPACE, REQUESTS, alternatives, job, pod, request, template

FABRIC_LABEL = "simulation/fabric"
MOST_PODS = 24
SIZES = (2, 3, 4)
CPU = ("10m", "1", "3")
DEADLINES = (30, 60, 150)
WHOLE_CARDS = ("gpu-1", "gpu-1", "gpu-2", "npu-1")
"""Requests of gangs that others have to wait for."""
ALTERNATIVES = (
    alternatives(request("gpu.lode.dev", count=2), request("npu.lode.dev")),
    alternatives(request("npu.lode.dev"), request("gpu.lode.dev")),
    alternatives(request("gpu.lode.dev"), request("gpu-share.lode.dev", memory="8Gi")),
)
"""Members of one gang may take different ones of these."""
LEADER = {"training.kubeflow.org/job-role": "master"}
NAMED, OWNER, LABEL, KUEUE = "gang.name", "gang: {}", "label", "Kueue"
COMPARING = 0.4
"""Part of the histories in which gangs have constraints on the values of their members' devices."""
INDEX, ROOT = "lode.dev/index", "resource.kubernetes.io/pcieRoot"
CONSTRAINTS: tuple[tuple[str, str], ...] = (
    ("sameSet", INDEX),
    ("sameSet", INDEX),
    ("sameSet", ROOT),
    ("sameSet", "lode.dev/numaNode"),
    ("same", INDEX),
    ("same", "lode.dev/model"),
    ("distinct", INDEX),
    ("distinct", ROOT),
)
"""What members of some gangs have in common, or apart. Every card has these attributes, and keeps its index."""
SOURCES = (NAMED, NAMED, NAMED, OWNER, LABEL, KUEUE)
"""What says that the pods are a gang."""


def fabrics(nodes: list[str]) -> dict[str, dict[str, str]]:
    """Labels of nodes: every other node is in another fabric."""
    return {name: {FABRIC_LABEL: f"fabric-{number % 2}"} for number, name in enumerate(nodes)}


class RandomGangs:
    """Actions with gangs.

    Args:
        deadlines: whether most gangs end at a time that is known, so that others can use the nodes of those that wait.
    """

    def __init__(self, seed: int, cluster: SimulatedCluster, *, deadlines: bool):
        self._random = random.Random(f"gangs of {seed}")
        self._values = random.Random(f"values in gangs of {seed}")
        self._compares = self._values.random() < COMPARING
        self._cluster = cluster
        self._deadlines = deadlines
        self._api = cluster.user
        self._nodes = list(cluster.nodes)
        self._count = 0
        self._lost: set[str] = set()
        self.fabrics_were_lost = False
        """Whether a node was in no fabric for a while."""

    @property
    def actions(self) -> list[tuple[int, Callable[[], None]]]:
        """Each action with its weight."""
        often, rare = (20, 0) if self._deadlines else (0, 20)
        return [
            (2 + rare, self._new_gang),
            (often, self._new_gang_with_deadline),
            (2 * often, self._pass_time),
            (6, self._lose_members),
            (3, self._delete_gang),
            (3, self._lose_fabric),
        ]

    def _new_gang(self) -> None:
        """A Job of which some or all pods have to start together."""
        if len([pod for pod in self._api.list(PODS).items if not is_terminal(pod)]) >= MOST_PODS:
            return
        self._count += 1
        name, size = f"gang-{self._count}", self._random.choice(SIZES)
        asked = self._random.choice((*REQUESTS.values(), *ALTERNATIVES))
        source, levels = self._random.choice(SOURCES), random_levels(self._random, size)
        gang = self._gang(source, name, size)
        if source == NAMED and gang is not None:
            gang |= self._constraints()
        self._api.create(RESOURCE_CLAIM_TEMPLATES, gang_template(name, asked, gang, levels))
        made = job(name, size, template_name=name, cpu=self._random.choice(CPU))
        made["spec"]["template"]["metadata"] = _metadata(source, name, size)
        if any("groupSize" in level for level in levels):
            # A pod that takes the place of another one is in its group.
            made["spec"]["completionMode"] = "Indexed"
        self._api.create(JOBS, made)

    def _new_gang_with_deadline(self) -> None:
        """Some pods without an owner, which have to start together and end at a time that is known."""
        if len([pod for pod in self._api.list(PODS).items if not is_terminal(pod)]) >= MOST_PODS:
            return
        self._count += 1
        name, size = f"short-{self._count}", self._random.choice(SIZES)
        asked, levels = REQUESTS[self._random.choice(WHOLE_CARDS)], random_levels(self._random, size)
        gang = {"name": name, "minAvailable": self._random.randint(1, size), **self._constraints()}
        self._api.create(RESOURCE_CLAIM_TEMPLATES, gang_template(name, asked, gang, levels))
        cpu, deadline = self._random.choice(CPU), self._random.choice(DEADLINES)
        leads = self._random.random() < 0.3
        for number, rank in enumerate(sorted(self._random.sample(range(2 * size), size))):
            made = pod(f"{name}-{number}", template_name=name, cpu=cpu, deadline=deadline)
            leader = LEADER if leads and not number else {}
            made["metadata"]["labels"] = {"apps.kubernetes.io/pod-index": str(rank), **leader}
            self._api.create(PODS, made)

    def _pass_time(self) -> None:
        self._cluster.advance(self._random.choice((5, 20, 40)))

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

    def _constraints(self) -> Object:
        """What the gang says of the values of its members' devices. Nothing else depends on these draws."""
        if not self._compares or self._values.random() < 0.3:
            return {}
        chosen = self._values.sample(CONSTRAINTS, self._values.choice((1, 1, 2)))
        mode = {"mode": "preferred"}
        asked = {
            attribute: {kind: attribute, **(mode if self._values.random() < 0.3 else {})} for kind, attribute in chosen
        }
        return {"constraints": [*asked.values()]}

    def _members(self) -> list[Object]:
        return [pod for pod in self._api.list(PODS).items if controller_of(pod, "Job")]

    def _lose_members(self) -> None:
        """One or two pods of a gang are lost at once; the Job makes new ones."""
        members = self._members()
        for lost in self._random.sample(members, min(len(members), self._random.choice((1, 2)))):
            self._api.delete(PODS, lost["metadata"]["name"], NAMESPACE, grace_period_seconds=0)

    def _lose_fabric(self) -> None:
        """A node, or all nodes of a fabric, are in none any more; or all are where they were."""
        if self._lost:
            self.restore_fabrics()
            return
        fabric = self._random.choice(list(fabrics(self._nodes).values()))
        nodes = [name for name, labels in fabrics(self._nodes).items() if labels == fabric]
        for name in self._random.choice((nodes, nodes[:1])):
            self._label(name, None)
            self._lost.add(name)
        self.fabrics_were_lost = True

    def restore_fabrics(self) -> None:
        """Put all nodes where they were."""
        for name in sorted(self._lost):
            self._label(name, fabrics(self._nodes)[name][FABRIC_LABEL])
        self._lost.clear()

    def _label(self, node: str, fabric: str | None) -> None:
        self._api.patch(NODES, node, {"metadata": {"labels": {FABRIC_LABEL: fabric}}})

    def _delete_gang(self) -> None:
        jobs = [one for one in self._api.list(JOBS).items if one["metadata"]["name"].startswith("gang-")]
        if jobs:
            self._api.delete(JOBS, self._random.choice(jobs)["metadata"]["name"], NAMESPACE)


def random_levels(chance: random.Random, size: int) -> list[Object]:
    """What a gang of so many members asks of the topology."""
    mode = chance.choice(("required", "preferred", ""))
    if not mode:
        return []
    level: Object = {"nodeLabel": FABRIC_LABEL, "mode": mode}
    if mode == "preferred" and chance.random() < 0.5:
        level["waitSeconds"] = chance.choice((5, 60))
    if chance.random() < 0.3:
        level["groupSize"] = chance.randint(1, size)
    if chance.random() < 0.7:
        return [level]
    inside: Object = {"nodeLabel": "kubernetes.io/hostname", "mode": chance.choice(("required", "preferred"))}
    return [level, {**inside, "groupSize": chance.randint(1, size)}]


def gang_template(name: str, asked: Object, gang: Object | None, levels: list[Object]) -> Object:
    """The claim template of a gang that asks for this; ``gang`` is None if the claims do not say that it is one."""
    parameters: Object = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig"}
    if gang is not None:
        parameters["gang"] = gang
    if levels:
        parameters["topology"] = levels
    made = template(name, asked)
    if gang is not None or levels:
        config = {"opaque": {"driver": "lode.dev", "parameters": parameters}}
        made["spec"]["spec"]["devices"]["config"] = [config]
    return made


def _metadata(source: str, name: str, size: int) -> Object:
    """What the pods of a gang carry."""
    if source == LABEL:
        return {"labels": {"lode.dev/gang": ""}}
    if source == KUEUE:
        group = {"kueue.x-k8s.io/pod-group-name": name}
        return {"labels": group, "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(size)}}
    return {}
