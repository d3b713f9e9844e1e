"""What a tenant cannot take from others, with the rights of a tenant."""

from collections.abc import Iterator

import pytest

from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS, Api, Object
from driver.kube.client import KubeClient
from testclusters import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.running import running, waits

TENANT = "tenant"


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[ControlPlane, Api]]:
    with running({"n1": {}, "n2": {}}, {}) as (plane, api):
        plane.kubectl("create", "rolebinding", TENANT, "--clusterrole=edit", f"--user={TENANT}", "--namespace=default")
        yield plane, api


@pytest.fixture
def tenant(cluster: tuple[ControlPlane, Api]) -> Iterator[Api]:
    """Somebody with the role ``edit`` in one namespace."""
    client = KubeClient.from_environment(str(cluster[0].kubeconfig(TENANT, ())))
    yield client
    client.close()


def card(name: str) -> Object:
    request = {"name": "card", "exactly": {"deviceClassName": "gpu.lode.dev"}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}


def pod_on(node: str, name: str) -> Object:
    spec = {
        "nodeName": node,
        "containers": [{"name": "main", "image": "none"}],
        "resourceClaims": [{"name": "card", "resourceClaimName": name}],
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def devices(api: Api, claim: str) -> object:
    return (api.get(RESOURCE_CLAIMS, claim, "default").get("status") or {}).get("allocation")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"unschedulable": True}, "the node is unschedulable"),
        ({"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}, "taint team=b:NoSchedule"),
    ],
)
def test_a_pod_that_names_a_closed_node_gets_no_devices_there(
    cluster: tuple[ControlPlane, Api], tenant: Api, unique: str, spec: Object, why: str
) -> None:
    _, admin = cluster
    tenant.create(RESOURCE_CLAIMS, card(f"{unique}-before"))
    tenant.create(PODS, pod_on("n2", f"{unique}-before"))
    eventually(lambda: devices(admin, f"{unique}-before"))
    admin.patch(NODES, "n2", {"spec": spec})
    try:
        tenant.create(RESOURCE_CLAIMS, card(unique))
        tenant.create(PODS, pod_on("n2", unique))
        condition = eventually(lambda: waits(admin, unique))
        assert condition["reason"] == "BoundWithoutDevices"
        assert why in condition["message"]
        assert not devices(admin, unique)
        assert devices(admin, f"{unique}-before"), "who has devices keeps them"
    finally:
        admin.patch(NODES, "n2", {"spec": {"unschedulable": None, "taints": None}})
    eventually(lambda: devices(admin, unique))
