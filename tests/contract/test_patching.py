"""The three kinds of patch."""

from typing import Any

import pytest

from driver.kube.api import (
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiError,
    Invalid,
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
