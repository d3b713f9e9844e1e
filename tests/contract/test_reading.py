"""get, list and watch."""

import pytest

from driver.kube.api import (
    LEASES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Api,
    ApiError,
    Invalid,
    NotFound,
    Resource,
    WatchEvent,
)
from tests.contract.conftest import eventually
from tests.contract.objects import claim, claim_spec, pod, resource_slice


def take(api: Api, resource: Resource, version: str, count: int, **selectors: str) -> list[tuple[str, str]]:
    """The first ``count`` changes after ``version``, as (type, name)."""
    return [
        (event.type, event.object["metadata"]["name"]) for event in events(api, resource, version, count, **selectors)
    ]


def events(api: Api, resource: Resource, version: str, count: int, **selectors: str) -> list[WatchEvent]:
    seen: list[WatchEvent] = []
    watch = api.watch(resource, resource_version=version, timeout_seconds=10, **selectors)
    for event in watch:
        if event.type != "BOOKMARK":
            seen.append(event)
        if len(seen) == count:
            break
    return seen


def test_an_object_is_read_back_as_create_returned_it(api: Api, namespace: str) -> None:
    created = api.create(
        RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": claim_spec()}}, namespace
    )
    read = api.get(RESOURCE_CLAIM_TEMPLATES, "t", namespace)
    assert read == created
    assert (read["apiVersion"], read["kind"]) == ("resource.k8s.io/v1", "ResourceClaimTemplate")
    assert list(api.list(RESOURCE_CLAIM_TEMPLATES, namespace=namespace).items) == [created]


def test_an_object_that_does_not_exist_is_not_found(api: Api, namespace: str) -> None:
    for call in (
        lambda: api.get(PODS, "absent", namespace),
        lambda: api.delete(PODS, "absent", namespace),
        lambda: api.patch(PODS, "absent", {"metadata": {}}, namespace=namespace),
        lambda: api.patch(PODS, "absent", {}, namespace=namespace, subresource="status"),
        lambda: api.update(RESOURCE_CLAIMS, claim("absent", namespace)),
    ):
        with pytest.raises(NotFound) as error:
            call()
        assert (error.value.status, error.value.reason) == (404, "NotFound")


def test_a_kind_that_is_not_served_is_not_found(api: Api) -> None:
    unserved = Resource("resource.k8s.io", "v9", "wishes", "Wish", namespaced=False)
    with pytest.raises(NotFound):
        api.list(unserved)
    with pytest.raises(NotFound):
        list(api.watch(unserved, resource_version="1"))


def test_all_pages_of_a_list_show_the_same_version(api: Api, namespace: str) -> None:
    for name in ("b", "d", "a", "c", "e"):
        api.create(RESOURCE_CLAIMS, claim(name, namespace))
    first = api.list(RESOURCE_CLAIMS, namespace=namespace, limit=2)
    api.delete(RESOURCE_CLAIMS, "d", namespace)
    api.create(RESOURCE_CLAIMS, claim("f", namespace))
    pages = [first]
    while pages[-1].continue_token:
        pages.append(api.list(RESOURCE_CLAIMS, namespace=namespace, limit=2, continue_token=pages[-1].continue_token))
    assert [[item["metadata"]["name"] for item in page.items] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert len({page.resource_version for page in pages}) == 1
    assert take(api, RESOURCE_CLAIMS, first.resource_version, 2, namespace=namespace) == [
        ("DELETED", "d"),
        ("ADDED", "f"),
    ]


def test_an_invalid_continue_token_is_refused(api: Api, namespace: str) -> None:
    with pytest.raises(ApiError) as error:
        api.list(PODS, namespace=namespace, limit=2, continue_token="bm9uc2Vuc2U")
    assert error.value.status in (400, 410)


def test_a_list_of_all_namespaces_is_ordered_by_namespace_and_name(api: Api, namespace: str) -> None:
    api.create(LEASES, {"metadata": {"name": "one"}}, namespace)
    api.create(LEASES, {"metadata": {"name": "two"}}, "default")
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in api.list(LEASES).items]
    assert keys == sorted(keys)
    assert {("default", "two"), (namespace, "one")} <= set(keys)
    api.delete(LEASES, "two", "default")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=a", ["one"]),
        ("app==a", ["one"]),
        ("app!=a", ["three", "two"]),
        ("app", ["one", "two"]),
        ("!app", ["three"]),
        ("app in (a,b)", ["one", "two"]),
        ("app notin (a)", ["three", "two"]),
        ("app,tier=x", ["two"]),
        ("tier=x,app in (a, b)", ["two"]),
    ],
)
def test_label_selectors(api: Api, namespace: str, selector: str, expected: list[str]) -> None:
    for name, labels in (("one", {"app": "a"}), ("two", {"app": "b", "tier": "x"}), ("three", {})):
        api.create(LEASES, {"metadata": {"name": name, "labels": labels}}, namespace)
    found = api.list(LEASES, namespace=namespace, label_selector=selector).items
    assert [item["metadata"]["name"] for item in found] == expected


def test_field_selectors_of_slices(api: Api, unique: str) -> None:
    for i in (1, 2):
        api.create(RESOURCE_SLICES, resource_slice(f"{unique}-{i}", driver=f"{unique}-{i}.example"))

    def names(selector: str) -> list[str]:
        found = api.list(RESOURCE_SLICES, field_selector=selector).items
        return [item["metadata"]["name"] for item in found if item["metadata"]["name"].startswith(unique)]

    assert names(f"spec.nodeName={unique}-1-node") == [f"{unique}-1"]
    assert names(f"spec.driver={unique}-2.example") == [f"{unique}-2"]
    assert names(f"spec.driver!={unique}-2.example") == [f"{unique}-1"]
    assert names(f"spec.driver={unique}-1.example,spec.nodeName={unique}-2-node") == []
    assert names(f"metadata.name={unique}-2") == [f"{unique}-2"]


def test_field_selectors_of_pods(api: Api, namespace: str) -> None:
    api.create(PODS, pod("free", namespace))
    api.create(PODS, pod("bound", namespace, gates=(), nodeName="node-1"))

    def names(selector: str) -> list[str]:
        return [p["metadata"]["name"] for p in api.list(PODS, namespace=namespace, field_selector=selector).items]

    assert names("spec.nodeName=node-1") == ["bound"]
    assert names("spec.nodeName=") == ["free"]
    assert names("metadata.name=free,status.phase=Pending") == ["free"]


def test_a_field_that_is_not_selectable_is_refused(api: Api, namespace: str) -> None:
    with pytest.raises(Invalid) as error:
        api.list(RESOURCE_CLAIMS, namespace=namespace, field_selector="spec.nodeName=x")
    assert error.value.status == 400
    with pytest.raises(Invalid):
        api.list(PODS, namespace=namespace, label_selector="a in (b")


def test_a_watch_reports_every_change_after_the_version_in_order(api: Api, namespace: str) -> None:
    api.create(RESOURCE_CLAIMS, claim("before", namespace))
    version = api.list(RESOURCE_CLAIMS, namespace=namespace).resource_version
    api.create(RESOURCE_CLAIMS, claim("a", namespace))
    api.create(RESOURCE_CLAIMS, claim("b", namespace))
    changed = api.patch(RESOURCE_CLAIMS, "a", {"metadata": {"labels": {"x": "y"}}}, namespace=namespace)
    api.delete(RESOURCE_CLAIMS, "b", namespace)
    seen = events(api, RESOURCE_CLAIMS, version, 4, namespace=namespace)
    assert [(event.type, event.object["metadata"]["name"]) for event in seen] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    assert seen[2].object == changed
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert all(event.object["kind"] == "ResourceClaim" for event in seen)
    assert take(api, RESOURCE_CLAIMS, str(versions[1]), 2, namespace=namespace) == [("MODIFIED", "a"), ("DELETED", "b")]


def test_a_watch_with_a_selector_reports_when_objects_start_and_stop_matching(api: Api, namespace: str) -> None:
    version = api.list(LEASES, namespace=namespace).resource_version
    api.create(LEASES, {"metadata": {"name": "l"}}, namespace)
    for label in ("in", "in", "out", None):
        api.patch(
            LEASES, "l", {"metadata": {"labels": {"s": label}, "annotations": {"n": str(label)}}}, namespace=namespace
        )
        api.patch(LEASES, "l", {"metadata": {"annotations": {"again": f"{label}"}}}, namespace=namespace)
    seen = events(api, LEASES, version, 3, namespace=namespace, label_selector="s=in")
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[-1].object["metadata"]["labels"] == {"s": "in"}


def test_a_watch_by_node_sees_a_pod_when_it_is_bound(api: Api, namespace: str) -> None:
    version = api.list(PODS, namespace=namespace).resource_version
    api.create(PODS, pod("elsewhere", namespace, gates=(), nodeName="node-2"))
    api.create(PODS, pod("here", namespace, gates=(), nodeName="node-1"))
    assert take(api, PODS, version, 1, namespace=namespace, field_selector="spec.nodeName=node-1") == [
        ("ADDED", "here")
    ]


def test_a_watch_can_continue_from_a_bookmark(api: Api, namespace: str) -> None:
    created = api.create(LEASES, {"metadata": {"name": "l"}}, namespace)
    version = created["metadata"]["resourceVersion"]
    bookmark = eventually(lambda: next_bookmark(api, version), seconds=60)
    assert int(bookmark) >= int(version)
    api.delete(LEASES, "l", namespace)
    assert take(api, LEASES, bookmark, 1, namespace=namespace) == [("DELETED", "l")]


def next_bookmark(api: Api, version: str) -> str:
    """The version of the next bookmark, or "" if there is none. Servers usually send one before a watch ends."""
    for event in api.watch(LEASES, resource_version=version, timeout_seconds=12):
        if event.type == "BOOKMARK":
            return str(event.object["metadata"]["resourceVersion"])
    return ""


def test_a_watch_from_a_future_version_reports_nothing_older(api: Api, namespace: str) -> None:
    far = str(int(api.list(PODS).resource_version) + 1_000_000)
    api.create(PODS, pod("p", namespace))
    seen = list(api.watch(PODS, resource_version=far, namespace=namespace, timeout_seconds=1))
    assert [event for event in seen if event.type != "BOOKMARK"] == []


def test_two_reads_of_one_object_share_nothing(api: Api, namespace: str) -> None:
    api.create(RESOURCE_CLAIMS, claim("c", namespace))
    read = api.get(RESOURCE_CLAIMS, "c", namespace)
    read["spec"]["devices"]["requests"].clear()
    again = api.get(RESOURCE_CLAIMS, "c", namespace)
    assert again["spec"]["devices"]["requests"]


def test_a_watch_that_leaves_ended_pods_out_reports_a_pod_as_deleted_when_it_ends(api: Api, namespace: str) -> None:
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    version = api.list(PODS, namespace=namespace).resource_version
    for name, phase in (("a", "Succeeded"), ("b", "Failed")):
        api.create(PODS, pod(name, namespace, gates=(), nodeName="node-1"))
        ended = {"status": {"phase": phase}}
        api.patch(PODS, name, ended, namespace=namespace, subresource="status", patch_type="strategic")
    seen = events(api, PODS, version, 4, namespace=namespace, field_selector=selector)
    assert [(event.type, event.object["metadata"]["name"]) for event in seen] == [
        ("ADDED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
        ("DELETED", "b"),
    ]
    assert seen[1].object["metadata"]["resourceVersion"] == api.get(PODS, "a", namespace)["metadata"]["resourceVersion"]
    assert list(api.list(PODS, namespace=namespace, field_selector=selector).items) == []
