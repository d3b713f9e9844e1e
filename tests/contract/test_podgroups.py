"""PodGroups of ``scheduling.k8s.io``, where the API serves them: the controller beside real Kubernetes components.

Kubernetes serves them only with feature gates and API versions that are off by default.
"""

import os
import sys
from collections.abc import Iterator

import pytest

from driver.kube.api import (
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    NotFound,
    Object,
)
from driver.kube.client import KubeClient
from testclusters import ControlPlane, start_process
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually
from tests.contract.identity import CONTROLLER

GATES = "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true"
FLAGS = {
    "kube-apiserver": [GATES, "--runtime-config=api/alpha=true,api/beta=true"],
    "kube-controller-manager": [GATES],
    "kube-scheduler": [GATES],
}
CLAIM = {"name": "cards", "resourceClaimTemplateName": "two"}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster with PodGroups, the manifests of the driver, and a node of four cards in each of two fabrics."""
    with ControlPlane(flags=FLAGS) as plane:
        api = KubeClient.from_environment(str(plane.kubeconfig()))
        for name, fabric in (("a1", "a"), ("b1", "b")):
            plane.add_node(name, {"fabric": fabric})
            api.create(RESOURCE_SLICES, cards(name))
        plane.kubectl("apply", "-k", "manifests/controller-allocated")
        spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev", "count": 2}}]}}
        template = {"metadata": {"name": "two", "namespace": "default"}, "spec": {"spec": spec}}
        api.create(RESOURCE_CLAIM_TEMPLATES, template)
        eventually(lambda: api.get(SERVICE_ACCOUNTS, "default", "default"))
        eventually(lambda: _is_gated(api), 60)
        api.close()
        yield plane


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Iterator[Api]:
    """The administrator, while the controller runs as its service account."""
    settings = plane.folder / "settings.yaml"
    settings.write_text('{"observeAddress": ""}')
    groups = ("system:serviceaccounts", "system:serviceaccounts:lode-system")
    kubeconfig = str(plane.kubeconfig(CONTROLLER, groups))
    command = [sys.executable, "-m", "controller", "--settings", str(settings), "--kubeconfig", kubeconfig]
    process = start_process(command, plane.folder / "controller.log", dict(os.environ))
    client = KubeClient.from_environment(str(plane.kubeconfig()))
    yield client
    client.close()
    process.terminate()
    process.wait(30)


def cards(node: str) -> Object:
    pool = {"name": f"{node}/lode.dev", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}", "attributes": {"kind": {"string": "gpu"}}} for number in range(4)]
    return {
        "metadata": {"name": f"{node}-lode"},
        "spec": {"driver": "lode.dev", "pool": pool, "nodeName": node, "devices": devices},
    }


def group(name: str, policy: Object, *claims: Object) -> Object:
    spec = {"schedulingPolicy": policy, **({"resourceClaims": [*claims]} if claims else {})}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def member(name: str, of: str) -> Object:
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "schedulingGroup": {"podGroupName": of},
        "resourceClaims": [CLAIM],
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _is_gated(api: Api) -> bool:
    """Whether the gate is in force."""
    created = api.create(PODS, member("probe", "none"))
    api.delete(PODS, "probe", "default", grace_period_seconds=0)
    return bool(created["spec"].get("schedulingGates"))


def nodes_of(api: Api, *pods: str) -> list[str]:
    """The node of each pod; fails until all are bound."""
    found = [api.get(PODS, name, "default")["spec"].get("nodeName", "") for name in pods]
    return found if all(found) else []


def claim_of(api: Api, pod: str) -> Object:
    (status,) = api.get(PODS, pod, "default")["status"]["resourceClaimStatuses"]
    return api.get(RESOURCE_CLAIMS, status["resourceClaimName"], "default")


def create_group(api: Api, obj: Object) -> Object:
    """Create a PodGroup in the best version that is served."""
    for kind in POD_GROUPS:
        try:
            return api.create(kind, obj)
        except NotFound:
            continue
    pytest.fail("the API serves no PodGroup")


def waits(api: Api, pod: str) -> Object | None:
    """The condition of a pod that waits."""
    conditions = api.get(PODS, pod, "default")["status"].get("conditions") or ()
    return next((one for one in conditions if one["type"] == "lode.dev/Allocated" and one["status"] == "False"), None)


def test_a_pod_group_starts_together_or_not_at_all(api: Api) -> None:
    create_group(api, group("all", {"gang": {"minCount": 2}}))
    names = ["all-0", "all-1"]
    for name in names:
        api.create(PODS, member(name, "all"))
    eventually(lambda: nodes_of(api, *names), 60)
    create_group(api, group("none", {"gang": {"minCount": 3}}))
    for number in range(3):
        api.create(PODS, member(f"none-{number}", "none"))
    told = eventually(lambda: waits(api, "none-0"), 60)
    assert (told["reason"], "2 of 3 members fit" in told["message"]) == ("Unallocatable", True), told
    assert not any(claim_of(api, f"none-{number}").get("status", {}).get("allocation") for number in range(3))
    for name in (*names, "none-0", "none-1", "none-2"):
        api.delete(PODS, name, "default", grace_period_seconds=0)
    eventually(lambda: not api.list(RESOURCE_CLAIMS, namespace="default").items)


def test_the_pods_of_a_gang_share_the_claim_of_their_pod_group(api: Api) -> None:
    made = create_group(api, group("shared", {"gang": {"minCount": 3}}, CLAIM))
    names = [f"shared-{number}" for number in range(3)]
    for name in names:
        api.create(PODS, member(name, "shared"))
    assert len(set(eventually(lambda: nodes_of(api, *names), 60))) == 1
    stored = claim_of(api, names[0])
    assert {claim_of(api, name)["metadata"]["uid"] for name in names} == {stored["metadata"]["uid"]}
    consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "shared"}
    assert stored["status"]["reservedFor"] == [{**consumer, "uid": made["metadata"]["uid"]}]
