"""Pods that ask for cards as for those of a device plugin: kube-scheduler makes and allocates the claims."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from charts import built
from driver.kube.api import (
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    Api,
    Forbidden,
    Object,
)
from driver.kube.client import KubeClient
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually, exceeds_quota, used_of_quota

CARDS = {f"gpu-{number}": {"kind": "gpu"} for number in range(3)}
PARTITIONS = {
    "gpu-3-mig-0": {"kind": "mig", "profile": "1g.10gb"},
    "gpu-3-mig-1": {"kind": "mig", "profile": "2g.20gb"},
}


@pytest.fixture(scope="module")
def admin() -> Iterator[Api]:
    """The administrator of a control plane where kube-scheduler allocates, with two nodes, one of them with cards."""
    with ControlPlane() as plane:
        api = KubeClient.from_environment(str(plane.kubeconfig()))
        for node in ("n1", "n2"):
            plane.add_node(node)
        devices = [
            {"name": name, "attributes": {attribute: {"string": value} for attribute, value in attributes.items()}}
            for name, attributes in {**CARDS, **PARTITIONS}.items()
        ]
        pool = {"name": "n1/lode.dev", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "lode.dev", "pool": pool, "nodeName": "n1", "devices": devices}
        # Before its policies are in force: then only the plugin of the node may.
        api.create(RESOURCE_SLICES, {"metadata": {"name": "n1-lode"}, "spec": spec})
        objects = built("scheduler-allocated", "extended-resources")
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
        yield api
        api.close()


@pytest.fixture
def namespace(admin: Api, unique: str) -> Iterator[str]:
    admin.create(NAMESPACES, {"metadata": {"name": unique}})
    eventually(lambda: admin.get(SERVICE_ACCOUNTS, "default", unique))
    yield unique
    for pod in admin.list(PODS, namespace=unique).items:
        admin.delete(PODS, pod["metadata"]["name"], unique, grace_period_seconds=0)
    eventually(lambda: not admin.list(RESOURCE_CLAIMS, namespace=unique).items)


def pod(name: str, namespace: str, *limits: dict[str, str]) -> Object:
    """A pod without claims, with a container for each of ``limits``."""
    containers = [
        {"name": f"c{number}", "image": "none", "resources": {"limits": limit}} for number, limit in enumerate(limits)
    ]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": containers}}


def bound(api: Api, name: str, namespace: str) -> Any:
    """The pod, once it is on a node; else nothing."""
    found = api.get(PODS, name, namespace)
    return found if found["spec"].get("nodeName") else None


def devices(api: Api, bound_pod: Object) -> dict[tuple[str, str], list[str]]:
    """The devices of each container, by the name of the resource that it asked for."""
    said = bound_pod["status"]["extendedResourceClaimStatus"]
    claim = api.get(RESOURCE_CLAIMS, said["resourceClaimName"], bound_pod["metadata"]["namespace"])
    results = claim["status"]["allocation"]["devices"]["results"]
    return {
        (mapping["containerName"], mapping["resourceName"]): [
            result["device"] for result in results if result["request"] == mapping["requestName"]
        ]
        for mapping in said["requestMappings"]
    }


def test_containers_get_whole_cards_and_partitions_by_the_names_of_device_plugins(admin: Api, namespace: str) -> None:
    asked = ({"nvidia.com/gpu": "2"}, {"nvidia.com/mig-1g.10gb": "1"})
    admin.create(PODS, pod("p", namespace, *asked))
    got = devices(admin, eventually(lambda: bound(admin, "p", namespace)))
    assert got["c1", "nvidia.com/mig-1g.10gb"] == ["gpu-3-mig-0"]
    assert len(set(got["c0", "nvidia.com/gpu"]) & set(CARDS)) == 2


def test_a_pod_waits_while_all_cards_are_taken(admin: Api, namespace: str) -> None:
    admin.create(PODS, pod("first", namespace, {"nvidia.com/gpu": "2"}))
    eventually(lambda: bound(admin, "first", namespace))
    admin.create(PODS, pod("second", namespace, {"nvidia.com/gpu": "2"}))

    def refused() -> bool:
        conditions = admin.get(PODS, "second", namespace)["status"].get("conditions") or ()
        return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)

    eventually(refused)
    admin.delete(PODS, "first", namespace, grace_period_seconds=0)
    eventually(lambda: bound(admin, "second", namespace), 60)


def test_a_device_plugin_of_the_same_name_serves_the_pods_of_its_node(admin: Api, namespace: str) -> None:
    offered = {"nvidia.com/gpu": "4"}
    status = {"status": {"capacity": offered, "allocatable": offered}}
    admin.patch(NODES, "n2", status, subresource="status")
    old = pod("p", namespace, {"nvidia.com/gpu": "2"})
    old["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
    admin.create(PODS, old)
    assert "extendedResourceClaimStatus" not in eventually(lambda: bound(admin, "p", namespace))["status"]
    assert not admin.list(RESOURCE_CLAIMS, namespace=namespace).items


def test_a_quota_in_the_old_name_counts_pods_that_ask_by_it_and_claims_of_the_class(admin: Api, namespace: str) -> None:
    name = "requests.nvidia.com/gpu"
    admin.create(RESOURCE_QUOTAS, {"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": {name: "3"}}})

    eventually(lambda: exceeds_quota(admin, PODS, pod("beyond", namespace, {"nvidia.com/gpu": "4"})))
    eventually(lambda: used_of_quota(admin, namespace) == {name: "0"})
    admin.create(PODS, pod("p", namespace, {"nvidia.com/gpu": "2"}))
    eventually(lambda: bound(admin, "p", namespace))
    eventually(lambda: used_of_quota(admin, namespace) == {name: "2"})
    with pytest.raises(Forbidden, match=r"exceeded quota: q, requested: requests\.nvidia\.com/gpu=2"):
        admin.create(PODS, pod("q", namespace, {"nvidia.com/gpu": "2"}))
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev"}}
    claim = {"metadata": {"name": "c", "namespace": namespace}, "spec": {"devices": {"requests": [request]}}}
    admin.create(RESOURCE_CLAIMS, claim)
    eventually(lambda: used_of_quota(admin, namespace) == {name: "3"})
    admin.delete(RESOURCE_CLAIMS, "c", namespace)
