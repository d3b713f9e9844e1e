"""Who may write and delete ResourceSlices of our driver."""

from collections.abc import Iterator

import pytest

from kubeletplugin.publish.slices import slice_prefix
from tests.contract.identity import (
    CONTROLLER,
    GARBAGE_COLLECTOR,
    PLUGIN,
    Identity,
    Object,
    eventually,
)
from tests.contract.installed import (
    OTHER_DRIVER,
    OUR_DRIVER,
    SLICES,
    TRUSTED,
    installed,
    slice_of,
    trusted,
    unique_name,
)


@pytest.fixture(scope="module")
def admin() -> Iterator[Identity]:
    """The administrator of a cluster with the default flavor."""
    with installed() as admin:
        yield admin


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


UID = "0f3c9a1e-5f6b-4d0e-9d55-6f4b8f3f2a10"


@pytest.mark.parametrize("length", [1, 200, 231, 232, 240, 244])
@pytest.mark.parametrize("name", ["devices-000", "counters-099"])
def test_a_plugin_can_write_the_names_that_it_gives(admin: Identity, length: int, name: str) -> None:
    node = "n" * length
    wanted = {**slice_of(OUR_DRIVER, node), "metadata": {"name": slice_prefix(node, UID, OUR_DRIVER) + name}}
    created = admin.as_user(PLUGIN, node=node, node_uid=UID).request("POST", f"{SLICES}?dryRun=All", wanted)
    assert created.ok, created.message


LONG = "-".join(["node"] * 48) + "0"
"""A node name of 240 characters."""
PREFIX = slice_prefix(LONG, UID, OUR_DRIVER)


@pytest.mark.parametrize(
    "name",
    [
        f"{LONG[:150]}-lode.dev-devices-000",
        f"{LONG[:150]}-more-lode.dev-devices-000",
        f"{LONG[:222]}-0f3c9a1e-lode.dev-devices-000",
        PREFIX.replace("x0f3c9a1e", "x0f3c9a1f") + "devices-000",
        PREFIX.replace("x0f3c9a1e", "") + "devices-000",
        f"{PREFIX}devices-100",
        f"{PREFIX}shares-000",
    ],
)
def test_a_plugin_of_a_node_with_a_long_name_cannot_write_other_names(admin: Identity, name: str) -> None:
    """So it has as few slices as any other, and cannot take those of a node whose name begins like its own."""
    assert len(LONG) == 240
    wanted = {**slice_of(OUR_DRIVER, LONG), "metadata": {"name": name}}
    refused = admin.as_user(PLUGIN, node=LONG, node_uid=UID).request("POST", f"{SLICES}?dryRun=All", wanted)
    assert (refused.status, f"must be {PREFIX}devices-<number> or " in refused.message) == (403, True), refused.message


def test_a_token_that_does_not_name_the_nodes_uid_cannot_write_slices_of_a_long_name(admin: Identity) -> None:
    wanted = {**slice_of(OUR_DRIVER, LONG), "metadata": {"name": f"{PREFIX}devices-000"}}
    assert admin.as_user(PLUGIN, node=LONG).request("POST", f"{SLICES}?dryRun=All", wanted).status == 403


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
