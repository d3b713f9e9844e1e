"""JobSets, a CustomResourceDefinition: the controller beside real Kubernetes components."""

from collections.abc import Iterator

import pytest

from driver.kube.api import JOB_SETS, PODS, RESOURCE_CLAIM_TEMPLATES, Api, NotFound, Object
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.running import nodes_of, remove, running

PREFIX = "jobset.sigs.k8s.io"
CLAIM = {"name": "card", "resourceClaimTemplateName": "card"}
POD: Object = {"containers": [{"name": "main", "image": "none"}], "resourceClaims": [CLAIM]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[ControlPlane, Api]]:
    """One node of four cards in fabric a, and two in fabric b."""
    with running({"a1": {"fabric": "a"}, "b1": {"fabric": "b"}, "b2": {"fabric": "b"}}, {}) as cluster:
        levels = [{"nodeLabel": "fabric"}]
        parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "gang": {}, "topology": levels}
        devices = {
            "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}],
            "config": [{"opaque": {"driver": "lode.dev", "parameters": parameters}}],
        }
        metadata = {"name": "card", "namespace": "default"}
        cluster[1].create(RESOURCE_CLAIM_TEMPLATES, {"metadata": metadata, "spec": {"spec": {"devices": devices}}})
        yield cluster


def part(name: str, pods: int) -> Object:
    job = {"parallelism": pods, "completions": pods, "template": {"spec": POD}}
    return {"name": name, "replicas": 1, "template": {"spec": job}}


def member(job_set: Object, name: str, index: int) -> Object:
    labels = {
        f"{PREFIX}/jobset-uid": job_set["metadata"]["uid"],
        f"{PREFIX}/jobset-name": job_set["metadata"]["name"],
        f"{PREFIX}/replicatedjob-name": name,
        f"{PREFIX}/job-index": "0",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    return {"metadata": {"name": f"{name}-{index}", "namespace": "default", "labels": labels}, "spec": POD}


def test_a_leader_goes_where_the_workers_fit_that_come_when_it_is_ready(cluster: tuple[ControlPlane, Api]) -> None:
    plane, api = cluster
    plane.kubectl("apply", "-f", "tests/data/crds/jobset.yaml")
    parts = [part("leader", 1), {**part("workers", 5), "dependsOn": [{"name": "leader", "status": "Ready"}]}]
    made: Object = {"metadata": {"name": "train", "namespace": "default"}, "spec": {"replicatedJobs": parts}}

    def created() -> Object | None:
        try:
            return api.create(JOB_SETS, made)
        except NotFound:
            return None

    job_set = eventually(created, 60)
    api.create(PODS, member(job_set, "leader", 0))
    (leader,) = eventually(lambda: nodes_of(api, "leader-0"), 90)
    assert leader in ("b1", "b2")
    other: Object = {**POD, "resourceClaims": [{"name": "card", "resourceClaimTemplateName": "alone"}]}
    alone = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev", "count": 4}}]}}
    metadata = {"name": "alone", "namespace": "default"}
    api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": metadata, "spec": {"spec": alone}})
    others = ("other-0", "other-1")
    for name in others:
        api.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": other})

    def nodes_of_others() -> list[str]:
        # Kubernetes makes their claims in any order.
        return [node for name in others for node in nodes_of(api, name)]

    eventually(nodes_of_others, 60)
    workers = [f"workers-{index}" for index in range(5)]
    for index in range(5):
        api.create(PODS, member(job_set, "workers", index))
    assert set(eventually(lambda: nodes_of(api, *workers), 60)) <= {"b1", "b2"}
    assert nodes_of_others() == ["a1"], "the room of the workers was kept"
    remove(api, "leader-0", *workers, *others)
