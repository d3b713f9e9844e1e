"""Nobody but the controller allocates or revokes a device of ours, whatever rights the cluster gives them."""

import json

import pytest

from testclusters import CommandFailed
from tests.e2e.client import Client, Object, eventually, gone, results
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

ALLOCATION = {
    "devices": {"results": [{"request": "card", "driver": "lode.dev", "pool": "n/lode.dev", "device": "gpu-0"}]},
    "allocationTimestamp": "2026-01-01T00:00:00Z",
}


def patch_status(client: Client, space: str, claim: str, status: Object, user: str = "") -> None:
    """Change a claim's status with kubectl, as somebody else if ``user`` says so."""
    identity = [f"--as={user}"] if user else []
    client.kubectl(
        *("patch", "resourceclaim", claim, f"--namespace={space}", "--subresource=status", "--type=merge", *identity),
        *("-p", json.dumps({"status": status})),
    )


@pytest.mark.parametrize("user", ["", "system:kube-scheduler"])
def test_nobody_else_allocates(client: Client, space: str, user: str) -> None:
    spec = {"devices": {"requests": [request()]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}
    client.create(space, claim)
    with pytest.raises(CommandFailed, match="allocated by the service account lode-system/lode-controller alone"):
        patch_status(client, space, "c", {"allocation": ALLOCATION}, user)


@pytest.mark.parametrize("user", ["", "system:kube-scheduler"])
def test_nobody_else_takes_an_allocation_back(client: Client, space: str, user: str) -> None:
    client.create(space, template("one", request()), pod("holder", "one"))
    client.wait_until_ready(space)
    claim = client.claims(space)["holder"]["c0"]
    with pytest.raises(CommandFailed, match="may not clear the allocation"):
        patch_status(client, space, claim["metadata"]["name"], {"allocation": None, "reservedFor": None}, user)
    assert results(client.claims(space)["holder"]["c0"]) == results(claim)


def test_the_resource_claim_controller_frees_what_a_pod_leaves(client: Client, space: str, watcher: Watcher) -> None:
    spec = {"devices": {"requests": [request()]}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "kept"}, "spec": spec}
    user = pod("user")
    user["spec"]["resourceClaims"] = [{"name": "card", "resourceClaimName": "kept"}]
    user["spec"]["containers"][0]["resources"]["claims"] = [{"name": "card"}]
    client.create(space, claim, user)
    client.wait_until_ready(space)
    assert watcher.held(space)
    client.delete(space, "pod", "user")
    eventually("it is free", lambda: not results(client.get("resourceclaim", "kept", space)))
    gone("nothing is held", lambda: watcher.held(space))


def test_a_pod_that_passes_the_gate_by_gets_its_devices_from_the_controller_all_the_same(
    client: Client, space: str
) -> None:
    client.kubectl("label", "namespace", space, "lode.dev/gate=off")
    client.create(space, template("one", request()), *(pod(f"hasty-{n}", "one") for n in range(4)))
    client.wait_until_ready(space)
    assert not any(it["spec"].get("schedulingGates") for it in client.list("pods", space))
    for claim in client.list("resourceclaims", space, "--show-managed-fields"):
        assert allocated_by(claim) == "lode"


def allocated_by(claim: Object) -> str:
    """Whose program wrote the allocation, by the API server's own record."""
    written = {entry["manager"]: entry["fieldsV1"].get("f:status", {}) for entry in claim["metadata"]["managedFields"]}
    (manager,) = [name for name, status in written.items() if "f:allocation" in status]
    return str(manager)
