"""Devices of NVIDIA's cards also have the attributes of NVIDIA's DRA driver, if they are wanted, within the limits."""

from dataclasses import replace
from typing import Any

import pytest

from driver.kinds import EVERY_OFFER, Offer
from driver.limits import MAX_ATTRIBUTES_AND_CAPACITIES
from driver.model import AttributeValue, Device, Version
from driver.names import Names
from driver.quantity import Quantity
from kubeletplugin.hardware import Card
from kubeletplugin.hardware.partitions import MULTIPROCESSORS
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile, shipped_profiles
from kubeletplugin.inventory import Fabric, Inventory, build_inventory, find_device
from kubeletplugin.nvidia_names import attributes_of
from kubeletplugin.publish.slices import build_slices
from kubeletplugin.publish.validation import faults
from tests.simulation.files import MemoryFiles

ON = Names("lode.dev", nvidia_dra=True)
FABRIC = Fabric("ib-1", "leaf-3", "rail-9", "containerd://2.1.4")
DOMAIN = "gpu.nvidia.com/"
WHOLE: tuple[Offer, ...] = ("whole",)
PARTITIONS: tuple[Offer, ...] = ("partitions",)


def cards(profile: str) -> tuple[Card, ...]:
    return SimulatedHardware(load_profile(profile, MemoryFiles()), "node-a").cards()


def inventory(profile: str, names: Names = ON) -> Inventory:
    return build_inventory(cards(profile), FABRIC, EVERY_OFFER, 100, names)


def theirs(device: Device) -> dict[str, AttributeValue]:
    return {name[len(DOMAIN) :]: value for name, value in device.attributes.items() if name.startswith(DOMAIN)}


def their_capacity(device: Device) -> dict[str, str]:
    return {name[len(DOMAIN) :]: str(it.value) for name, it in device.capacity.items() if name.startswith(DOMAIN)}


def device(name: str, profile: str = "a100x4") -> Device:
    return next(it for it in inventory(profile).devices if it.name == name)


COMMON: dict[str, Any] = {
    "productName": "NVIDIA A100-SXM4-40GB",
    "architecture": "Ampere",
    "cudaComputeCapability": Version("8.0.0"),
    "driverVersion": Version("580.65.6"),
    "cudaDriverVersion": Version("0.0.0"),
}


def test_a_whole_card() -> None:
    found = device("gpu-2")
    uuid = found.attributes["lode.dev/uuid"]
    own = {"type": "gpu", "uuid": uuid, "brand": "Nvidia", "index": 2, "minor": 2}
    assert theirs(found) == COMMON | own
    assert their_capacity(found) == {"memory": "40Gi"}


def test_a_mig_partition() -> None:
    found = device("gpu-2-mig-3g-20gb-4")
    own = {"type": "mig", "profile": "3g.20gb", "parentUUID": found.attributes["lode.dev/uuid"]}
    assert theirs(found) == COMMON | own
    assert their_capacity(found) == {"memory": "20Gi", "multiprocessors": "42"}


def test_a_share_is_described_as_the_card_that_it_is_a_part_of() -> None:
    found = device("gpu-2-share")
    own = {"type": "gpu", "uuid": found.attributes["lode.dev/uuid"], "brand": "Nvidia", "index": 2}
    assert theirs(found) == COMMON | own
    assert their_capacity(found) == {"memory": "40Gi"}


def test_memory_by_that_drivers_name_is_there_for_selectors_and_is_not_consumed_by_a_share() -> None:
    policy = device("gpu-2-share").capacity[f"{DOMAIN}memory"].policy
    assert policy
    assert policy.default == Quantity.whole(0)


def test_npus_have_none_because_that_driver_has_no_such_devices() -> None:
    kinds = {item.kind for name in shipped_profiles() for item in inventory(name).offered if theirs(item.device)}
    assert kinds == {"gpu", "gpu-share", "mig"}


@pytest.mark.parametrize("profile", shipped_profiles())
def test_nothing_is_left_out_and_no_limit_of_the_api_is_broken(profile: str) -> None:
    found = inventory(profile)
    assert not faults(build_slices(found.devices, found.counter_sets, "node-a", ON))
    for item in found.offered:
        assert len(theirs(item.device)) == len(attributes_of(item.card, item.kind, item.partition))
        assert ("lode.dev/containerRuntime" in item.device.attributes) == (
            not theirs(item.device) and not item.card.bridged
        )
        known = find_device(item.device.name, cards(profile), FABRIC, 100, ON)
        assert known == item, "as it is prepared"


def test_the_fullest_devices_reach_the_limit_and_do_not_exceed_it() -> None:
    sizes = {len(it.device.attributes) + len(it.device.capacity) for it in inventory("a100x4").offered}
    assert max(sizes) == MAX_ATTRIBUTES_AND_CAPACITIES


def test_attributes_that_exceed_the_limit_are_left_out_the_least_used_first() -> None:
    card = cards("a100x4")[0]
    assert card.scheme
    part = card.scheme.partitions[0]
    large = replace(part, sizes={f"engine{number}": 1 for number in range(5)})
    made = replace(card, scheme=replace(card.scheme, partitions=(large,)))
    (found,) = [it.device for it in build_inventory([made], FABRIC, PARTITIONS, 1, ON).offered]
    assert len(found.attributes) + len(found.capacity) == MAX_ATTRIBUTES_AND_CAPACITIES
    assert list(theirs(found)) == ["profile", "parentUUID", "type", "productName"]


def test_a_profile_that_was_recorded_without_multiprocessors_says_that_there_are_none() -> None:
    card = cards("a100x4")[0]
    assert card.scheme
    part = card.scheme.partitions[0]
    old = replace(part, draws={name: amount for name, amount in part.draws.items() if name != MULTIPROCESSORS})
    made = replace(card, scheme=replace(card.scheme, partitions=(old,)))
    (found,) = build_inventory([made], FABRIC, PARTITIONS, 1, ON).devices
    assert their_capacity(found)["multiprocessors"] == "0"


def test_a_slice_has_as_many_devices_and_bytes_as_the_api_takes() -> None:
    found = inventory("h100x8")
    parts = build_slices(found.devices, found.counter_sets, "node-a", ON)
    before = inventory("h100x8", Names())
    assert len(parts) == len(build_slices(before.devices, before.counter_sets, "node-a", Names()))


@pytest.mark.parametrize("profile", shipped_profiles())
def test_without_the_setting_nothing_of_it_is_published(profile: str) -> None:
    found = inventory(profile, Names())
    assert "nvidia.com" not in str(build_slices(found.devices, found.counter_sets, "node-a", Names()))


@pytest.mark.parametrize(
    ("model", "driver", "brand", "version"),
    [
        ("NVIDIA RTX A6000", "580.65.06", "NvidiaRTX", "580.65.6"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "580.65.06", "NvidiaRTX", "580.65.6"),
        ("NVIDIA TITAN RTX", "580.65.06", "TitanRTX", "580.65.6"),
        ("NVIDIA H100 80GB HBM3", "580.65.06", "Nvidia", "580.65.6"),
        ("Tesla T4", "535.129.03", "Tesla", "535.129.3"),
        ("NVIDIA GeForce RTX 4090", "550.54", "GeForceRTX", "550.54.0"),
        ("Quadro RTX 6000", "470", "QuadroRTX", "470.0.0"),
        ("NVIDIA TITAN V", "", "Titan", "0.0.0"),
        ("NVIDIA A10", "unknown", "Nvidia", "0.0.0"),
    ],
)
def test_brands_and_versions_are_written_as_that_driver_writes_them(
    model: str, driver: str, brand: str, version: str
) -> None:
    card = replace(cards("t4x2")[0], model=model, driver_version=driver)
    found = attributes_of(card, "gpu", None)
    assert found[f"{DOMAIN}brand"] == brand
    assert found[f"{DOMAIN}driverVersion"] == Version(version)


def test_a_long_text_is_cut_as_in_our_own_attributes() -> None:
    card = replace(cards("t4x2")[0], model="x" * 80)
    (found, *_) = build_inventory([card], FABRIC, WHOLE, 1, ON).devices
    assert theirs(found)["productName"] == found.attributes["lode.dev/model"]
