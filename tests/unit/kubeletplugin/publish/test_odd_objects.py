"""Whatever stands in a field of the Node or of a slice, the plugin goes on publishing."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Final

import pytest

from driver.kube.api import NODES, RESOURCE_SLICES, Object, Resource
from driver.kube.reflector import Upserted
from tests.unit.kubeletplugin.publish.publishing_node import NODE, PublishingNode
from tests.unit.odd_values import FEW, all_odd

KEPT: Final = {("metadata",), *(("metadata", name) for name in ("name", "uid", "resourceVersion"))}

SETTLED_SECONDS = 0.5


def odd_node(rig: PublishingNode) -> Object:
    labels = {"lode.dev/offer": "whole", "lode.dev/ib-cluster": "a", "lode.dev/ib-leaf": "b", "lode.dev/rail": "c"}
    rig.memory.patch(NODES, NODE, {"metadata": {"labels": labels}})
    status = {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}
    return {**rig.memory.get(NODES, NODE), "status": status}


def others_slice(_: PublishingNode) -> Object:
    devices = [{"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-0"}, "n": {"int": 1}}}]
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": NODE, "pool": pool, "devices": devices}
    return {"metadata": {"name": "other", "uid": "u", "resourceVersion": "7"}, "spec": spec}


def own_slice(rig: PublishingNode) -> Object:
    return deepcopy(next(part for part in rig.slices() if part["spec"].get("devices")))


CASES: Final[Mapping[str, tuple[Resource, Callable[[PublishingNode], Object]]]] = {
    "the Node": (NODES, odd_node),
    "a slice of another driver": (RESOURCE_SLICES, others_slice),
    "an own slice": (RESOURCE_SLICES, own_slice),
}


@pytest.mark.parametrize(("resource", "made"), CASES.values(), ids=CASES)
def test_with_an_odd_value_in_any_place_the_cards_stay_published(
    resource: Resource, made: Callable[[PublishingNode], Object]
) -> None:
    rig = PublishingNode("t4x2")
    rig.node()
    one = rig.start()
    one.run()
    obj = made(rig)
    for version, (what, odd) in enumerate(all_odd(obj, KEPT, FEW), 10**6):
        odd["metadata"]["resourceVersion"] = str(2 * version)
        one.publisher.handle(Upserted(resource, odd))
        one.run(SETTLED_SECONDS)
        assert {"gpu-0", "gpu-1"} <= set(rig.devices()), what
        assert one.publisher.published, what
        told = {fields["key"] for fields in rig.journal.fields("object cannot be decoded")}
        assert told <= {obj["metadata"]["name"]}, what
        assert one.sample("lode_plugin_unreadable_objects", resource=resource.plural) <= 1, what
        mended = deepcopy(obj)
        mended["metadata"]["resourceVersion"] = str(2 * version + 1)
        one.publisher.handle(Upserted(resource, mended))
        assert one.sample("lode_plugin_unreadable_objects", resource=resource.plural) == 0, what
    assert rig.journal.fields("object cannot be decoded")
