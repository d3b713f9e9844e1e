"""The controller's writes of a claim's status: patches that are made only to the version that was decided on."""

import json

import pytest

from controller.writing.execution import carry_out
from controller.writing.steps import PatchClaimStatus, Target
from driver.kube.api import RESOURCE_CLAIMS, Api, Conflict, NotFound, Object
from driver.model import Allocation
from driver.wire import allocation_from
from testclusters.controlplane import ControlPlane
from tests.contract.objects import allocation, claim, consumer

PARAMETERS = {"kind": "PlacementConfig", "policy": "binpack", "apiVersion": "lode.dev/v1alpha1", "note": "<1 & é>"}
OPAQUE = {"driver": "lode.dev", "parameters": PARAMETERS}
CLEARED = {"allocation": None, "reservedFor": None, "devices": None}


def with_parameters(name: str, namespace: str) -> Object:
    wanted = claim(name, namespace)
    wanted["spec"]["devices"]["config"] = [{"opaque": OPAQUE}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **wanted}


def allocated(*consumers: str) -> Object:
    """A status whose allocation repeats the parameters of the claim, as an allocation has to."""
    wanted = allocation()
    wanted["devices"]["config"] = [{"source": "FromClaim", "opaque": OPAQUE}]
    return {"allocation": wanted, "reservedFor": [consumer(uid) for uid in consumers]}


def patched(api: Api, seen: Object, status: Object, expected: Allocation | None = None) -> Object:
    metadata = seen["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    target = Target(RESOURCE_CLAIMS, key, metadata["uid"], metadata["resourceVersion"])
    (answer,) = carry_out(api, PatchClaimStatus(target, status, expected)).answers
    assert answer.key == key
    assert answer.object is not None
    return answer.object


def live_through(api: Api, created: Object) -> None:
    """Allocate, reserve once more, release and clear the claim, and check that its spec stays as it was."""
    status = allocated("u1")
    stored = patched(api, created, status, allocation_from(status["allocation"]))
    assert [entry["uid"] for entry in stored["status"]["reservedFor"]] == ["u1"]
    stored = patched(api, stored, {"reservedFor": [consumer("u1"), consumer("u2")]})
    assert stored["status"]["allocation"]["devices"]["config"][0]["opaque"]["parameters"] == PARAMETERS
    stored = patched(api, stored, {"reservedFor": []})
    assert "reservedFor" not in stored["status"]
    stored = patched(api, stored, CLEARED)
    assert stored.get("status", {}) == {}
    assert stored["spec"] == created["spec"]


def test_a_claim_of_a_python_client(api: Api, namespace: str) -> None:
    live_through(api, api.create(RESOURCE_CLAIMS, with_parameters("c", namespace)))


def test_a_claim_of_kubectl(control_plane: ControlPlane, admin: Api, unique: str) -> None:
    control_plane.kubectl("create", "namespace", unique)
    control_plane.kubectl("create", "-f", "-", input=json.dumps(with_parameters("c", unique)))
    live_through(admin, admin.get(RESOURCE_CLAIMS, "c", unique))


def test_a_stale_version_is_a_conflict_and_changes_nothing(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}}, namespace=namespace)
    with pytest.raises(Conflict):
        patched(api, created, allocated("u1"))
    assert not api.get(RESOURCE_CLAIMS, "c", namespace).get("status")


def test_another_claim_of_the_same_name_is_a_conflict(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    with pytest.raises(NotFound):
        patched(api, created, allocated("u1"))
    api.create(RESOURCE_CLAIMS, claim("c", namespace))
    with pytest.raises(Conflict):
        patched(api, created, allocated("u1"))
