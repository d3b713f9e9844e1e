"""Kubernetes' own quotas count our classes, and leave alone what our controller counts, on a real control plane."""

import time
from typing import Any

import pytest

from driver.kube.api import (
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    Api,
    Forbidden,
    Invalid,
    Object,
)
from tests.contract.conftest import SERVICE_ACCOUNTS, eventually, exceeds_quota, used_of_quota
from tests.contract.objects import claim, pod

OURS = {"lode.dev/memory": "320Gi", "lode.dev/cores": "400", "lode.dev/memory.H100": "80Gi"}
CLASSES = ("gpu.lode.dev", "gpu-share.lode.dev", "mig.lode.dev", "npu.lode.dev", "npu-share.lode.dev", "vnpu.lode.dev")


def quota(namespace: str, hard: dict[str, Any], **spec: Any) -> Object:
    return {"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": hard, **spec}}


@pytest.mark.parametrize("value", ["-1", "500m"])
def test_a_limit_is_a_whole_number_of_zero_or_more(api: Api, namespace: str, value: str) -> None:
    with pytest.raises(Invalid):
        api.create(RESOURCE_QUOTAS, quota(namespace, {"lode.dev/memory": value}))


def test_any_name_with_a_domain_may_be_limited(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_QUOTAS, quota(namespace, OURS, scopes=["NotTerminating"]))
    assert created["spec"]["hard"] == OURS


@pytest.fixture
def real(admin: Api, unique: str) -> Object:
    """A namespace on the real control plane in which pods can be created; its name is in ``metadata``."""
    created = admin.create(NAMESPACES, {"metadata": {"name": unique}})
    eventually(lambda: admin.get(SERVICE_ACCOUNTS, "default", unique))
    return created


def test_the_quota_controller_leaves_the_use_of_our_names_alone(admin: Api, real: Object) -> None:
    namespace = real["metadata"]["name"]
    admin.create(RESOURCE_QUOTAS, quota(namespace, {**OURS, "pods": "0"}))
    eventually(lambda: exceeds_quota(admin, PODS, pod("beyond", namespace)))
    eventually(lambda: used_of_quota(admin, namespace) == {"pods": "0"})
    admin.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": "10"}}}, namespace=namespace)
    ours = {"lode.dev/memory": "100Gi", "lode.dev/cores": "100"}
    admin.patch(RESOURCE_QUOTAS, "q", {"status": {"used": ours}}, namespace=namespace, subresource="status")
    eventually(lambda: admin.create(PODS, pod("p", namespace)))
    eventually(lambda: used_of_quota(admin, namespace) == {**ours, "pods": "1"})
    admin.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": "11"}}}, namespace=namespace)
    eventually(lambda: admin.get(RESOURCE_QUOTAS, "q", namespace)["status"]["hard"]["pods"] == "11")
    time.sleep(1)
    assert used_of_quota(admin, namespace) == {**ours, "pods": "1"}


@pytest.mark.parametrize("name", CLASSES)
def test_devices_of_each_class_are_counted_when_claims_are_created(admin: Api, real: Object, name: str) -> None:
    namespace, counted = real["metadata"]["name"], f"{name}.deviceclass.resource.k8s.io/devices"
    admin.create(RESOURCE_QUOTAS, quota(namespace, {counted: "2"}))
    eventually(lambda: exceeds_quota(admin, RESOURCE_CLAIMS, of_class(name, "beyond", namespace, count=3)))
    eventually(lambda: used_of_quota(admin, namespace) == {counted: "0"})
    admin.create(RESOURCE_CLAIMS, of_class(name, "a", namespace))
    eventually(lambda: used_of_quota(admin, namespace) == {counted: "1"})
    with pytest.raises(Forbidden, match="exceeded quota: q, requested: "):
        admin.create(RESOURCE_CLAIMS, of_class(name, "b", namespace, count=2))


def of_class(name: str, claim_name: str, namespace: str, count: int = 1) -> Object:
    obj = claim(claim_name, namespace)
    obj["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": name, "count": count}
    return obj


@pytest.mark.parametrize(
    ("exactly", "counted"),
    [({"count": 3}, "3"), ({"allocationMode": "All"}, "32"), ({"adminAccess": True}, "1")],
    ids=["a number", "all of a node", "admin access"],
)
def test_what_a_claim_asks_for_counts_under_both_names_of_its_class(
    admin: Api, real: Object, unique: str, exactly: Object, counted: str
) -> None:
    namespace = real["metadata"]["name"]
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    admin.patch(NAMESPACES, namespace, labels)
    admin.create(DEVICE_CLASSES, {"metadata": {"name": unique}, "spec": {"extendedResourceName": f"a.b/{unique}"}})
    names = (
        f"{unique}.deviceclass.resource.k8s.io/devices",
        f"requests.deviceclass.resource.kubernetes.io/{unique}",
    )
    admin.create(RESOURCE_QUOTAS, quota(namespace, dict.fromkeys(names, "40")))
    eventually(lambda: exceeds_quota(admin, RESOURCE_CLAIMS, of_class(unique, "beyond", namespace, count=41)))
    obj = claim("c", namespace)
    obj["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": unique, **exactly}
    admin.create(RESOURCE_CLAIMS, obj)
    eventually(lambda: used_of_quota(admin, namespace) == dict.fromkeys(names, counted))


def test_an_old_name_goes_on_counting_for_a_class_that_has_it(admin: Api, real: Object, unique: str) -> None:
    namespace, old = real["metadata"]["name"], f"example.com/{unique}"
    admin.create(DEVICE_CLASSES, {"metadata": {"name": unique}, "spec": {"extendedResourceName": old}})
    admin.create(RESOURCE_QUOTAS, quota(namespace, {f"requests.{old}": "2"}))
    eventually(lambda: exceeds_quota(admin, RESOURCE_CLAIMS, of_class(unique, "beyond", namespace, count=3)))
    eventually(lambda: used_of_quota(admin, namespace) == {f"requests.{old}": "0"})
    admin.create(RESOURCE_CLAIMS, of_class(unique, "one", namespace))
    eventually(lambda: used_of_quota(admin, namespace) == {f"requests.{old}": "1"})
    with pytest.raises(Forbidden, match=f"exceeded quota: q, requested: requests.{old}=2"):
        admin.create(RESOURCE_CLAIMS, of_class(unique, "too-much", namespace, count=2))
