"""What users do with JobSets: parts of a gang that come one after another, and sets that start anew."""

import random
from collections.abc import Callable
from itertools import pairwise

from driver.kube.api import JOB_SETS, JOBS, PODS, RESOURCE_CLAIM_TEMPLATES, Object
from driver.kube.objects import is_terminal
from tests.simulation.cluster import SimulatedCluster
from tests.system.gangs import ALTERNATIVES, CPU, MOST_PODS, gang_template, random_levels
from tests.system.objects import NAMESPACE, REQUESTS, pod_spec

_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
_PART = "jobset.sigs.k8s.io/replicatedjob-name"
_PARTS = (("first", 1, 1), ("second", 1, 2), ("third", 2, 1))
"""Name, Jobs and pods of each of the replicated jobs."""
_ORDERS = ("InOrder", "InOrder", "Ready", "Ready", "Complete", "")
_FEW = ("gpu-1", "npu-1", "share-small", "share-small", "npu-share", "mig-small")
"""Requests of parts that differ from each other. Most of them fit somewhere, so that more of these gangs start."""
_CPU = ("10m", "10m", *CPU)


class RandomJobSets:
    """Actions with JobSets. They follow from numbers of their own."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        self._random = random.Random(f"job sets of {seed}")
        self._cluster = cluster
        self._api = cluster.user
        self._count = 0

    @property
    def actions(self) -> list[tuple[int, Callable[[], None]]]:
        """Each action with its weight."""
        return [(20, self._new_job_set), (5, self._finish_part), (2, self._fail_job), (2, self._delete_job_set)]

    def _new_job_set(self) -> None:
        """A JobSet of two or three parts, which mostly come one after another."""
        if len([pod for pod in self._api.list(PODS).items if not is_terminal(pod)]) >= MOST_PODS:
            return
        self._count += 1
        name, order = f"set-{self._count}", self._random.choice(_ORDERS)
        shapes = self._random.choice((_PARTS[:2], _PARTS[:2], _PARTS))
        size = sum(jobs * pods for _, jobs, pods in shapes)
        gang: Object = {}
        if self._random.random() < 0.15:
            gang["minAvailable"] = self._random.randint(1, size)
        levels = random_levels(self._random, size)
        same = self._random.choice((*REQUESTS.values(), *ALTERNATIVES)) if self._random.random() < 0.3 else None
        parts = [self._part(name, part, gang, levels, same or REQUESTS[self._random.choice(_FEW)]) for part in shapes]
        spec: Object = {"replicatedJobs": parts}
        if order == "InOrder":
            spec["startupPolicy"] = {"startupPolicyOrder": order}
        for before, after in pairwise(parts):
            if order in ("Ready", "Complete"):
                after["dependsOn"] = [{"name": before["name"], "status": order}]
        self._api.create(JOB_SETS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    def _part(self, name: str, part: tuple[str, int, int], gang: Object, levels: list[Object], asked: Object) -> Object:
        called, jobs, pods = part
        used = f"{name}-{called}"
        if called == "first" and self._random.random() < 0.1:
            # A launcher that is no member.
            used = ""
        else:
            self._api.create(RESOURCE_CLAIM_TEMPLATES, gang_template(used, asked, gang, levels))
        spec = {"restartPolicy": "Never", **pod_spec(template_name=used, cpu=self._random.choice(_CPU))}
        job = {"parallelism": pods, "completions": pods, "template": {"spec": spec}}
        return {"name": called, "replicas": jobs, "template": {"spec": job}}

    def _finish_part(self) -> None:
        """All pods of a part of a JobSet succeed, if they run."""
        parts = sorted({(labels[_SET_NAME], labels[_PART]) for labels in map(_labels, self._pods())})
        if parts:
            chosen = self._random.choice(parts)
            for pod in self._pods():
                if (_labels(pod)[_SET_NAME], _labels(pod)[_PART]) == chosen:
                    self._cluster.end_containers(pod, "Succeeded")

    def _fail_job(self) -> None:
        """A Job has failed as often as it may, so its JobSet starts anew."""
        jobs = [job for job in self._api.list(JOBS).items if _SET_NAME in _labels(job)]
        if jobs:
            status = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
            name = self._random.choice(jobs)["metadata"]["name"]
            self._api.patch(JOBS, name, status, namespace=NAMESPACE, subresource="status")

    def _delete_job_set(self) -> None:
        if found := self._api.list(JOB_SETS).items:
            self._api.delete(JOB_SETS, self._random.choice(found)["metadata"]["name"], NAMESPACE)

    def _pods(self) -> list[Object]:
        return [pod for pod in self._api.list(PODS).items if _SET_NAME in _labels(pod)]


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}
