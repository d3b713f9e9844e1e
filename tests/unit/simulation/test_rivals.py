"""A write that another writer overtakes has to be refused, or it is found."""

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiError, Conflict, Object
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.simulation.faults import FaultyApi, NetworkFaults
from tests.simulation.rivals import Rivals

DEVICES: Object = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev"}}]}
OWNER: Object = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
OBJECTS: tuple[tuple[str, Object], ...] = (
    ("pod", {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    ("claim", {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": DEVICES}}),
    (
        "claim of a pod",
        {
            "metadata": {
                "name": "c",
                "namespace": "default",
                "ownerReferences": [OWNER],
                "finalizers": ["a.b/c"],
            },
            "spec": {"devices": DEVICES},
        },
    ),
    (
        "slice",
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "lode.dev",
                "nodeName": "n1",
                "pool": {"name": "n1/lode.dev", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            },
        },
    ),
)
RESOURCES = {"pod": PODS, "claim": RESOURCE_CLAIMS, "claim of a pod": RESOURCE_CLAIMS, "slice": RESOURCE_SLICES}
MARKED = {"metadata": {"annotations": {"example.com/written": "1"}}}


def contested(kind: str, obj: Object, seed: int) -> tuple[MemoryApi, Api, list[str], Object]:
    """The API, the same with a rival who is always faster, what is found, and the object."""
    found: list[str] = []
    memory = MemoryApi(VirtualClock())
    stored = memory.create(RESOURCES[kind], obj)
    rivals = Rivals(memory, random.Random(seed), found)
    return memory, FaultyApi(memory, random.Random(0), NetworkFaults(overtaken=1), rivals=rivals), found, stored


def _patch(api: Api, kind: str, stored: Object, precondition: Object) -> None:
    metadata = stored["metadata"]
    patch = {"metadata": {**MARKED["metadata"], **precondition}}
    api.patch(RESOURCES[kind], metadata["name"], patch, namespace=metadata.get("namespace", ""))


def precondition(kind: str, stored: Object) -> Object:
    """What a write of this kind needs: pods are written in whatever version."""
    version = {} if kind == "pod" else {"resourceVersion": stored["metadata"]["resourceVersion"]}
    return {"uid": stored["metadata"]["uid"], **version}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "obj"), OBJECTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_write_with_a_precondition_is_refused(kind: str, obj: Object, seed: int) -> None:
    _, api, found, stored = contested(kind, obj, seed)
    with pytest.raises(ApiError):
        _patch(api, kind, stored, precondition(kind, stored))
    assert found == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "obj"), OBJECTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_write_without_a_precondition_is_found(kind: str, obj: Object, seed: int) -> None:
    memory, api, found, stored = contested(kind, obj, seed)
    with suppress(ApiError):
        _patch(api, kind, stored, {})
    still_there = memory.list(RESOURCES[kind]).items
    assert len(found) == len(still_there)
    assert all("took effect, though another writer was faster" in one for one in found)


def test_an_eviction_of_another_pod_of_this_name_is_refused_and_one_by_name_is_found() -> None:
    _, api, found, stored = contested(*OBJECTS[0], seed=0)
    with pytest.raises(Conflict):
        api.evict("p", "default", uid=stored["metadata"]["uid"])
    assert found == []
    api.evict("p", "default")
    assert found == ["evict pods default/p took effect, though another writer was faster"]


def _delete_by_name(api: Api) -> None:
    api.delete(RESOURCE_SLICES, "s")


def _delete_by_uid(api: Api) -> None:
    api.delete(RESOURCE_SLICES, "s", uid=api.get(RESOURCE_SLICES, "s")["metadata"]["uid"])


@pytest.mark.parametrize("delete", [_delete_by_name, _delete_by_uid])
def test_a_slice_that_is_deleted_in_whatever_version_is_found(delete: Callable[[Api], None]) -> None:
    _, api, found, _ = contested(*OBJECTS[-1], seed=0)
    delete(api)
    assert found == ["delete resourceslices /s took effect, though another writer was faster"]


def test_a_claim_keeps_its_controller_among_its_owners() -> None:
    memory, api, _, stored = contested(*OBJECTS[2], seed=0)
    with pytest.raises(ApiError):
        _patch(api, "claim of a pod", stored, precondition("claim of a pod", stored))
    owners = memory.get(RESOURCE_CLAIMS, "c", "default")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners if owner.get("controller")] == ["p"]
    assert owners[0]["name"] == "somebody"
