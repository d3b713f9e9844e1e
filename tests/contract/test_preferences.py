"""Among nodes on which a pod can run, a real kube-scheduler chooses one that suits the pod best, and so do we."""

from collections.abc import Iterator

import pytest

from controller.placement import Nodes, PodCheck, facts_of, needs_of
from controller.placement.preferences import preferred_first
from driver.kube.api import NODES, PODS, Api, Object
from driver.kube.client import KubeClient
from testclusters.controlplane import ControlPlane
from tests import preference_cases
from tests.contract.conftest import eventually
from tests.preference_cases import CASES, RUNNING, Case

ASKED = 3
"""How often each pod is scheduled: kube-scheduler chooses at random among nodes of equal score."""


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """The administrator of a cluster in which nothing but kube-scheduler changes pods."""
    with ControlPlane(components=("kube-scheduler",)) as plane:
        client = KubeClient.from_environment(str(plane.kubeconfig()))
        for name, labels in preference_cases.NODES.items():
            client.create(NODES, node(name, dict(labels)))
        for app, where in RUNNING.items():
            client.create(PODS, pod(f"running-{app}", app, {"nodeName": where}), "default")
        yield client
        client.close()


def node(name: str, labels: dict[str, str]) -> Object:
    """So large that what pods take makes no difference to any score."""
    capacity = {"cpu": "10000", "memory": "10000Gi", "pods": "100"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def pod(name: str, app: str, spec: Object) -> Object:
    containers = [{"name": "main", "image": "none"}]
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    return {"metadata": metadata, "spec": {"containers": containers, "terminationGracePeriodSeconds": 0, **spec}}


def taint(api: Api, case: Case) -> None:
    for name in preference_cases.NODES:
        api.patch(NODES, name, {"spec": {"taints": list(case.taints.get(name, ())) or None}})


def scheduled(api: Api, case: Case) -> str:
    """The node to which kube-scheduler binds the pod. The pod is gone afterwards."""
    version = api.list(PODS).resource_version
    uid = api.create(PODS, pod("p", case.app, case.spec), "default")["metadata"]["uid"]
    for event in api.watch(PODS, resource_version=version, timeout_seconds=60):
        if event.object["metadata"].get("uid") == uid and (name := event.object["spec"].get("nodeName")):
            api.delete(PODS, "p", "default", grace_period_seconds=0)
            return str(name)
    raise AssertionError("the watch ended before kube-scheduler decided")


def ours(api: Api, case: Case) -> str:
    """The node that we prefer, of those that the API has."""
    nodes = Nodes()
    for each in api.list(NODES).items:
        nodes.upsert(facts_of(each))
    for each in api.list(PODS).items:
        nodes.count(f"default/{each['metadata']['name']}", needs_of(each), each["spec"]["nodeName"])
    needs = needs_of(pod("p", case.app, case.spec))
    check = PodCheck("default/p", needs, nodes)
    return preferred_first("default/p", needs, nodes, [name for name in sorted(nodes) if check.passes(name)])[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kube_scheduler_chooses_a_node_that_suits_the_pod_best_and_so_do_we(api: Api, case: Case) -> None:
    taint(api, case)
    assert ours(api, case) == min(case.best)
    eventually(lambda: scheduled(api, case) in case.best)  # kube-scheduler hears of the taints in its own time
    assert {scheduled(api, case) for _ in range(ASKED)} <= case.best
