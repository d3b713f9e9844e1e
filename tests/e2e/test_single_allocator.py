"""Only the controller can allocate our devices or clear allocations, whatever rights other users have."""

import json

import pytest

from testclusters.commands import CommandFailed
from tests.e2e.client import Client, Object, eventually, eventually_none, results
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

ALLOCATION = {
    "devices": {"results": [{"request": "card", "driver": "lode.dev", "pool": "n/lode.dev", "device": "gpu-0"}]},
    "allocationTimestamp": "2026-01-01T00:00:00Z",
}


def patch_status(client: Client, namespace: str, claim: str, status: Object, user: str = "") -> None:
    """Change a claim's status with kubectl, as ``user`` if one is given."""
    target = ("resourceclaim", claim, f"--namespace={namespace}", "--subresource=status")
    identity = [f"--as={user}"] if user else []
    client.kubectl("patch", *target, "--type=merge", *identity, "-p", json.dumps({"status": status}))


@pytest.mark.parametrize("user", ["", "system:kube-scheduler"])
def test_only_the_controller_can_set_an_allocation(client: Client, namespace: str, user: str) -> None:
    spec = {"devices": {"requests": [request()]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    client.create(namespace, claim)
    with pytest.raises(CommandFailed, match="allocated by the service account lode-system/lode-controller alone"):
        patch_status(client, namespace, "c", {"allocation": ALLOCATION}, user)


@pytest.mark.parametrize("user", ["", "system:kube-scheduler"])
def test_only_the_controller_can_clear_an_allocation(client: Client, namespace: str, user: str) -> None:
    client.create(namespace, template("one", request()), pod("holder", "one"))
    client.wait_until_ready(namespace)
    claim = client.claims(namespace)["holder"]["c0"]
    with pytest.raises(CommandFailed, match="may not clear the allocation"):
        patch_status(client, namespace, claim["metadata"]["name"], {"allocation": None, "reservedFor": None}, user)
    assert results(client.claims(namespace)["holder"]["c0"]) == results(claim)


def test_the_resource_claim_controller_frees_the_devices_of_a_deleted_pod(
    client: Client, namespace: str, watcher: Watcher
) -> None:
    spec = {"devices": {"requests": [request()]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "kept"}, "spec": spec}
    user = pod("user")
    user["spec"]["resourceClaims"] = [{"name": "card", "resourceClaimName": "kept"}]
    user["spec"]["containers"][0]["resources"]["claims"] = [{"name": "card"}]
    client.create(namespace, claim, user)
    client.wait_until_ready(namespace)
    assert watcher.held(namespace)
    client.delete(namespace, "pod", "user")
    eventually("the claim is not allocated", lambda: not results(client.get("resourceclaims", "kept", namespace)))
    eventually_none("nothing is held", lambda: watcher.held(namespace))


def test_the_controller_allocates_for_pods_without_the_gate(client: Client, namespace: str) -> None:
    client.kubectl("label", "namespace", namespace, "lode.dev/gate=off")
    client.create(namespace, template("one", request()), *(pod(f"hasty-{n}", "one") for n in range(4)))
    client.wait_until_ready(namespace)
    assert not any(it["spec"].get("schedulingGates") for it in client.list("pods", namespace))
    for claim in client.list("resourceclaims", namespace):
        assert allocated_by(claim) == "lode"


def allocated_by(claim: Object) -> str:
    """The field manager that wrote the allocation, as the API server recorded it."""
    fields = {entry["manager"]: entry["fieldsV1"].get("f:status", {}) for entry in claim["metadata"]["managedFields"]}
    (manager,) = [name for name, status in fields.items() if "f:allocation" in status]
    return str(manager)
