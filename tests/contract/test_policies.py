"""The policies of manifests/ in a real kube-apiserver: the gate, the single allocator, slices of a node."""

from collections.abc import Iterator

import pytest

from driver.names import FINALIZER
from kubeletplugin.publish.slices import slice_name
from tests.contract.identity import (
    CONTROLLER,
    GARBAGE_COLLECTOR,
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
    SLICES,
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
    slice_of,
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


# Slices of a node

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "00000000-0000-0000-0000-000000000000"}


def published(admin: Identity, node: str = "n1") -> Object:
    return admin.as_user(PLUGIN, node=node).request("POST", SLICES, slice_of(OUR_DRIVER, node)).must()


def test_a_plugin_can_write_the_slices_of_its_node(admin: Identity) -> None:
    plugin = admin.as_user(PLUGIN, node="n1")
    stored = published(admin)
    path = f"{SLICES}/{stored['metadata']['name']}"
    stored["spec"]["devices"].append({"name": "gpu-1"})
    assert plugin.request("PUT", path, stored).ok
    assert plugin.request("DELETE", path).ok


def test_a_plugin_cannot_write_slices_of_another_node(admin: Identity) -> None:
    stored, intruder = published(admin, "n1"), admin.as_user(PLUGIN, node="n2")
    path = f"{SLICES}/{stored['metadata']['name']}"
    answers = [
        intruder.request("POST", SLICES, slice_of(OUR_DRIVER, "n1")),
        intruder.request("PUT", path, {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}),
        intruder.request("DELETE", path),
    ]
    assert [answer.status for answer in answers] == [403] * 3
    assert all("token was issued for (n2), not of n1" in answer.message for answer in answers)


def test_a_token_without_a_node_cannot_write_slices(admin: Identity) -> None:
    refused = admin.as_user(PLUGIN).request("POST", SLICES, slice_of(OUR_DRIVER, "n1"))
    assert refused.status == 403
    assert "bound to no pod" in refused.message


def test_a_plugin_cannot_write_slices_without_a_node_or_of_another_driver(admin: Identity) -> None:
    everywhere = slice_of(OUR_DRIVER, "n1")
    del everywhere["spec"]["nodeName"]
    everywhere["spec"]["allNodes"] = True
    plugin = admin.as_user(PLUGIN, node="n1")
    assert plugin.request("POST", SLICES, everywhere).status == 403
    assert plugin.request("POST", SLICES, slice_of(OTHER_DRIVER, "n1")).status == 403


def test_other_users_cannot_write_slices_of_our_driver(admin: Identity) -> None:
    stored = published(admin)
    path = f"{SLICES}/{stored['metadata']['name']}"
    for who in (trusted(admin), admin.as_user(CONTROLLER, TRUSTED), admin):
        refused = [
            who.request("POST", SLICES, slice_of(OUR_DRIVER, "n1")),
            who.request("PUT", path, {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}),
            who.request("DELETE", path),
        ]
        assert [answer.status for answer in refused] == [403] * 3
        assert all("only the service account lode-plugin/lode-kubeletplugin" in answer.message for answer in refused)


def test_everybody_can_write_a_slice_back_unchanged_as_the_storage_migrator_does(admin: Identity) -> None:
    stored = published(admin)
    path = f"{SLICES}/{stored['metadata']['name']}"
    assert admin.request("PUT", path, stored).ok
    metadata = stored["metadata"]
    for changed in (
        {**stored, "metadata": {**metadata, "annotations": {"a": "b"}}},
        {**stored, "metadata": {**metadata, "finalizers": ["lode.example/hold"]}},
        {**stored, "metadata": {**metadata, "ownerReferences": [OWNER]}},
        {**stored, "spec": {**stored["spec"], "devices": []}},
    ):
        assert admin.request("PUT", path, changed).status == 403


@pytest.mark.parametrize("length", [1, 200, 231, 232, 244])
@pytest.mark.parametrize(("content", "index"), [("devices", 0), ("counters", 99)])
def test_a_plugin_can_write_the_names_that_it_gives(admin: Identity, length: int, content: str, index: int) -> None:
    node = "n" * length
    wanted = {**slice_of(OUR_DRIVER, node), "metadata": {"name": slice_name(node, OUR_DRIVER, content, index)}}
    created = admin.as_user(PLUGIN, node=node).request("POST", f"{SLICES}?dryRun=All", wanted)
    assert created.ok, created.message


@pytest.mark.parametrize(
    "name",
    [
        "n1-lode.dev-devices-000-more",
        "n10-lode.dev-devices-000",
        "n1-lode.dev-lode.dev-devices-000",
        "n1-other.dev-devices-000",
        "n1-lode-dev-devices-000",
        "n1-lode.dev-shares-000",
        "n1-lode.dev-devices-100",
        "n1-lode.dev-devices-0000",
        "slice",
    ],
)
def test_a_plugin_cannot_write_other_names(admin: Identity, name: str) -> None:
    refused = admin.as_user(PLUGIN, node="n1").request("POST", SLICES, slice_of(OUR_DRIVER, "n1", name))
    assert refused.status == 403
    assert "must be n1-lode.dev-devices-<number> or n1-lode.dev-counters-<number>" in refused.message


@pytest.mark.parametrize("pool", ["n2/lode.dev", "n1", "n1/lode.dev/more"])
def test_a_plugin_cannot_write_into_other_pools(admin: Identity, pool: str) -> None:
    wanted = slice_of(OUR_DRIVER, "n1")
    wanted["spec"]["pool"]["name"] = pool
    refused = admin.as_user(PLUGIN, node="n1").request("POST", SLICES, wanted)
    assert refused.status == 403
    assert f"must be n1/lode.dev, not {pool}" in refused.message


def test_the_kubelet_of_another_node_cannot_delete_a_slice(admin: Identity) -> None:
    path = f"{SLICES}/{published(admin)['metadata']['name']}"
    # Without the group of all nodes, NodeRestriction does not refuse it first.
    refused = admin.as_user("system:node:n2", TRUSTED).request("DELETE", path)
    assert refused.status == 403
    assert "own-slices.lode.dev" in refused.message


def test_slices_of_other_drivers_are_not_restricted(admin: Identity) -> None:
    stored = trusted(admin).request("POST", SLICES, slice_of(OTHER_DRIVER, "n1")).must()
    assert trusted(admin).request("DELETE", f"{SLICES}/{stored['metadata']['name']}").ok


def test_the_kubelet_can_delete_all_slices_of_its_node(admin: Identity) -> None:
    stored = published(admin)
    kubelet = admin.as_user("system:node:n1", "system:nodes")
    wiped = kubelet.request("DELETE", f"{SLICES}?fieldSelector=spec.nodeName%3Dn1,spec.driver%3D{OUR_DRIVER}")
    assert wiped.ok, wiped.message
    assert admin.request("GET", f"{SLICES}/{stored['metadata']['name']}").status == 404


def test_the_garbage_collector_can_delete_the_slices_of_a_deleted_node(admin: Identity) -> None:
    node = admin.request("POST", "/api/v1/nodes", {"metadata": {"name": unique_name("node")}}).must()["metadata"]
    wanted = slice_of(OUR_DRIVER, node["name"])
    owner = {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"], "controller": True}
    wanted["metadata"]["ownerReferences"] = [owner]
    path = f"{SLICES}/{wanted['metadata']['name']}"
    admin.as_user(PLUGIN, node=node["name"]).request("POST", SLICES, wanted).must()
    assert admin.as_user(GARBAGE_COLLECTOR).request("DELETE", f"{path}?dryRun=All").ok
    admin.request("DELETE", f"/api/v1/nodes/{node['name']}").must()
    eventually("the slice is deleted with its node", lambda: admin.request("GET", path).status == 404)


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
