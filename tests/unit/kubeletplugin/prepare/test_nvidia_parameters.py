"""Parameters that were written for NVIDIA's DRA driver have their effect on the cards of the node."""

from typing import Any

import pytest

from driver.settings import Settings
from tests.unit.kubeletplugin.plugin_node import PluginNode, prepare, refused, release, result, unprepare

ON = Settings(nvidia_dra_names=True)


def config(*requests: str, **sharing: Any) -> dict[str, Any]:
    content = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
    parameters = {"driver": "gpu.nvidia.com", "parameters": content}
    return {"source": "FromClaim", "requests": list(requests), "opaque": parameters}


LONG = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}


@pytest.mark.parametrize(("sharing", "key"), [(LONG, "timeslice:gpu-1"), ({"strategy": "MPS"}, "mps:gpu-1")])
def test_they_are_carried_out_and_undone_whatever_the_setting_is_by_then(
    rig: PluginNode, sharing: dict[str, Any], key: str
) -> None:
    rig.settings = ON
    ref = rig.claim("c", [result("gpu-1")], [config("gpu", **sharing)])
    prepare(rig.plugin(), ref)
    assert rig.existing() == [key]
    rig.settings = Settings()
    plugin = rig.plugin()
    unprepare(plugin, ref)
    release(rig, plugin)
    assert rig.existing() == []


def test_the_time_slice_is_the_one_that_is_asked_for(rig: PluginNode) -> None:
    rig.settings = ON
    plugin = rig.plugin()
    prepare(plugin, rig.claim("c", [result("gpu-1")], [config(**LONG)]))
    (action,) = [made for made, _ in rig.store.load().existing.values()]
    assert getattr(action, "interval", None) == "long"


def test_what_cannot_be_kept_is_the_fault_of_the_claim(rig: PluginNode) -> None:
    rig.settings = ON
    limited = config(strategy="MPS", mpsConfig={"defaultActiveThreadPercentage": 50})
    answer = refused(rig.plugin(), rig.claim("c", [result("gpu-1")], [limited]))
    assert answer.reason == "invalid"
    field = "status.allocation.devices.config[0].opaque.parameters.sharing.mpsConfig.defaultActiveThreadPercentage"
    assert f"{field}: cannot be kept: 50" in answer.message
    assert rig.existing() == []


def test_without_the_setting_they_are_those_of_another_driver(rig: PluginNode) -> None:
    prepare(rig.plugin(), rig.claim("c", [result("gpu-1")], [config(strategy="no sense")]))
    assert rig.existing() == []
