"""The policies together with a real kube-scheduler and resource-claim-controller."""

from collections.abc import Iterator

import pytest

from tests.contract.identity import CONTROLLER, PLUGIN, Identity, Object, eventually
from tests.contract.installed import (
    CLAIMS,
    GATE,
    OUR_DRIVER,
    SLICES,
    allocated,
    claim,
    installed,
    new_namespace,
    patch_status,
    pod_with_claim,
    slice_of,
    unique_name,
)

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def admin() -> Iterator[Identity]:
    """The administrator of a cluster with the default flavor, where n1 has published a card."""
    with installed() as admin:
        published = slice_of(OUR_DRIVER, "n1")
        published["spec"]["devices"] = [{"name": "gpu-0", "attributes": {"kind": {"string": "gpu"}}}]
        admin.as_user(PLUGIN, node="n1").request("POST", SLICES, published).must()
        yield admin


def test_a_gated_pod_is_bound_to_its_allocation_which_is_cleared_afterwards(admin: Identity) -> None:
    stored = admin.request("POST", CLAIMS, claim()).must()
    name = stored["metadata"]["name"]
    pod = admin.request("POST", PODS, pod_with_claim(name)).must()
    assert pod["spec"]["schedulingGates"] == [GATE]
    controller = admin.as_user(CONTROLLER)
    patch_status(controller, allocated(stored, OUR_DRIVER)).must()
    path = f"{PODS}/{pod['metadata']['name']}"
    controller.request("PATCH", path, {"spec": {"schedulingGates": None}}).must()
    bound = eventually("kube-scheduler binds the pod", lambda: admin.get(path)["spec"].get("nodeName"))
    assert bound == "n1"
    assert admin.get(f"{CLAIMS}/{name}")["status"]["reservedFor"][0]["name"] == pod["metadata"]["name"]
    admin.request("DELETE", f"{path}?gracePeriodSeconds=0").must()
    eventually(
        "the resource-claim-controller clears the allocation",
        lambda: "allocation" not in admin.get(f"{CLAIMS}/{name}").get("status", {}),
    )


def test_kube_scheduler_cannot_allocate_for_a_pod_without_the_gate(admin: Identity) -> None:
    namespace = new_namespace(admin, {"lode.dev/gate": "off"})
    claims, pods = CLAIMS.replace("default", namespace), PODS.replace("default", namespace)
    wanted = admin.request("POST", claims, claim()).must()["metadata"]["name"]
    pod = admin.request("POST", pods, pod_with_claim(wanted)).must()["metadata"]["name"]
    refusal = "lode-system/lode-controller alone; system:kube-scheduler may not set the allocation"
    eventually(
        "kube-scheduler fails to allocate", lambda: refusal in _events(admin, namespace, pod, "FailedScheduling")
    )
    assert "allocation" not in admin.get(f"{claims}/{wanted}").get("status", {})


def test_an_extended_resource_request_for_our_class_is_reported_with_a_remedy(
    admin: Identity,
) -> None:
    resources = {"limits": {"deviceclass.resource.kubernetes.io/gpu.lode.dev": "1"}}
    container = {"name": "main", "image": "none", "resources": resources}
    wanted: Object = {"metadata": {"name": unique_name("pod")}, "spec": {"containers": [container]}}
    pod = admin.request("POST", PODS, wanted).must()["metadata"]["name"]
    remedy = "name a ResourceClaimTemplate in the pod's spec.resourceClaims instead"
    eventually("the remedy is given", lambda: remedy in _events(admin, "default", pod, "FailedScheduling"))


def _events(admin: Identity, namespace: str, pod: str, reason: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name%3D{pod}"
    return "\n".join(event["message"] for event in admin.get(path)["items"] if event["reason"] == reason)
