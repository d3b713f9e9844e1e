"""When a real kube-scheduler evicts pods for a pod whose devices this controller has allocated."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.identity import CONTROLLER, PLUGIN, Identity, Object, eventually
from tests.contract.installed import (
    CLAIMS,
    OUR_DRIVER,
    SLICES,
    allocated,
    claim,
    installed,
    pod_with_claim,
    slice_of,
    unique_name,
)

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def admin() -> Iterator[Identity]:
    """The administrator of a cluster with the default flavor, where n1 has published a card."""
    with installed() as admin:
        published = slice_of(OUR_DRIVER, "n1")
        published["spec"]["devices"] = [{"name": "gpu-0", "attributes": {"kind": {"string": "gpu"}}}]
        admin.as_user(PLUGIN, node="n1").request("POST", SLICES, published).must()
        priority = {"metadata": {"name": "high"}, "value": 1000}
        admin.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority).must()
        yield admin


def fill(admin: Identity, node: str) -> str:
    """A pod of priority 0 that has most CPUs of the node; its path."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "60"}}}
    wanted = {"metadata": {"name": unique_name("low")}, "spec": {"containers": [container], "nodeName": node}}
    return f"{PODS}/{admin.request('POST', PODS, wanted).must()['metadata']['name']}"


def let_go(admin: Identity) -> str:
    """A pod of high priority that needs as many, with devices on n1 and without our gate; its path."""
    stored = admin.request("POST", CLAIMS, claim()).must()
    wanted: Any = pod_with_claim(stored["metadata"]["name"])
    wanted["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "60"}
    wanted["spec"]["priorityClassName"] = "high"
    path = f"{PODS}/{admin.request('POST', PODS, wanted).must()['metadata']['name']}"
    controller = admin.as_user(CONTROLLER)
    status = {"status": allocated(stored, OUR_DRIVER)["status"]}
    controller.request("PATCH", f"{CLAIMS}/{stored['metadata']['name']}/status", status).must()
    controller.request("PATCH", path, {"spec": {"schedulingGates": None}}).must()
    return path


def scheduled(admin: Identity, path: str) -> Object:
    conditions = admin.get(path)["status"].get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == "PodScheduled"), {})


def test_pods_are_evicted_if_no_node_has_room(admin: Identity) -> None:
    here, elsewhere = fill(admin, "n1"), fill(admin, "n2")
    let_go(admin)
    eventually("a pod is evicted", lambda: admin.request("GET", here).status == 404 or _deleting(admin, here))
    assert not _deleting(admin, elsewhere)


def test_none_is_evicted_while_only_the_allocation_keeps_the_pod_from_a_node(admin: Identity) -> None:
    here = fill(admin, "n1")
    path = let_go(admin)
    # It tries to clear the allocation, which the policy denies.
    eventually("it fails", lambda: "may not clear the allocation" in scheduled(admin, path).get("message", ""))
    assert not _deleting(admin, here)


def _deleting(admin: Identity, path: str) -> bool:
    return "deletionTimestamp" in admin.get(path)["metadata"]
