"""The controller's first write to a claim, for opaque parameters that different programs have written."""

import json

import pytest

from controller.writing import execution
from controller.writing.steps import AddFinalizer, Target
from driver.kube.api import RESOURCE_CLAIMS, Api, Conflict, Invalid, Object
from driver.names import FINALIZER
from testclusters.controlplane import ControlPlane
from tests.contract.objects import claim

PARAMETERS = {"kind": "PlacementConfig", "policy": "binpack", "apiVersion": "lode.dev/v1alpha1", "note": "<1 & é>"}


def add_finalizer(api: Api, seen: Object) -> Object:
    metadata = seen["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    target = Target(RESOURCE_CLAIMS, key, metadata["uid"], metadata["resourceVersion"])
    return execution.add_finalizer(api, AddFinalizer(target, (FINALIZER,)))


def with_parameters(name: str, namespace: str) -> dict[str, object]:
    wanted = claim(name, namespace)
    wanted["spec"]["devices"]["config"] = [{"opaque": {"driver": "lode.dev", "parameters": PARAMETERS}}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **wanted}


def test_a_claim_of_a_python_client_gets_the_finalizer(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, with_parameters("c", namespace))
    stored = add_finalizer(api, created)
    assert stored["metadata"]["finalizers"] == [FINALIZER]
    assert stored["spec"] == created["spec"]


def test_a_claim_that_has_changed_is_a_conflict(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}}, namespace=namespace)
    with pytest.raises(Conflict):
        add_finalizer(api, created)


def test_a_claim_of_kubectl_gets_the_finalizer(control_plane: ControlPlane, admin: Api, unique: str) -> None:
    control_plane.kubectl("create", "namespace", unique)
    control_plane.kubectl("create", "-f", "-", input=json.dumps(with_parameters("c", unique)))
    stored = add_finalizer(admin, admin.get(RESOURCE_CLAIMS, "c", unique))
    assert stored["metadata"]["finalizers"] == [FINALIZER]


def test_parameters_in_another_format_are_reported_with_a_remedy(
    control_plane: ControlPlane, admin: Api, unique: str
) -> None:
    control_plane.kubectl("create", "namespace", unique)
    odd = json.dumps(with_parameters("c", unique), separators=(" , ", " : "))
    path = f"/apis/resource.k8s.io/v1/namespaces/{unique}/resourceclaims"
    control_plane.kubectl("create", "--raw", path, "-f", "-", input=odd)
    with pytest.raises(Invalid, match="again with kubectl"):
        add_finalizer(admin, admin.get(RESOURCE_CLAIMS, "c", unique))
