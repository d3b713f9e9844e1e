"""Only exactly the slices that were decided about are deleted."""

import pytest

from driver.kube.api import RESOURCE_SLICES, Conflict, Object
from driver.observe import Metrics, logger
from kubeletplugin.publish.dropped import DroppedFields
from kubeletplugin.publish.metrics import PublishingMetrics
from kubeletplugin.publish.poolview import PoolView
from kubeletplugin.publish.reports import ErrorReports
from kubeletplugin.publish.slices import Delete
from kubeletplugin.publish.writer import SliceWriter
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock

NODE = "n1"


def slice_of(count: int) -> Object:
    pool = {"name": f"{NODE}/lode.dev", "generation": 1, "resourceSliceCount": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "lode.dev", "nodeName": NODE, "pool": pool, "devices": [{"name": "gpu-0"}]},
    }


def made() -> tuple[MemoryApi, PoolView, SliceWriter]:
    api, view, log = MemoryApi(VirtualClock()), PoolView(NODE, "lode.dev"), logger("test")
    writer = SliceWriter(api, view, DroppedFields(), PublishingMetrics(Metrics()), ErrorReports(log), log=log)
    return api, view, writer


def delete(obj: Object) -> Delete:
    metadata = obj["metadata"]
    return Delete(metadata["name"], metadata["uid"], metadata["resourceVersion"])


def test_a_slice_that_changed_meanwhile_stays_and_is_read_again() -> None:
    api, view, writer = made()
    seen = api.create(RESOURCE_SLICES, slice_of(1))
    api.update(RESOURCE_SLICES, {**seen, "spec": slice_of(2)["spec"]})
    with pytest.raises(Conflict):
        writer.carry_out([delete(seen)])
    assert [item["spec"]["pool"]["resourceSliceCount"] for item in api.list(RESOURCE_SLICES).items] == [2]
    assert view.generation() == 1


def test_a_namesake_of_a_slice_stays() -> None:
    api, _, writer = made()
    seen = api.create(RESOURCE_SLICES, slice_of(1))
    api.delete(RESOURCE_SLICES, "s")
    api.create(RESOURCE_SLICES, slice_of(1))
    with pytest.raises(Conflict):
        writer.carry_out([delete(seen)])
    assert len(api.list(RESOURCE_SLICES).items) == 1


def test_a_slice_that_is_gone_already_is_deleted() -> None:
    api, _, writer = made()
    seen = api.create(RESOURCE_SLICES, slice_of(1))
    api.delete(RESOURCE_SLICES, "s")
    assert writer.carry_out([delete(seen)])
