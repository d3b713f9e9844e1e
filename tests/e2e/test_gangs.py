"""Gangs on a real cluster: its workers are in two InfiniBand clusters, ib-a with twelve cards and ib-b with four."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from testclusters.kind import KindCluster
from tests.e2e.client import Client, Object, eventually, names
from tests.e2e.controller import LABEL
from tests.e2e.flavors import wait_until_installed
from tests.e2e.pods import SLEEP, pod, request, template
from tests.e2e.test_killed_programs import kill_in_containers
from tests.e2e.watcher import Watcher

GATE = "lode.dev/allocation"
FABRIC = "lode.dev/ib-cluster"
CARD = "gang-card"
ROUNDS, GANGS = 2, 10


@pytest.fixture(scope="module", autouse=True)
def any_card(client: Client) -> Iterator[None]:
    """A class for a whole card of any vendor."""
    expression = 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind in ["gpu", "npu"]'
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": f"{CARD}.lode.dev"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    client.kubectl("apply", "-f", "-", input=json.dumps(raw))
    yield
    client.kubectl("delete", "deviceclass", f"{CARD}.lode.dev", "--ignore-not-found", "--wait=false")


def gang(name: str, minimum: int, *requests: Object, level: Object | None = None) -> Object:
    """The template of a gang that stays in one InfiniBand cluster."""
    parameters = {
        "apiVersion": "lode.dev/v1alpha1",
        "kind": "PlacementConfig",
        "gang": {"name": name, "minAvailable": minimum},
        "topology": [level or {"attribute": "lode.dev/ibCluster"}],
    }
    config = [{"opaque": {"driver": "lode.dev", "parameters": parameters}}]
    return template(name, *requests, config=config)


def members(name: str, count: int, **spec: Any) -> list[Object]:
    return [pod(f"{name}-{number}", name, **spec) for number in range(count)]


def fabrics(client: Client, namespace: str) -> dict[str, str]:
    """The InfiniBand cluster of each pod's devices; "" for a pod without."""
    of = {node["metadata"]["name"]: node["metadata"]["labels"].get(FABRIC, "") for node in client.list("nodes")}
    found = {}
    for name in names(client.list("pods", namespace)):
        nodes = {device.split("/")[0] for device in client.devices(namespace, name)}
        found[name] = of[nodes.pop()] if nodes else ""
    return found


def bound(client: Client, namespace: str, count: int) -> bool:
    listed = client.list("pods", namespace)
    assert len([one for one in listed if one["spec"].get("nodeName")]) == count, names(listed)
    return True


def not_on(node: str) -> Object:
    """Affinity to all nodes but one."""
    expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def test_gangs_never_split(client: Client, namespace: str) -> None:
    """Four gangs of four want sixteen cards: one fills ib-b, and three fill ib-a."""
    for number in range(4):
        name = f"train-{number}"
        client.create(namespace, gang(name, 4, request(CARD)), *members(name, 4))
    eventually("all are bound", lambda: bound(client, namespace, 16))
    where = fabrics(client, namespace)
    for number in range(4):
        assert len({where[f"train-{number}-{member}"] for member in range(4)}) == 1, where


def test_of_a_gang_that_fits_nowhere_no_member_holds_a_card(client: Client, namespace: str, watcher: Watcher) -> None:
    client.create(namespace, gang("train", 13, request(CARD)), *members("train", 13))

    def said() -> bool:
        return "of 13 members fit in" in client.messages(namespace, "train-0")

    eventually("it is said why", said)
    assert not watcher.held(namespace)
    gated = [one for one in client.list("pods", namespace) if {"name": GATE} in one["spec"].get("schedulingGates", [])]
    assert len(gated) == 13


def test_gangs_run_in_the_cluster_that_other_predicates_leave_able(client: Client, namespace: str) -> None:
    """The other cluster has more room, but one of its nodes is not for these pods."""
    big = client.cluster.workers[0]
    for turn in range(ROUNDS):
        for number in range(GANGS):
            name = f"g{turn}-{number}"
            template_of_it = gang(name, 2, request("gpu-share", memory="64Mi"))
            client.create(namespace, template_of_it, *members(name, 2, affinity=not_on(big)))
        eventually("all are bound", lambda: bound(client, namespace, 2 * GANGS))
        assert set(fabrics(client, namespace).values()) == {"ib-a"}
        client.delete(namespace, "pods")


def test_a_job_of_three_workers_with_shares_of_one_gibibyte(client: Client, namespace: str) -> None:
    """As a user of Volcano's vGPU wrote it: three workers, minAvailable 3, one share of 1024 MB each."""
    one = pod("worker", "workers", restartPolicy="Never")
    one["spec"]["containers"][0]["command"] = SLEEP
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "workers"},
        "spec": {"completions": 3, "parallelism": 3, "template": {"spec": one["spec"]}},
    }
    level = {"attribute": "lode.dev/ibCluster", "mode": "preferred"}
    client.create(namespace, gang("workers", 3, request("gpu-share", memory="1024M"), level=level), job)
    eventually("every pod exists", lambda: len(client.list("pods", namespace)) == 3)
    client.wait_until_ready(namespace)


@pytest.mark.parametrize("delay", [0.2, *(pytest.param(one, marks=pytest.mark.release) for one in (0.0, 0.5, 1.0))])
def test_the_controller_is_killed_during_a_commit(
    client: Client, namespace: str, watcher: Watcher, delay: float
) -> None:
    client.create(namespace, gang("train", 12, request(CARD)), *members("train", 12))
    time.sleep(delay)
    kill_in_containers(client, LABEL)
    wait_until_installed(client)
    eventually("all are bound", lambda: bound(client, namespace, 12))
    assert set(fabrics(client, namespace).values()) == {"ib-a"}
    assert len(watcher.held(namespace)) == 12


def test_the_api_server_is_killed_during_a_commit(client: Client, cluster: KindCluster, namespace: str) -> None:
    client.create(namespace, gang("train", 12, request(CARD)), *members("train", 12))
    cluster.kill(cluster.control_plane, "kube-apiserver")
    eventually("all are bound", lambda: bound(client, namespace, 12))
    wait_until_installed(client)
    assert set(fabrics(client, namespace).values()) == {"ib-a"}


def test_a_member_that_is_deleted_returns_to_the_cluster_of_the_others(client: Client, namespace: str) -> None:
    client.create(namespace, gang("train", 4, request(CARD)), *members("train", 4))
    eventually("all are bound", lambda: bound(client, namespace, 4))
    (fabric,) = set(fabrics(client, namespace).values())
    client.delete(namespace, "pods", "train-3")
    client.create(namespace, pod("train-3", "train"))
    eventually("all are bound again", lambda: bound(client, namespace, 4))
    assert set(fabrics(client, namespace).values()) == {fabric}
