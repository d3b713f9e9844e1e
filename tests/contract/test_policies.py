"""The policies of manifests/ in a real kube-apiserver: the gate, the single allocator, slices of a node."""

from collections.abc import Iterator

import pytest

from driver.names import FINALIZER
from tests.contract.identity import (
    CONTROLLER,
    PLUGIN,
    RESOURCE_CLAIM_CONTROLLER,
    SCHEDULER,
    Identity,
    Object,
    Response,
    eventually,
)
from tests.contract.installed import (
    CLAIMS,
    DRA,
    GATE,
    OTHER_DRIVER,
    OUR_DRIVER,
    TRUSTED,
    allocated,
    allocated_claim,
    claim,
    extended,
    installed,
    new_namespace,
    patch_status,
    pod_with_claim,
    put_status,
    trusted,
    unique_name,
)


@pytest.fixture(scope="module")
def admin() -> Iterator[Identity]:
    """The administrator of a cluster with the default flavor."""
    with installed() as admin:
        yield admin


# The single allocator

HOLD = {"apiGroup": "lode.example", "resource": "holds", "name": "h", "uid": "1"}
"""A consumer of a kind that the resource-claim-controller leaves alone."""


@pytest.mark.parametrize("user", [SCHEDULER, RESOURCE_CLAIM_CONTROLLER, PLUGIN, "somebody"])
def test_only_the_controller_can_set_an_allocation(admin: Identity, user: str) -> None:
    stored = admin.request("POST", CLAIMS, claim()).must()
    refused = put_status(admin.as_user(user, TRUSTED), allocated(stored, OUR_DRIVER))
    assert refused.status == 403
    assert "allocated by the service account lode-system/lode-controller alone" in refused.message
    assert user in refused.message


def test_the_administrator_cannot_set_an_allocation(admin: Identity) -> None:
    assert put_status(admin, allocated(admin.request("POST", CLAIMS, claim()).must(), OUR_DRIVER)).status == 403


def test_the_controller_can_set_and_clear_an_allocation(admin: Identity) -> None:
    stored = allocated_claim(admin, OUR_DRIVER)
    assert stored["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert "allocation" not in patch_status(admin.as_user(CONTROLLER), {**stored, "status": {}}).must().get(
        "status", {}
    )


@pytest.mark.parametrize("user", [SCHEDULER, PLUGIN, "somebody"])
@pytest.mark.parametrize("how", ["clear", "change"])
def test_other_users_cannot_clear_or_change_an_allocation(admin: Identity, user: str, how: str) -> None:
    stored = allocated_claim(admin, OUR_DRIVER)
    wanted = {**stored, "status": {}} if how == "clear" else allocated(stored, OTHER_DRIVER, device="other")
    assert not put_status(admin.as_user(user, TRUSTED), wanted).ok
    assert admin.get(f"{CLAIMS}/{stored['metadata']['name']}")["status"] == stored["status"]


def test_the_policy_applies_to_patches_too(admin: Identity) -> None:
    stored = allocated_claim(admin, OUR_DRIVER)
    path = f"{CLAIMS}/{stored['metadata']['name']}/status"
    refused = trusted(admin).request("PATCH", path, {"status": {"allocation": None}})
    assert refused.status == 403
    assert "may not clear the allocation" in refused.message


def test_our_devices_are_protected_in_a_claim_with_devices_of_two_drivers(admin: Identity) -> None:
    both = claim()
    both["spec"]["devices"]["requests"].append({"name": "other", "exactly": {"deviceClassName": "other"}})
    stored = allocated(admin.request("POST", CLAIMS, both).must(), OTHER_DRIVER)
    result = {"request": "card", "driver": OUR_DRIVER, "pool": f"n1/{OUR_DRIVER}", "device": "gpu-1"}
    stored["status"]["allocation"]["devices"]["results"].append(result)
    assert put_status(admin.as_user(SCHEDULER), stored).status == 403


def test_the_resource_claim_controller_can_clear_an_allocation(admin: Identity) -> None:
    cleared = put_status(
        admin.as_user(RESOURCE_CLAIM_CONTROLLER), {**allocated_claim(admin, OUR_DRIVER), "status": {}}
    ).must()
    assert "allocation" not in cleared.get("status", {})


def test_kube_scheduler_can_reserve_an_allocated_claim(admin: Identity) -> None:
    stored = allocated_claim(admin, OUR_DRIVER)
    stored["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "1"}]
    assert put_status(admin.as_user(SCHEDULER), stored).ok


def test_claims_of_other_drivers_are_not_restricted(admin: Identity) -> None:
    stored = admin.request("POST", CLAIMS, claim()).must()
    held_by_other = put_status(admin.as_user(SCHEDULER), allocated(stored, OTHER_DRIVER)).must()
    assert put_status(admin.as_user(SCHEDULER), {**held_by_other, "status": {}}).ok


def test_users_can_delete_claims_and_the_finalizer_protects_their_devices(admin: Identity) -> None:
    stored = allocated_claim(admin, OUR_DRIVER)
    path = f"{CLAIMS}/{stored['metadata']['name']}"
    assert trusted(admin).request("DELETE", path).ok
    eventually("the resource-claim-controller frees and removes it", lambda: admin.request("GET", path).status == 404)


def test_a_claim_in_use_keeps_its_finalizer_until_its_pods_are_gone(admin: Identity) -> None:
    stored = allocated_claim(admin, OUR_DRIVER)
    path = f"{CLAIMS}/{stored['metadata']['name']}"
    stored["status"]["reservedFor"] = [HOLD]
    controller = admin.as_user(CONTROLLER)
    reserved = patch_status(controller, stored).must()
    for finalizers in (None, ["lode.example/other"]):
        refused = trusted(admin).request("PATCH", path, {"metadata": {"finalizers": finalizers}})
        assert refused.status == 403
        assert "holds devices of the driver lode.dev for holds h: its finalizer" in refused.message
        assert "delete the pods that use the claim" in refused.message
    more = {"metadata": {"finalizers": [*stored["metadata"]["finalizers"], "lode.example/other"], "labels": {"a": "b"}}}
    assert trusted(admin).request("PATCH", f"{path}?dryRun=All", more).ok
    assert trusted(admin).request("DELETE", path).ok
    assert admin.get(path)["status"] == reserved["status"]
    controller.request("PATCH", f"{path}/status", {"status": {"reservedFor": None}}).must()
    eventually("the resource-claim-controller frees and removes it", lambda: admin.request("GET", path).status == 404)


@pytest.mark.parametrize("user", [SCHEDULER, RESOURCE_CLAIM_CONTROLLER, CONTROLLER])
def test_only_what_schedules_ends_a_reservation(admin: Identity, user: str) -> None:
    stored = allocated_claim(admin, OUR_DRIVER)
    stored["status"]["reservedFor"] = [HOLD, {**HOLD, "name": "i", "uid": "2"}]
    reserved = patch_status(admin.as_user(CONTROLLER), stored).must()
    path = f"{CLAIMS}/{stored['metadata']['name']}/status"
    fewer = {"status": {"reservedFor": [HOLD]}}
    refused = trusted(admin).request("PATCH", path, fewer)
    assert refused.status == 403
    assert "may not clear the allocation or a reservation" in refused.message
    more = {"status": {"reservedFor": [*reserved["status"]["reservedFor"], {**HOLD, "name": "j", "uid": "3"}]}}
    assert trusted(admin).request("PATCH", f"{path}?dryRun=All", more).ok
    assert admin.as_user(user).request("PATCH", path, fewer).ok
    patch_status(admin.as_user(CONTROLLER), {**admin.get(path.removesuffix("/status")), "status": {}}).must()


def test_claims_of_other_drivers_keep_nothing(admin: Identity) -> None:
    stored = put_status(admin, allocated(admin.request("POST", CLAIMS, claim()).must(), OTHER_DRIVER)).must()
    stored["status"]["reservedFor"] = [HOLD]
    put_status(trusted(admin), stored).must()
    path = f"{CLAIMS}/{stored['metadata']['name']}"
    assert trusted(admin).request("PATCH", f"{path}/status", {"status": {"reservedFor": None}}).ok
    assert trusted(admin).request("PATCH", path, {"metadata": {"finalizers": None}}).ok


# The gate


def create_pod(admin: Identity, pod: Object, namespace: str = "default") -> Object:
    created = admin.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod).must()
    admin.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
    return created


def gates(pod: Object) -> list[Object]:
    return list(pod["spec"].get("schedulingGates", []))


def test_a_pod_with_claims_gets_the_gate_in_addition_to_others(admin: Identity) -> None:
    assert gates(create_pod(admin, pod_with_claim("c"))) == [GATE]
    queued = create_pod(admin, pod_with_claim("c", schedulingGates=[{"name": "example.com/queue"}]))
    assert {gate["name"] for gate in gates(queued)} == {"example.com/queue", GATE["name"]}


def test_a_pod_with_the_gate_does_not_get_it_again(admin: Identity) -> None:
    assert gates(create_pod(admin, pod_with_claim("c", schedulingGates=[GATE]))) == [GATE]


def test_a_pod_without_claims_or_with_a_node_is_not_gated(admin: Identity) -> None:
    without = pod_with_claim("c", resourceClaims=[], containers=[{"name": "main", "image": "none"}])
    assert gates(create_pod(admin, without)) == []
    assert gates(create_pod(admin, pod_with_claim("c", nodeName="n1"))) == []


@pytest.mark.parametrize("value", ["train", ""])
def test_a_pod_without_claims_that_is_in_a_gang_gets_the_gate(admin: Identity, value: str) -> None:
    member = pod_with_claim("c", resourceClaims=[], containers=[{"name": "main", "image": "none"}])
    member["metadata"]["labels"] = {"lode.dev/gang": value}
    assert gates(create_pod(admin, member)) == [GATE]
    other = pod_with_claim("c", resourceClaims=[], containers=[{"name": "main", "image": "none"}])
    other["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "train"}
    assert gates(create_pod(admin, other)) == [], "a group alone says nothing of this driver"


def test_a_namespace_can_opt_out(admin: Identity) -> None:
    assert gates(create_pod(admin, pod_with_claim("c"), new_namespace(admin, {"lode.dev/gate": "off"}))) == []
    assert gates(create_pod(admin, pod_with_claim("c"), new_namespace(admin, {"lode.dev/gate": "on"}))) == [GATE]


# Claims that kube-scheduler creates for extended resources


def test_extended_resource_claims_cannot_use_our_classes(admin: Identity) -> None:
    either = claim()
    alternatives = [{"name": "a", "deviceClassName": "example.com"}, {"name": "b", "deviceClassName": "npu.lode.dev"}]
    either["spec"]["devices"]["requests"] = [{"name": "card", "firstAvailable": alternatives}]
    for wanted, name in ((claim("mig.lode.dev"), "mig.lode.dev"), (either, "npu.lode.dev")):
        refused = admin.as_user(SCHEDULER, TRUSTED).request("POST", CLAIMS, extended(wanted))
        assert refused.status == 403
        assert f"device class {name} cannot be requested as an extended resource" in refused.message


ALLOWED_CLASSES = ('device.driver != "lode.dev"', 'device.driver == "lode.dev.example.com"')
REFUSED_CLASSES = ('device.driver == "lode.dev"', "device.attributes['lode.dev'].type == 'H100'")


def test_classes_of_an_administrator_count_by_what_they_select(admin: Identity) -> None:
    names = {selector: unique_name("class") for selector in (*ALLOWED_CLASSES, *REFUSED_CLASSES)}
    for selector, name in names.items():
        spec = {"selectors": [{"cel": {"expression": selector}}]}
        admin.request("POST", f"{DRA}/deviceclasses", {"metadata": {"name": name}, "spec": spec}).must()

    def asked_for(selector: str) -> Response:
        return admin.request("POST", f"{CLAIMS}?dryRun=All", extended(claim(names[selector])))

    eventually("the classes count", lambda: {asked_for(it).status for it in REFUSED_CLASSES} == {403})
    for selector in REFUSED_CLASSES:
        message = f"device class {names[selector]} cannot be requested as an extended resource"
        assert message in asked_for(selector).message
    assert all(asked_for(selector).ok for selector in ALLOWED_CLASSES)


def test_other_extended_resource_claims_and_plain_claims_are_allowed(admin: Identity) -> None:
    assert admin.request("POST", CLAIMS, extended(claim("gpu.example.com"))).ok
    assert admin.request("POST", CLAIMS, claim("mig.lode.dev")).ok


# The finalizer of claims


def test_claims_for_our_classes_are_created_with_the_finalizer(admin: Identity) -> None:
    first, either, other = claim("npu-share.lode.dev"), claim(), claim("gpu.example.com")
    alternatives = [{"name": "a", "deviceClassName": "example.com"}, {"name": "b", "deviceClassName": "npu.lode.dev"}]
    either["spec"]["devices"]["requests"] = [{"name": "card", "firstAvailable": alternatives}]
    for wanted, expected in ((first, [FINALIZER]), (either, [FINALIZER]), (other, None)):
        del wanted["metadata"]["finalizers"]
        wanted["metadata"]["generateName"] = f"{wanted['metadata'].pop('name')}-"
        created = admin.request("POST", CLAIMS, wanted).must()
        assert created["metadata"].get("finalizers") == expected


def test_a_claim_that_was_never_used_can_be_deleted(admin: Identity) -> None:
    stored = admin.request("POST", CLAIMS, claim()).must()
    path = f"{CLAIMS}/{stored['metadata']['name']}"
    admin.request("DELETE", path).must()
    eventually("the claim is gone", lambda: admin.request("GET", path).status == 404)
