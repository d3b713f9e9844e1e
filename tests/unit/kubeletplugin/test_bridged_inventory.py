"""Devices of device plugins are published as other devices are, with what their resource and the settings say."""

import pytest

from driver.deviceplugins import ResourceSettings
from driver.kinds import EVERY_OFFER
from driver.limits import MAX_DEVICES
from driver.model import Device
from driver.names import PCI_BUS_ID, Names
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, card_of, device_name
from kubeletplugin.hardware.deviceplugin.reported import Replicas, Reported, card_reports
from kubeletplugin.hardware.place import Place
from kubeletplugin.inventory import NO_RESTRICTIONS, Fabric, build_inventory, find_device
from kubeletplugin.publish.slices import build_slices
from kubeletplugin.publish.validation import faults

NAMES = Names("lode.dev")
GPU = "amd.com/gpu"
SETTINGS = ResourceSettings.model_validate(
    {
        "attributes": {"model": {"value": "MI300X"}, "note": {"value": "x" * 80}},
        "capacity": {"memory": {"value": "64Gi"}, "lanes": {"value": "16"}},
    }
)


def cards(*ids: str, replicas: Replicas = "auto", settings: ResourceSettings = SETTINGS) -> list[Card]:
    node = LabelledNode({}, lambda _: Place(("pci0000:15",), 1))
    return [card_of(GPU, report, settings, node) for report in card_reports(map(Reported, ids), replicas)]


def devices(*ids: str, replicas: Replicas = "auto", settings: ResourceSettings = SETTINGS) -> tuple[Device, ...]:
    found = cards(*ids, replicas=replicas, settings=settings)
    return build_inventory(found, Fabric(), EVERY_OFFER, 100, NAMES, NO_RESTRICTIONS).devices


def test_a_device_has_the_common_attributes_and_those_of_its_resource() -> None:
    (device,) = devices("0000:18:00.0")
    said = {name.removeprefix("lode.dev/"): value for name, value in device.attributes.items()}
    assert device.name == device_name(GPU, "0000:18:00.0")
    assert (said["kind"], said["vendor"], said["type"]) == ("device", "amd", "gpu")
    assert (said["resource"], said["deviceID"]) == (GPU, "0000:18:00.0")
    assert (said["uuid"], said["index"], said["numaNode"]) == (f"{GPU}/0000:18:00.0", -1, 1)
    assert said["model"] == "MI300X"
    assert said[PCI_BUS_ID] == "0000:18:00.0"
    assert {name: str(each.value) for name, each in device.capacity.items()} == {
        "memory": "64Gi",
        "cores": "100",
        "lanes": "16",
    }
    assert not device.allow_multiple


def test_replicas_are_slots_of_one_share() -> None:
    (device,) = devices("a::0", "a::1", "a::2", "a::3")
    assert device.name == f"{device_name(GPU, 'a')}-share"
    assert device.allow_multiple
    assert str(device.capacity["slots"].value) == "4"
    memory = device.capacity["memory"].policy
    assert memory
    assert str(memory.default) == "16Gi", "so that as many tenants fit as there are replicas"


@pytest.mark.parametrize("settings", [SETTINGS, ResourceSettings()])
@pytest.mark.parametrize("replicas", ["auto", "none", "equal"])
def test_thousands_of_ids_break_no_limit_of_the_api(settings: ResourceSettings, replicas: Replicas) -> None:
    ids = [f"GPU-{card}::{number}" for card in range(50) for number in range(40)]
    found = devices(*ids, replicas=replicas, settings=settings)
    slices = build_slices(found, (), "node", NAMES)
    assert faults(slices) == ()
    assert len(slices) == -(-len(found) // MAX_DEVICES)
    assert len(found) == {"auto": 50, "none": 2000, "equal": 1}[replicas]


def test_a_device_is_offered_in_its_one_way_whatever_is_set_for_cards() -> None:
    own = cards("a", "b::0")
    for offer in ([kind] for kind in EVERY_OFFER):
        contents = build_inventory(own, Fabric(), offer, 100, NAMES, NO_RESTRICTIONS)
        assert [item.kind for item in contents.offered] == ["device", "device-share"]
        assert contents.counter_sets == ()
        for device in contents.devices:
            found = find_device(device.name, own, Fabric(), 100, NAMES)
            assert found
            assert found.device == device
