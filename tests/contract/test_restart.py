"""The client, when kube-apiserver is killed and restarted."""

import pytest

from driver.kube.api import NAMESPACES, RESOURCE_SLICES, Api, Gone, Unavailable
from memoryapi import MemoryApi
from testclusters.controlplane import ControlPlane
from tests.contract.conftest import eventually
from tests.contract.objects import resource_slice
from tests.simulation.clock import VirtualClock


def test_a_stopped_server_is_unavailable_and_old_versions_are_gone_after_its_restart(
    control_plane: ControlPlane, admin: Api, unique: str
) -> None:
    old = admin.create(RESOURCE_SLICES, resource_slice(unique))["metadata"]["resourceVersion"]
    admin.patch(RESOURCE_SLICES, unique, {"metadata": {"labels": {"a": "b"}}})
    watch = admin.watch(NAMESPACES, resource_version=admin.list(NAMESPACES).resource_version, timeout_seconds=60)
    admin.patch(NAMESPACES, "default", {"metadata": {"labels": {"seen": unique}}})
    assert next(watch).object["metadata"]["labels"]["seen"] == unique
    control_plane.kill_component("kube-apiserver")
    with pytest.raises(Unavailable):
        list(watch)
    with pytest.raises(Unavailable):
        admin.list(NAMESPACES)
    control_plane.start_component("kube-apiserver")
    assert eventually(lambda: admin.get(RESOURCE_SLICES, unique))["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(Gone) as error:
        list(admin.watch(RESOURCE_SLICES, resource_version=old, timeout_seconds=5))
    assert error.value.status == 410


def test_compaction_of_the_api_in_memory_has_the_same_effect() -> None:
    api = MemoryApi(VirtualClock())
    old = api.create(RESOURCE_SLICES, resource_slice("a"))["metadata"]["resourceVersion"]
    api.create(RESOURCE_SLICES, resource_slice("b"))
    page = api.list(RESOURCE_SLICES, limit=1)
    api.compact()
    with pytest.raises(Gone) as error:
        list(api.watch(RESOURCE_SLICES, resource_version=old))
    assert error.value.status == 410
    with pytest.raises(Gone):
        api.list(RESOURCE_SLICES, limit=1, continue_token=page.continue_token)
    assert [event.type for event in api.watch(RESOURCE_SLICES, resource_version=page.resource_version)] == ["BOOKMARK"]
