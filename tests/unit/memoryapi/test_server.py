"""Properties of the API in memory alone; tests/contract has those that it shares with a real server."""

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.clock import SystemClock
from driver.kube.api import (
    DEVICE_TAINT_RULES,
    LEASES,
    PODS,
    RESOURCE_CLAIMS,
    VOLCANO_POD_GROUPS,
    Api,
    ApiCall,
    ApiError,
    Gone,
    Invalid,
    NotFound,
    Object,
)
from driver.kube.decorator import ApiDecorator
from driver.kube.reflector import Delta, Reflector, Removed, Synced, Upserted
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock


def lease(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}}


class Mirror:
    """A sink that keeps the objects that it receives."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}

    def __call__(self, delta: Delta) -> None:
        match delta:
            case Synced(_, keys):
                self.objects = {name: obj for name, obj in self.objects.items() if f"default/{name}" in keys}
            case Upserted(_, obj):
                self.objects[obj["metadata"]["name"]] = obj
            case Removed(_, obj):
                self.objects.pop(obj["metadata"]["name"], None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "label", "delete", "finalize", "look", "compact"]),
        st.sampled_from("abc"),
        st.sampled_from("xy"),
    ),
    max_size=30,
)


def take_step(api: MemoryApi, what: str, name: str, label: str) -> None:
    match what:
        case "create":
            api.create(LEASES, lease(name, l=label))
        case "label":
            api.patch(LEASES, name, {"metadata": {"labels": {"l": label}}}, namespace="default")
        case "finalize":
            held = ["lode.example/hold"] if label == "x" else None
            api.patch(LEASES, name, {"metadata": {"finalizers": held}}, namespace="default")
        case "delete":
            api.delete(LEASES, name, "default")
        case "compact":
            api.compact()


class Labelled(ApiDecorator):
    """The API, which shows only objects with these labels."""

    def __init__(self, api: Api, selector: str):
        super().__init__(api)
        self._selector = selector

    def call(self, call: ApiCall) -> Any:
        return super().call(call._replace(label_selector=self._selector))


@given(STEPS, st.sampled_from(["", "l=x"]))
@settings(max_examples=60, deadline=None)
def test_a_reflector_ends_with_the_objects_of_a_list(steps: list[tuple[str, str, str]], selector: str) -> None:
    api = MemoryApi(VirtualClock(), history=3)
    mirror = Mirror()
    reflector = Reflector(Labelled(api, selector), LEASES, mirror)
    for what, name, label in steps:
        if what == "look":
            reflector.step()
            continue
        try:
            take_step(api, what, name, label)
        except ApiError:
            continue
    for _ in range(3):
        reflector.step()
    expected = api.list(LEASES, label_selector=selector).items
    assert list(dict(sorted(mirror.objects.items())).values()) == expected


def test_the_same_calls_with_the_same_seed_give_the_same_objects() -> None:
    def run(seed: int) -> list[Object]:
        api = MemoryApi(VirtualClock(), seed=seed)
        for _ in range(3):
            api.create(LEASES, {"metadata": {"generateName": "l-", "namespace": "default"}})
        return list(api.list(LEASES).items)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_history_that_is_too_old_is_gone() -> None:
    api = MemoryApi(VirtualClock(), history=5)
    versions = [api.create(LEASES, lease(f"l{i}"))["metadata"]["resourceVersion"] for i in range(30)]
    with pytest.raises(Gone):
        api.watch(LEASES, resource_version=versions[0])
    *seen, bookmark = api.watch(LEASES, resource_version=versions[-6])
    assert [event.object["metadata"]["name"] for event in seen] == [f"l{i}" for i in range(25, 30)]
    assert bookmark.object["metadata"]["resourceVersion"] == api.resource_version
    assert len(list(api.watch(PODS, resource_version=versions[0]))) == 1


def test_a_kind_can_be_unserved() -> None:
    api = MemoryApi(VirtualClock(), unserved=[DEVICE_TAINT_RULES])
    mirror = Mirror()
    reflector = Reflector(api, DEVICE_TAINT_RULES, mirror, optional=True)
    reflector.step()
    assert reflector.synced
    with pytest.raises(NotFound):
        api.list(DEVICE_TAINT_RULES)


def test_values_that_are_not_json_are_refused_and_tuples_are_converted() -> None:
    api = MemoryApi(VirtualClock())

    def claim(parameters: Any) -> Object:
        config = [{"opaque": {"driver": "a.b", "parameters": parameters}}]
        return {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"config": config}}}

    with pytest.raises(TypeError):
        api.create(RESOURCE_CLAIMS, claim({"a": object()}))
    created = api.create(RESOURCE_CLAIMS, claim({"a": (1, 2)}))
    assert created["spec"]["devices"]["config"][0]["opaque"]["parameters"] == {"a": [1, 2]}


def test_all_faults_of_an_object_are_reported_at_once() -> None:
    api = MemoryApi(VirtualClock())
    with pytest.raises(Invalid) as error:
        api.create(PODS, {"metadata": {"name": "P", "namespace": "default"}, "spec": {"containers": [{}]}})
    for field in ("metadata.name", "containers[0].name", "containers[0].image"):
        assert field in str(error.value)


def test_a_blocking_watch_delivers_a_change_as_it_happens_and_ends_in_time() -> None:
    api: Api = MemoryApi(SystemClock(), blocking=True)
    version = api.list(LEASES).resource_version
    received: list[str] = []
    ready = threading.Event()

    def listen() -> None:
        ready.set()
        watch = api.watch(LEASES, resource_version=version, timeout_seconds=1)
        received.extend(f"{event.type} {event.object['metadata'].get('name')}" for event in watch)

    thread = threading.Thread(target=listen)
    thread.start()
    ready.wait()
    for i in range(3):
        api.create(LEASES, lease(f"l{i}"))
    thread.join(10)
    assert received == ["ADDED l0", "ADDED l1", "ADDED l2", "BOOKMARK None"]


def test_writers_in_many_threads_lose_nothing() -> None:
    api = MemoryApi(SystemClock())
    api.create(LEASES, lease("counter", n="0"))

    def count() -> None:
        done = 0
        while done < 25:
            read = api.get(LEASES, "counter", "default")
            read["metadata"]["labels"]["n"] = str(int(read["metadata"]["labels"]["n"]) + 1)
            try:
                api.update(LEASES, read)
            except ApiError:
                continue
            done += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert api.get(LEASES, "counter", "default")["metadata"]["labels"]["n"] == "100"


def test_a_reader_that_shares_objects_gets_the_stored_ones_and_one_that_changes_them_is_named() -> None:
    api = MemoryApi(SystemClock())
    api.create(LEASES, lease("a", n="0"))
    shared = api.sharing()
    (listed,) = shared.list(LEASES).items
    assert shared.get(LEASES, "a", "default") is listed
    assert api.get(LEASES, "a", "default") is not listed
    api.check_unchanged()
    listed["metadata"]["labels"]["n"] = "1"
    with pytest.raises(AssertionError, match="Lease default/a was changed by a reader"):
        api.check_unchanged()


def test_a_custom_resource_is_served_as_it_was_written() -> None:
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 3, "subGroupPolicy": [{"a": 1}]}}
    with pytest.raises(NotFound):
        MemoryApi(VirtualClock()).create(VOLCANO_POD_GROUPS, group)
    api = MemoryApi(VirtualClock(), custom=[VOLCANO_POD_GROUPS])
    created = api.create(VOLCANO_POD_GROUPS, group)
    assert (created["apiVersion"], created["spec"]) == ("scheduling.volcano.sh/v1beta1", group["spec"])
    api.patch(VOLCANO_POD_GROUPS, "g", {"spec": {"minMember": 4}}, namespace="default")
    (listed,) = api.list(VOLCANO_POD_GROUPS).items
    assert (listed["spec"]["minMember"], listed["metadata"]["generation"]) == (4, 2)
    with pytest.raises(Invalid):
        api.create(VOLCANO_POD_GROUPS, {"metadata": {"name": "h", "namespace": "default"}, "other": 1})


@pytest.mark.parametrize("bump", [0, 1000])
def test_a_backup_that_is_restored_has_the_objects_of_then_in_their_versions(bump: int) -> None:
    api = MemoryApi(VirtualClock())
    kept = api.create(LEASES, lease("kept"))
    deleted = api.create(LEASES, lease("deleted"))
    backup = api.backup()
    api.patch(LEASES, "kept", {"metadata": {"labels": {"later": "yes"}}}, namespace="default")
    api.delete(LEASES, "deleted", "default")
    api.create(LEASES, lease("lost"))
    api.restore(backup, bump)
    page = api.list(LEASES)
    assert [*page.items] == [deleted, kept]
    assert int(page.resource_version) == int(deleted["metadata"]["resourceVersion"]) + bump
    assert int(api.create(LEASES, lease("next"))["metadata"]["resourceVersion"]) == int(page.resource_version) + 1


def test_watches_end_when_versions_are_bumped_and_else_go_on_in_another_past() -> None:
    api = MemoryApi(VirtualClock())
    before = api.resource_version
    created = api.create(LEASES, lease("a"))
    backup = api.backup()
    later = api.create(LEASES, lease("b"))["metadata"]["resourceVersion"]
    api.restore(backup)
    first, _bookmark = api.watch(LEASES, resource_version=before)
    assert first.object == created
    assert list(api.watch(LEASES, resource_version=later)) == [], "what it waits for is still to come"
    again = api.create(LEASES, lease("c"))
    assert again["metadata"]["resourceVersion"] == later
    assert [event.type for event in api.watch(LEASES, resource_version=later)] == ["BOOKMARK"], "it has missed that"
    api.restore(backup, 1000)
    with pytest.raises(Gone):
        api.watch(LEASES, resource_version=later)


def removed_claim(api: MemoryApi) -> Object:
    """The last state of a claim that was marked for deletion, and removed when its finalizer was taken."""
    claim: Object = {"metadata": {"name": "c", "namespace": "default", "finalizers": ["example.com/f"]}, "spec": {}}
    api.create(RESOURCE_CLAIMS, claim)
    api.delete(RESOURCE_CLAIMS, "c", "default")
    last = api.get(RESOURCE_CLAIMS, "c", "default")
    api.patch(RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": None}}, namespace="default")
    return last


def test_a_write_that_meets_a_removal_is_answered_without_a_version() -> None:
    """As by Kubernetes 1.38."""
    api = MemoryApi(VirtualClock())
    api.meets_removal = lambda call: True
    last = removed_claim(api)
    unversioned = {name: value for name, value in last["metadata"].items() if name != "resourceVersion"}
    patched = ApiCall("patch", RESOURCE_CLAIMS, "default", "c", body={"metadata": {"labels": {"a": "b"}}})
    for call in (patched, ApiCall("update", RESOURCE_CLAIMS, "default", "c", body=last)):
        assert api.call(call)["metadata"] == unversioned
    with pytest.raises(NotFound):
        api.update(RESOURCE_CLAIMS, last)


def test_a_write_of_another_version_or_object_meets_no_removal() -> None:
    api = MemoryApi(VirtualClock())
    api.meets_removal = lambda call: True
    removed_claim(api)
    for metadata in ({"uid": "other"}, {"resourceVersion": "1"}):
        with pytest.raises(NotFound, match='"c" not found'):
            api.patch(RESOURCE_CLAIMS, "c", {"metadata": metadata}, namespace="default")
