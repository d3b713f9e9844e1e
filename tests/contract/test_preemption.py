"""When a real kube-scheduler evicts pods for a pod whose devices this controller has allocated."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.identity import CONTROLLER, PLUGIN, Identity, eventually
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
        for name, policy in (("high", "PreemptLowerPriority"), ("never", "Never")):
            priority = {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": policy}
            admin.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority).must()
        yield admin


def fill(admin: Identity, node: str) -> str:
    """A pod of priority 0 that has most CPUs of the node; its path."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "60"}}}
    wanted = {"metadata": {"name": unique_name("low")}, "spec": {"containers": [container], "nodeName": node}}
    return f"{PODS}/{admin.request('POST', PODS, wanted).must()['metadata']['name']}"


def devices_on_n1(admin: Identity) -> str:
    """The name of a claim that is allocated on n1."""
    stored = admin.request("POST", CLAIMS, claim()).must()
    name: str = stored["metadata"]["name"]
    status = {"status": allocated(stored, OUR_DRIVER)["status"]}
    admin.as_user(CONTROLLER).request("PATCH", f"{CLAIMS}/{name}/status", status).must()
    return name


def let_go(admin: Identity, claim_name: str, priority: str) -> str:
    """A pod of the claim without our gate that needs as many CPUs as the pod of ``fill``; its path."""
    wanted: Any = pod_with_claim(claim_name, priorityClassName=priority)
    wanted["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "60"}
    made = eventually(
        "the priority class is known", lambda: (it := admin.request("POST", PODS, wanted)).ok and it.must()
    )
    path = f"{PODS}/{made['metadata']['name']}"
    admin.as_user(CONTROLLER).request("PATCH", path, {"spec": {"schedulingGates": None}}).must()
    return path


def may_not_clear(admin: Identity, path: str) -> bool:
    """Whether kube-scheduler tried to clear the allocation for the pod, which the policy denies."""
    conditions = admin.get(path)["status"].get("conditions") or ()
    messages = [entry.get("message", "") for entry in conditions if entry["type"] == "PodScheduled"]
    return any("may not clear the allocation" in message for message in messages)


def test_pods_are_evicted_if_no_node_has_room(admin: Identity) -> None:
    here, elsewhere = fill(admin, "n1"), fill(admin, "n2")
    let_go(admin, devices_on_n1(admin), "high")
    eventually("a pod is evicted", lambda: admin.request("GET", here).status == 404 or _deleting(admin, here))
    assert not _deleting(admin, elsewhere)


def test_none_is_evicted_while_only_the_allocation_keeps_the_pod_from_a_node(admin: Identity) -> None:
    here = fill(admin, "n1")
    name = devices_on_n1(admin)
    # kube-scheduler watches pods and claims apart, and evicts for a claim that it does not know as allocated yet. It
    # knows when it answers a pod that may evict nobody.
    knows = let_go(admin, name, "never")
    eventually("kube-scheduler knows the allocation", lambda: may_not_clear(admin, knows))
    path = let_go(admin, name, "high")
    eventually("kube-scheduler fails to clear the allocation", lambda: may_not_clear(admin, path))
    assert not _deleting(admin, here)


def _deleting(admin: Identity, path: str) -> bool:
    return "deletionTimestamp" in admin.get(path)["metadata"]
