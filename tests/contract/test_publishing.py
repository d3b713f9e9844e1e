"""The API server stores the slices of every shipped profile without changes."""

from collections.abc import Callable

import pytest

from driver.clock import SystemClock
from driver.kube.api import NODES, RESOURCE_SLICES, Api, Object
from driver.observe import Metrics, logger
from driver.settings import Settings
from kubeletplugin.hardware import HardwarePorts
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile, shipped_profiles
from kubeletplugin.node_context import NodeContext
from kubeletplugin.publish import Publisher, PublishingMetrics
from tests.contract.conftest import eventually
from tests.simulation.files import MemoryFiles

_DEFAULTS = Settings()


class Plugin:
    """The publisher of a plugin on one node, with its metrics."""

    def __init__(self, api: Api, node: str, profile: str, settings: Settings = _DEFAULTS):
        self.files = MemoryFiles()
        self.metrics = Metrics()
        cards = SimulatedHardware(load_profile(profile, self.files), node, self.files, "/faults")
        context = NodeContext(
            name=node,
            settings=settings,
            boot_id="boot",
            api=api,
            clock=SystemClock(),
            files=self.files,
            hardware=HardwarePorts(cards, cards),
            log=logger("publisher"),
        )
        self.publisher = Publisher(context, PublishingMetrics(self.metrics))
        for reflector in self.publisher.reflectors:
            reflector.step()

    def publish(self) -> bool:
        self.publisher.step()
        return self.publisher.published

    def total(self, metric: str) -> float:
        samples = [s for family in self.metrics.registry.collect() for s in family.samples if s.name == metric]
        return sum(sample.value for sample in samples)


@pytest.fixture
def slices(api: Api, unique: str) -> Callable[[], list[Object]]:
    return lambda: list(api.list(RESOURCE_SLICES, field_selector=f"spec.nodeName={unique},spec.driver=lode.dev").items)


@pytest.mark.parametrize("settings", [_DEFAULTS, Settings(nvidia_dra_names=True)], ids=["ours", "of NVIDIA, too"])
@pytest.mark.parametrize("profile", ["", *shipped_profiles()])
def test_every_profile_is_stored_completely_with_the_first_write(
    api: Api, unique: str, slices: Callable[[], list[Object]], profile: str, settings: Settings
) -> None:
    api.create(NODES, {"metadata": {"name": unique, "labels": {"lode.dev/ib-cluster": "fabric-1"}}})
    first = Plugin(api, unique, profile, settings)
    eventually(first.publish)
    stored = slices()
    assert first.total("lode_slice_dropped_fields_total") == 0
    assert first.total("lode_slice_writes_total") == len(stored)
    second = Plugin(api, unique, profile, settings)
    eventually(second.publish)
    assert second.total("lode_slice_writes_total") == 0
    assert slices() == stored


def test_slices_are_updated_and_recreated(api: Api, unique: str, slices: Callable[[], list[Object]]) -> None:
    api.create(NODES, {"metadata": {"name": unique}})
    eventually(Plugin(api, unique, "a100x4").publish)
    sick = Plugin(api, unique, "a100x4")
    sick.files.write("/faults/gpu-1", b"Xid 79")
    eventually(sick.publish)
    tainted = {d["name"] for s in slices() for d in s["spec"].get("devices", ()) if d.get("taints")}
    assert len(tainted) == 20
    assert sick.total("lode_slice_dropped_fields_total") == 0
    for item in slices():
        api.delete(RESOURCE_SLICES, item["metadata"]["name"])
    eventually(Plugin(api, unique, "t4x2").publish)
    assert {d["name"] for s in slices() for d in s["spec"].get("devices", ())} == {
        "gpu-0",
        "gpu-0-share",
        "gpu-1",
        "gpu-1-share",
    }
    eventually(Plugin(api, unique, "h100x8").publish)
    assert {s["spec"]["pool"]["generation"] for s in slices()} == {2}
    eventually(Plugin(api, unique, "").publish)
    (empty,) = slices()
    assert empty["spec"]["pool"]["resourceSliceCount"] == 1
