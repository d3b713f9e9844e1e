"""Pods of other systems beside the whole controller: they get devices, whoever makes them, and old quotas count."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from driver.clock import rfc3339
from driver.kube.api import (
    DEVICE_CLASSES,
    EVENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    Api,
    Object,
    Resource,
)
from tests.adoption_cases import claims_of
from tests.contract.adopted import adopt, adopting_namespace, bound, devices_of, no_pods
from tests.contract.conftest import eventually, exceeds_quota, used_of_quota
from tests.contract.objects import claim
from tests.contract.running import installed, running_controller

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob", namespaced=True)
LABELS = {"app": "old"}


@pytest.fixture(scope="module")
def admin() -> Iterator[Api]:
    """The administrator of a cluster with two nodes of four cards, where pods of NVIDIA's plugin are adopted."""
    settings = {"templates": {"unusedSeconds": 1}}
    with installed({"n1": {}, "n2": {}}, settings, {"vendor": "nvidia"}) as (plane, api), running_controller(plane):
        name_classes(api, "nvidia.com/gpu")
        adopt(plane, api, "nvidia")
        yield api


def name_classes(api: Api, resource: str) -> None:
    """As the component ``extended-resources`` does."""
    api.patch(DEVICE_CLASSES, "gpu.lode.dev", {"spec": {"extendedResourceName": resource}})


@pytest.fixture
def namespace(admin: Api, unique: str) -> Iterator[str]:
    """One that opts in."""
    owners = (CRON_JOBS, JOBS, DEPLOYMENTS, STATEFUL_SETS)
    with adopting_namespace(admin, unique, "nvidia", owners) as name:
        yield name


def spec(cards: int = 1, **fields: Any) -> Object:
    return {
        "containers": [{"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": cards}}}],
        "initContainers": [{"name": "first", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        **fields,
    }


def template(cards: int = 1, **fields: Any) -> Object:
    return {"metadata": {"labels": LABELS}, "spec": spec(cards, **fields)}


JOB = {"template": template(2, restartPolicy="Never"), "completions": 2, "parallelism": 2}
WORKLOADS: dict[str, tuple[Resource, Object]] = {
    "Deployment": (DEPLOYMENTS, {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template(2)}),
    "StatefulSet": (
        STATEFUL_SETS,
        {
            "replicas": 2,
            "selector": {"matchLabels": LABELS},
            "serviceName": "old",
            "podManagementPolicy": "Parallel",
            "template": template(2),
        },
    ),
    "Job": (JOBS, JOB),
    "CronJob": (CRON_JOBS, {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": JOB}}),
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_pods_of_a_workload_get_their_cards_and_the_workload_stays_as_it_is(
    admin: Api, namespace: str, kind: str
) -> None:
    resource, wanted = WORKLOADS[kind]
    stored = admin.create(resource, {"metadata": {"name": "old", "namespace": namespace}, "spec": wanted})
    if resource == CRON_JOBS:
        # As if it had run two minutes ago, so that it is due now.
        ran = {"status": {"lastScheduleTime": rfc3339(time.time() - 120)}}
        admin.patch(resource, "old", ran, namespace=namespace, subresource="status")
    pods = eventually(lambda: bound(admin, namespace, 2), 100)
    held = [device for pod in pods for device in devices_of(admin, pod)]
    assert len(held) == len(set(held)) == 4
    assert {name for pod in pods for name in claims_of(pod).values()} == {"lode-adopt.nvidia.n2"}
    assert admin.get(resource, "old", namespace)["spec"] == stored["spec"]


def test_no_template_is_left_when_the_pods_are_gone(admin: Api, namespace: str) -> None:
    for number in range(1, 4):
        admin.create(PODS, {"metadata": {"name": f"p{number}", "namespace": namespace}, "spec": spec(number)})
    eventually(lambda: bound(admin, namespace, 3), 60)
    assert len(admin.list(RESOURCE_CLAIM_TEMPLATES, namespace=namespace).items) == 3
    eventually(lambda: no_pods(admin, namespace), 60)
    eventually(lambda: not admin.list(RESOURCE_CLAIM_TEMPLATES, namespace=namespace).items, 60)


def test_a_quota_in_the_old_name_counts_adopted_pods_if_the_class_has_the_name(admin: Api, namespace: str) -> None:
    """The claim of a pod beyond it is not made; an Event of the pod says so."""
    name = "requests.nvidia.com/gpu"
    admin.create(RESOURCE_QUOTAS, {"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": {name: "3"}}})

    eventually(lambda: exceeds_quota(admin, RESOURCE_CLAIMS, claim("beyond", namespace, *"abcd")))
    eventually(lambda: used_of_quota(admin, namespace) == {name: "0"})
    admin.create(PODS, {"metadata": {"name": "p", "namespace": namespace}, "spec": spec(2)})
    eventually(lambda: bound(admin, namespace, 1), 60)
    eventually(lambda: used_of_quota(admin, namespace) == {name: "2"})
    admin.create(PODS, {"metadata": {"name": "beyond", "namespace": namespace}, "spec": spec(2)})

    def refused() -> bool:
        events = admin.list(EVENTS, namespace=namespace).items
        return any("exceeded quota: q" in it["message"] for it in events if it["involvedObject"]["name"] == "beyond")

    eventually(refused, 60)
    admin.delete(PODS, "p", namespace, grace_period_seconds=0)
    eventually(lambda: [pod["metadata"]["name"] for pod in bound(admin, namespace, 1)] == ["beyond"], 100)
