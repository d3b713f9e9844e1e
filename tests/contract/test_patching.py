"""The four kinds of patch."""

from typing import Any

import pytest

from driver.kube.api import (
    LEASES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    Object,
)
from tests.contract.objects import GATE, allocation, claim, consumer, pod, resource_slice


def labels(api: Api, namespace: str) -> Any:
    return api.get(RESOURCE_CLAIMS, "c", namespace)["metadata"].get("labels")


def test_merge_patch_sets_changes_and_removes_with_null(api: Api, namespace: str) -> None:
    obj = claim("c", namespace)
    obj["metadata"]["labels"] = {"keep": "1", "change": "1", "drop": "1"}
    api.create(RESOURCE_CLAIMS, obj)
    patch = {"metadata": {"labels": {"change": "2", "drop": None, "add": "1"}}}
    api.patch(RESOURCE_CLAIMS, "c", patch, namespace=namespace)
    assert labels(api, namespace) == {"keep": "1", "change": "2", "add": "1"}
    api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": None}}, namespace=namespace)
    assert labels(api, namespace) is None


def test_merge_patch_replaces_whole_lists(api: Api, namespace: str) -> None:
    api.create(PODS, pod("p", namespace, gates=("a.example/x", GATE)))
    answer = api.patch(PODS, "p", {"spec": {"schedulingGates": [{"name": GATE}]}}, namespace=namespace)
    assert answer["spec"]["schedulingGates"] == [{"name": GATE}]


def test_one_patch_removes_a_gate_by_name_and_sets_node_affinity(api: Api, namespace: str) -> None:
    created = api.create(PODS, pod("p", namespace, schedulerName="nobody"))
    required = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
    patch = {
        "metadata": {"uid": created["metadata"]["uid"], "resourceVersion": created["metadata"]["resourceVersion"]},
        "spec": {
            "schedulingGates": [{"$patch": "delete", "name": GATE}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        },
    }
    answer = api.patch(PODS, "p", patch, namespace=namespace, patch_type="strategic")
    assert "schedulingGates" not in answer["spec"]
    assert answer["spec"]["affinity"]["nodeAffinity"] == {"requiredDuringSchedulingIgnoredDuringExecution": required}
    assert answer["metadata"]["generation"] == created["metadata"]["generation"] + 1


def test_removing_a_missing_gate_changes_nothing(api: Api, namespace: str) -> None:
    api.create(PODS, pod("p", namespace, gates=("a.example/x", "b.example/y")))
    patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    answer = api.patch(PODS, "p", patch, namespace=namespace, patch_type="strategic")
    assert [gate["name"] for gate in answer["spec"]["schedulingGates"]] == ["a.example/x", "b.example/y"]


def test_strategic_merge_adds_and_removes_one_consumer(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    uid = created["metadata"]["uid"]
    allocated = {**created, "status": {"allocation": allocation(), "reservedFor": [consumer("u1")]}}
    api.update(RESOURCE_CLAIMS, allocated, "status")

    def consumers(patch: list[Object]) -> list[str]:
        answer = api.patch(
            RESOURCE_CLAIMS,
            "c",
            {"metadata": {"uid": uid}, "status": {"reservedFor": patch}},
            namespace=namespace,
            subresource="status",
            patch_type="strategic",
        )
        return [item["uid"] for item in answer["status"].get("reservedFor", [])]

    assert consumers([consumer("u2")]) == ["u2", "u1"]
    assert consumers([{"$patch": "delete", "uid": "u1"}]) == ["u2"]
    assert consumers([{"$patch": "delete", "uid": "u1"}]) == ["u2"]
    assert consumers([{"$patch": "delete", "uid": "u2"}]) == []


def test_strategic_merge_changes_one_condition_by_its_type(api: Api, namespace: str) -> None:
    api.create(PODS, pod("p", namespace))

    def conditions(*patch: Object) -> dict[str, tuple[str, str]]:
        answer = api.patch(
            PODS,
            "p",
            {"status": {"conditions": list(patch)}},
            namespace=namespace,
            subresource="status",
            patch_type="strategic",
        )
        return {item["type"]: (item["status"], item.get("reason", "")) for item in answer["status"]["conditions"]}

    gated = {"PodScheduled": ("False", "SchedulingGated")}
    ours = {"type": "lode.dev/Allocated", "status": "False", "reason": "NoDevices"}
    assert conditions(ours) == {**gated, ours["type"]: ("False", "NoDevices")}
    assert conditions({**ours, "reason": "Selector"}) == {**gated, ours["type"]: ("False", "Selector")}
    assert conditions({"type": ours["type"], "$patch": "delete"}) == gated


def test_strategic_merge_changes_one_container_by_its_name(api: Api, namespace: str) -> None:
    two = [{"name": "a", "image": "x:1"}, {"name": "b", "image": "x:1"}]
    api.create(PODS, pod("p", namespace, containers=two))
    patch = {"spec": {"containers": [{"name": "b", "image": "x:2"}]}}
    answer = api.patch(PODS, "p", patch, namespace=namespace, patch_type="strategic")
    assert [(item["name"], item["image"]) for item in answer["spec"]["containers"]] == [("a", "x:1"), ("b", "x:2")]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [("abc", "d", "dabc"), ("abc", "c", "abc"), ("abc", "ca", "bca"), ("abc", "xb", "xabc"), ("abc", "cxa", "bcxa")],
)
def test_strategic_merge_orders_patched_items_as_in_the_patch(
    api: Api, namespace: str, before: str, patch: str, after: str
) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    status = {"allocation": allocation(), "reservedFor": [consumer(uid) for uid in before]}
    api.update(RESOURCE_CLAIMS, {**created, "status": status}, "status")
    answer = api.patch(
        RESOURCE_CLAIMS,
        "c",
        {"status": {"reservedFor": [consumer(uid) for uid in patch]}},
        namespace=namespace,
        subresource="status",
        patch_type="strategic",
    )
    assert "".join(item["uid"] for item in answer["status"]["reservedFor"]) == after


def test_strategic_merge_replaces_lists_without_a_key(api: Api, unique: str) -> None:
    api.create(RESOURCE_SLICES, resource_slice(unique, {"name": "a"}, {"name": "b"}))
    answer = api.patch(RESOURCE_SLICES, unique, {"spec": {"devices": [{"name": "c"}]}}, patch_type="strategic")
    assert answer["spec"]["devices"] == [{"name": "c"}]


def test_an_item_without_its_key_is_refused(api: Api, namespace: str) -> None:
    api.create(PODS, pod("p", namespace))
    with pytest.raises(ApiError, match="merge key"):
        api.patch(
            PODS, "p", {"spec": {"schedulingGates": [{"other": "x"}]}}, namespace=namespace, patch_type="strategic"
        )


def test_json_patch_checks_its_tests_before_it_changes_anything(api: Api, namespace: str) -> None:
    created = api.create(PODS, pod("p", namespace, gates=(GATE, "a.example/x")))
    lift = [
        {"op": "test", "path": "/metadata/uid", "value": created["metadata"]["uid"]},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/metadata/labels", "value": {"lode.dev~x": "1"}},
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "2"},
    ]
    lift[3]["value"] = {"x": "1"}
    answer = api.patch(PODS, "p", lift, namespace=namespace, patch_type="json")
    assert answer["spec"]["schedulingGates"] == [{"name": "a.example/x"}]
    assert answer["metadata"]["labels"] == {"x": "1", "a/b": "2"}
    with pytest.raises(Invalid) as error:
        api.patch(PODS, "p", lift, namespace=namespace, patch_type="json")
    assert error.value.status == 422


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/metadata/labels/absent"},
        {"op": "replace", "path": "/metadata/annotations/absent", "value": "x"},
        {"op": "add", "path": "/spec/schedulingGates/7", "value": {"name": "x"}},
        {"op": "add", "path": "/absent/field", "value": "x"},
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused(api: Api, namespace: str, operation: Object) -> None:
    api.create(PODS, pod("p", namespace))
    with pytest.raises(Invalid):
        api.patch(PODS, "p", [operation], namespace=namespace, patch_type="json")


def apply(api: Api, namespace: str, manager: str, labels: Object, *, force: bool = False) -> Any:
    config = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": namespace, "labels": labels},
    }
    answer = api.patch(LEASES, "l", config, namespace=namespace, patch_type="apply", field_manager=manager, force=force)
    return answer["metadata"].get("labels", {})


def test_apply_creates_and_then_changes(api: Api, namespace: str) -> None:
    assert apply(api, namespace, "one", {"a": "1"}) == {"a": "1"}
    version = api.get(LEASES, "l", namespace)["metadata"]["resourceVersion"]
    assert apply(api, namespace, "one", {"a": "1"}) == {"a": "1"}
    assert api.get(LEASES, "l", namespace)["metadata"]["resourceVersion"] == version
    assert apply(api, namespace, "one", {"a": "2"}) == {"a": "2"}


def test_fields_no_manager_applies_any_more_are_removed(api: Api, namespace: str) -> None:
    apply(api, namespace, "one", {"mine": "1", "both": "1"})
    assert apply(api, namespace, "two", {"both": "1", "theirs": "1"}) == {"mine": "1", "both": "1", "theirs": "1"}
    assert apply(api, namespace, "one", {}) == {"both": "1", "theirs": "1"}
    assert apply(api, namespace, "two", {}) == {}


def test_another_managers_value_is_overwritten_only_by_force(api: Api, namespace: str) -> None:
    apply(api, namespace, "one", {"a": "1"})
    with pytest.raises(Conflict):
        apply(api, namespace, "two", {"a": "2"})
    assert apply(api, namespace, "two", {"a": "2"}, force=True) == {"a": "2"}
    assert apply(api, namespace, "one", {}) == {"a": "2"}
    with pytest.raises(Conflict):
        apply(api, namespace, "one", {"a": "1"})


def test_a_value_of_another_write_is_changed_only_by_force(api: Api, namespace: str) -> None:
    api.create(LEASES, {"metadata": {"name": "l", "labels": {"a": "1", "b": "1"}}}, namespace)
    assert apply(api, namespace, "one", {"a": "1"}) == {"a": "1", "b": "1"}
    with pytest.raises(Conflict):
        apply(api, namespace, "one", {"a": "1", "b": "2"})
    assert apply(api, namespace, "one", {}) == {"a": "1", "b": "1"}
    assert apply(api, namespace, "one", {"b": "2"}, force=True) == {"a": "1", "b": "2"}
    assert apply(api, namespace, "one", {}) == {"a": "1"}


def test_another_write_takes_a_field_from_its_manager(api: Api, namespace: str) -> None:
    apply(api, namespace, "one", {"a": "1", "b": "1"})
    api.patch(LEASES, "l", {"metadata": {"labels": {"a": "2"}}}, namespace=namespace)
    assert apply(api, namespace, "one", {"b": "1"}) == {"a": "2", "b": "1"}


def test_apply_needs_a_manager_api_version_and_kind(api: Api, namespace: str) -> None:
    with pytest.raises(Invalid):
        apply(api, namespace, "", {"a": "1"})
    with pytest.raises(Invalid):
        api.patch(
            LEASES,
            "l",
            {"metadata": {"name": "l"}},
            namespace=namespace,
            patch_type="apply",
            field_manager="one",
        )


def apply_status(api: Api, namespace: str, manager: str, *devices: str) -> list[str]:
    """Apply ``status.devices``, which a driver owns device by device."""
    answer = api.patch(
        RESOURCE_CLAIMS,
        "c",
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": namespace},
            "status": {
                "devices": [
                    {"driver": "lode.dev", "pool": "node-1/lode.dev", "device": device, "data": {"by": manager}}
                    for device in devices
                ]
            },
        },
        namespace=namespace,
        subresource="status",
        patch_type="apply",
        field_manager=manager,
    )
    return [item["device"] for item in answer["status"].get("devices", [])]


def test_apply_to_status_merges_keyed_lists_item_by_item(api: Api, namespace: str) -> None:
    with pytest.raises(NotFound):
        apply_status(api, namespace, "one", "gpu-0")
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    both = allocation()
    both["devices"]["results"].append({**both["devices"]["results"][0], "device": "gpu-1"})
    api.update(RESOURCE_CLAIMS, {**created, "status": {"allocation": both}}, "status")
    assert apply_status(api, namespace, "one", "gpu-0") == ["gpu-0"]
    assert apply_status(api, namespace, "two", "gpu-1") == ["gpu-0", "gpu-1"]
    assert apply_status(api, namespace, "one") == ["gpu-1"]


def test_apply_to_a_pods_status_leaves_the_other_conditions(api: Api, namespace: str) -> None:
    api.create(PODS, pod("p", namespace))
    condition = {"type": "lode.dev/Allocated", "status": "False", "reason": "NoDevices", "message": "none left"}
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": [condition]}}
    answer = api.patch(
        PODS, "p", config, namespace=namespace, subresource="status", patch_type="apply", field_manager="lode"
    )
    assert [item["type"] for item in answer["status"]["conditions"]] == ["PodScheduled", "lode.dev/Allocated"]
