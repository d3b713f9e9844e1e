"""create, update and delete."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from driver.kube.api import (
    DEVICE_CLASSES,
    LEASES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    AlreadyExists,
    Api,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    Object,
)
from tests.contract.objects import claim, pod, resource_slice
from tests.contract.test_reading import take

FINALIZER = "lode.example/hold"


def held(name: str, namespace: str) -> Object:
    obj = claim(name, namespace)
    obj["metadata"]["finalizers"] = [FINALIZER]
    return obj


def test_a_new_object_gets_uid_time_and_version(api: Api, namespace: str) -> None:
    metadata = api.create(RESOURCE_CLAIMS, claim("c", namespace))["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert (metadata["name"], metadata["namespace"]) == ("c", namespace)


def test_names_are_unique(api: Api, namespace: str) -> None:
    api.create(RESOURCE_CLAIMS, claim("c", namespace))
    with pytest.raises(AlreadyExists) as error:
        api.create(RESOURCE_CLAIMS, claim("c", namespace))
    assert (error.value.status, error.value.reason) == (409, "AlreadyExists")


def test_a_generated_name_is_the_prefix_and_five_characters(api: Api, namespace: str) -> None:
    names = set()
    for prefix in ("short-", "x" * 100):
        for _ in range(3):
            obj = claim("", namespace)
            obj["metadata"] = {"generateName": prefix}
            created = api.create(RESOURCE_CLAIMS, obj, namespace)["metadata"]
            assert re.fullmatch(re.escape(prefix[:58]) + "[a-z0-9]{5}", created["name"])
            assert created["generateName"] == prefix
            names.add(created["name"])
    assert len(names) == 6


@pytest.mark.parametrize("name", ["", "Upper", "under_score", "-dash", "x" * 254])
def test_a_malformed_name_is_refused(api: Api, namespace: str, name: str) -> None:
    with pytest.raises(Invalid):
        api.create(RESOURCE_CLAIMS, claim(name, namespace), namespace)


def test_an_object_needs_an_existing_namespace(api: Api, namespace: str) -> None:
    with pytest.raises(NotFound, match="namespaces"):
        api.create(LEASES, {"metadata": {"name": "l"}}, f"{namespace}-absent")
    with pytest.raises(Invalid):
        api.create(LEASES, {"metadata": {"name": "l", "namespace": "default"}}, namespace)
    with pytest.raises(Invalid):
        api.create(LEASES, {"metadata": {"name": "l"}})


def test_an_unknown_field_is_refused(api: Api, namespace: str) -> None:
    wrong = claim("c", namespace)
    wrong["spec"]["devices"]["requests"][0]["exactly"]["colour"] = "red"
    with pytest.raises(Invalid, match="colour") as error:
        api.create(RESOURCE_CLAIMS, wrong)
    assert error.value.status == 400
    api.create(RESOURCE_CLAIMS, claim("c", namespace))
    with pytest.raises(Invalid, match="colour"):
        api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"colour": "red"}}, namespace=namespace)
    with pytest.raises(Invalid, match="colour"):
        api.patch(RESOURCE_CLAIMS, "c", {"status": {"colour": []}}, namespace=namespace, subresource="status")


@pytest.mark.parametrize(
    "wrong",
    [
        {"spec": {"devices": []}},
        {"spec": {"devices": {"requests": [{"name": 1}]}}},
        {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "x", "count": "1"}}]}}},
        {"metadata": {"name": "c", "labels": {"a": 1}}},
        {"kind": "Pod"},
        {"apiVersion": "v1"},
    ],
)
def test_a_value_of_the_wrong_type_is_refused(api: Api, namespace: str, wrong: Object) -> None:
    with pytest.raises(Invalid) as error:
        api.create(RESOURCE_CLAIMS, {**claim("c", namespace), **wrong}, namespace)
    assert error.value.status == 400


def test_every_write_of_any_kind_gets_a_higher_version(api: Api, namespace: str) -> None:
    versions = [
        int(api.create(RESOURCE_CLAIMS, claim("c", namespace))["metadata"]["resourceVersion"]),
        int(api.create(LEASES, {"metadata": {"name": "l"}}, namespace)["metadata"]["resourceVersion"]),
        int(
            api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}}, namespace=namespace)["metadata"][
                "resourceVersion"
            ]
        ),
    ]
    assert versions == sorted(set(versions))


def test_writing_unchanged_content_keeps_the_version(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    assert api.update(RESOURCE_CLAIMS, created)["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    patched = api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {}}}, namespace=namespace)
    assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


def test_of_two_writers_that_read_the_same_version_only_one_wins(api: Api, namespace: str) -> None:
    mine = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    theirs = {**mine, "metadata": {**mine["metadata"], "labels": {"who": "they"}}}
    mine = {**mine, "metadata": {**mine["metadata"], "labels": {"who": "me"}}}
    api.update(RESOURCE_CLAIMS, theirs)
    late: list[Callable[[], Object]] = [
        lambda: api.update(RESOURCE_CLAIMS, mine),
        lambda: api.patch(RESOURCE_CLAIMS, "c", {"metadata": mine["metadata"]}, namespace=namespace),
        lambda: api.update(RESOURCE_CLAIMS, {**mine, "status": {}}, "status"),
    ]
    for call in late:
        with pytest.raises(Conflict) as error:
            call()
        assert (error.value.status, error.value.reason) == (409, "Conflict")
    assert api.get(RESOURCE_CLAIMS, "c", namespace)["metadata"]["labels"] == {"who": "they"}


def test_a_write_without_a_version_is_unconditional_where_the_kind_allows_it(api: Api, namespace: str) -> None:
    api.create(RESOURCE_CLAIMS, claim("c", namespace))
    changed = claim("c", namespace)
    changed["metadata"]["labels"] = {"a": "b"}
    assert api.update(RESOURCE_CLAIMS, changed)["metadata"]["labels"] == {"a": "b"}
    api.create(LEASES, {"metadata": {"name": "l"}}, namespace)
    with pytest.raises(Invalid, match="resourceVersion"):
        api.update(LEASES, {"metadata": {"name": "l", "namespace": namespace, "labels": {"a": "b"}}})


def test_a_write_with_another_uid_is_refused(api: Api, namespace: str) -> None:
    old = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    api.create(RESOURCE_CLAIMS, claim("c", namespace))
    metadata = {name: old["metadata"][name] for name in ("uid", "resourceVersion")}
    for kind in ("merge", "strategic"):
        for subresource in ("", "status"):
            more: Any = {"namespace": namespace, "subresource": subresource, "patch_type": kind}
            with pytest.raises(Conflict):
                api.patch(RESOURCE_CLAIMS, "c", {"metadata": metadata}, **more)
            with pytest.raises(Invalid, match=r"metadata\.uid") as error:
                api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"uid": metadata["uid"]}}, **more)
            assert error.value.status == 422
    for written in (old, {**old, "metadata": {**claim("c", namespace)["metadata"], "uid": metadata["uid"]}}):
        with pytest.raises(Conflict):
            api.update(RESOURCE_CLAIMS, written)


def test_metadata_set_by_the_api_cannot_be_written(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, held("c", namespace))
    patch = {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "labels": {"a": "b"}}}
    kept = api.patch(RESOURCE_CLAIMS, "c", patch, namespace=namespace)["metadata"]
    assert (kept["labels"], kept["creationTimestamp"]) == ({"a": "b"}, created["metadata"]["creationTimestamp"])
    for wrong in ({"deletionTimestamp": "2020-01-01T00:00:00Z"}, {"name": "d"}, {"namespace": "default"}):
        with pytest.raises(Invalid):
            api.patch(RESOURCE_CLAIMS, "c", {"metadata": wrong}, namespace=namespace)
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    going = api.get(RESOURCE_CLAIMS, "c", namespace)["metadata"]
    kept = api.update(RESOURCE_CLAIMS, {**held("c", namespace)})["metadata"]
    assert kept["deletionTimestamp"] == going["deletionTimestamp"]


def test_generation_counts_changes_of_the_spec(api: Api, unique: str) -> None:
    created = api.create(RESOURCE_SLICES, resource_slice(unique))
    assert created["metadata"]["generation"] == 1
    labelled = api.patch(RESOURCE_SLICES, unique, {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    changed = api.patch(RESOURCE_SLICES, unique, {"spec": {"devices": [{"name": "gpu-1"}]}})
    assert changed["metadata"]["generation"] == 2
    api.create(DEVICE_CLASSES, {"metadata": {"name": unique}, "spec": {}})
    selector = {"cel": {"expression": "true"}}
    changed = api.patch(DEVICE_CLASSES, unique, {"spec": {"selectors": [selector]}})
    assert changed["metadata"]["generation"] == 2
    api.delete(DEVICE_CLASSES, unique)
    api.delete(RESOURCE_SLICES, unique)


def test_claims_have_no_generation(api: Api, namespace: str) -> None:
    assert "generation" not in api.create(RESOURCE_CLAIMS, held("c", namespace))["metadata"]
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    assert "generation" not in api.get(RESOURCE_CLAIMS, "c", namespace)["metadata"]


def test_a_deleted_object_is_gone(api: Api, namespace: str) -> None:
    version = api.create(RESOURCE_CLAIMS, claim("c", namespace))["metadata"]["resourceVersion"]
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    with pytest.raises(NotFound):
        api.get(RESOURCE_CLAIMS, "c", namespace)
    assert take(api, RESOURCE_CLAIMS, version, 1, namespace=namespace) == [("DELETED", "c")]


def test_a_finalizer_keeps_a_deleted_object_until_it_is_removed(api: Api, namespace: str) -> None:
    version = api.create(RESOURCE_CLAIMS, held("c", namespace))["metadata"]["resourceVersion"]
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    going = api.get(RESOURCE_CLAIMS, "c", namespace)
    assert going["metadata"]["deletionTimestamp"]
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    assert api.get(RESOURCE_CLAIMS, "c", namespace) == going
    answer = api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": None}}, namespace=namespace)
    assert answer["metadata"]["name"] == "c"
    with pytest.raises(NotFound):
        api.get(RESOURCE_CLAIMS, "c", namespace)
    assert take(api, RESOURCE_CLAIMS, version, 2, namespace=namespace) == [("MODIFIED", "c"), ("DELETED", "c")]


def test_a_terminating_object_gets_no_new_finalizer(api: Api, namespace: str) -> None:
    api.create(RESOURCE_CLAIMS, held("c", namespace))
    api.delete(RESOURCE_CLAIMS, "c", namespace)
    with pytest.raises(Invalid, match="finalizers"):
        api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": [FINALIZER, "a.example/b"]}}, namespace=namespace)
    api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": []}}, namespace=namespace)


def test_a_strategic_merge_adds_a_finalizer_and_keeps_others(api: Api, namespace: str) -> None:
    api.create(RESOURCE_CLAIMS, held("c", namespace))
    added = "resource.kubernetes.io/delete-protection"
    patch = {"metadata": {"finalizers": [added]}}
    answer = api.patch(RESOURCE_CLAIMS, "c", patch, namespace=namespace, patch_type="strategic")
    assert set(answer["metadata"]["finalizers"]) == {FINALIZER, added}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    answer = api.patch(RESOURCE_CLAIMS, "c", patch, namespace=namespace, patch_type="strategic")
    assert answer["metadata"]["finalizers"] == [added]


def test_a_delete_can_require_a_uid_or_version(api: Api, namespace: str) -> None:
    created = api.create(RESOURCE_CLAIMS, claim("c", namespace))
    metadata = created["metadata"]
    wrong: Any
    for wrong in ({"uid": "00000000-0000-4000-8000-000000000000"}, {"resource_version": "1"}):
        with pytest.raises(Conflict):
            api.delete(RESOURCE_CLAIMS, "c", namespace, **wrong)
    api.delete(RESOURCE_CLAIMS, "c", namespace, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    with pytest.raises(NotFound):
        api.get(RESOURCE_CLAIMS, "c", namespace)


def test_an_object_with_a_version_cannot_be_created(api: Api, namespace: str) -> None:
    obj = pod("p", namespace)
    obj["metadata"]["resourceVersion"] = "1"
    with pytest.raises(ApiError, match="resourceVersion"):
        api.create(PODS, obj)
