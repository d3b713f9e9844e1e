"""What is published says the truth about the cards, and no two kinds of one card can be held at once."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.kinds import EVERY_OFFER, Offer
from driver.model import Device, Taint, Version
from driver.names import NUMA_NODE, PCI_BUS_ID, PCIE_ROOT, Names
from driver.quantity import Quantity
from driver.settings import HealthTaints, NodeLabels
from kubeletplugin.hardware import Card, Health
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile, shipped_profiles
from kubeletplugin.inventory import (
    Fabric,
    Inventory,
    Restrictions,
    build_inventory,
    fabric_from,
    find_device,
    taints_of,
    text_attribute,
)
from kubeletplugin.publish.slices import build_slices
from kubeletplugin.publish.validation import faults
from tests.simulation.files import MemoryFiles

NAMES = Names()
FACTS = Fabric("ib-1", "leaf-3", "rail-9", "containerd://2.1.4")


def cards(profile: str) -> tuple[Card, ...]:
    return SimulatedHardware(load_profile(profile, MemoryFiles()), "node-a").cards()


def inventory(profile: str, offer: tuple[Offer, ...] = EVERY_OFFER, **options: Any) -> Inventory:
    slots = options.pop("slots", 100)
    return build_inventory(cards(profile), FACTS, offer, slots, NAMES, restrictions=Restrictions(**options))


def named(found: Inventory, name: str) -> Device:
    return next(device for device in found.devices if device.name == name)


def own(device: Device) -> dict[str, Any]:
    return {name.removeprefix("lode.dev/"): value for name, value in device.attributes.items()}


@pytest.mark.parametrize(
    ("profile", "count"), [("h100x8", 160), ("a100x4", 80), ("t4x2", 4), ("ascend910bx8", 64), ("ascend310px4", 88)]
)
def test_each_card_is_offered_whole_shared_and_in_every_partition(profile: str, count: int) -> None:
    assert len(inventory(profile).devices) == count


def test_a_310p_is_21_devices_and_its_share() -> None:
    names = [device.name for device in inventory("ascend310px4").devices if device.name.startswith("npu-3")]
    assert len(names) == 22
    assert {"npu-3", "npu-3-share", "npu-3-vir02-1c-0", "npu-3-vir04-3c-ndvpp-1"} <= set(names)


def test_whole_cards_come_first_then_shares_then_partitions_card_by_card() -> None:
    kinds = [item.kind for item in inventory("a100x4").offered]
    assert kinds == ["gpu"] * 4 + ["gpu-share"] * 4 + ["mig"] * 72
    indexes = [item.card.index for item in inventory("a100x4").offered if item.kind == "mig"]
    assert indexes == sorted(indexes)


OF_UNKNOWN_MEMORY = ("ascend950x8", "gb10")
OF_LIBRARIES = [name for name in shipped_profiles() if name != "mi300x8"]
"""Profiles of cards that a library of the vendor serves, not a device plugin."""
COMMON = {
    *"kind vendor type model architecture uuid index numaNode ibCluster ibLeaf rail profile driverVersion".split(),
    *("computeCapability", "cudaVersion", "nvlinkDomain", "containerRuntime", PCIE_ROOT, PCI_BUS_ID),
}


@pytest.mark.parametrize("profile", shipped_profiles())
def test_every_device_has_the_amounts_that_a_request_may_name(profile: str) -> None:
    assert all({"memory", "cores"} <= set(device.capacity) for device in inventory(profile).devices)


@pytest.mark.parametrize("profile", OF_LIBRARIES)
def test_every_device_has_every_common_attribute(profile: str) -> None:
    for device in inventory(profile).devices:
        assert COMMON <= set(own(device)) <= COMMON | {NUMA_NODE, "links", "pcieSwitch"}


def test_the_attributes_of_a_whole_card() -> None:
    found = own(named(inventory("h100x8"), "gpu-5"))
    uuid = found.pop("uuid")
    assert re.fullmatch(r"GPU-[0-9a-f-]{36}", uuid)
    assert found == {
        "kind": "gpu",
        "vendor": "nvidia",
        "type": "H100",
        "model": "NVIDIA H100 80GB HBM3",
        "architecture": "Hopper",
        "index": 5,
        "numaNode": 1,
        "ibCluster": "ib-1",
        "ibLeaf": "leaf-3",
        "rail": "rail-1",
        "profile": "",
        "driverVersion": "580.65.06",
        "computeCapability": Version("9.0.0"),
        "cudaVersion": Version("0.0.0"),
        "nvlinkDomain": "nvlink-0",
        "containerRuntime": "containerd://2.1.4",
        PCIE_ROOT: "pci0000:a7",
        PCI_BUS_ID: "0000:ab:00.0",
        NUMA_NODE: 1,
    }


def test_whole_cards_and_shares_say_their_links_and_their_switch_if_there_is_something_to_say() -> None:
    found = inventory("v100x8")
    for name in ("gpu-3", "gpu-3-share"):
        said = own(named(found, name))
        assert (said["links"], said["pcieSwitch"]) == ("0:2,1:1,2:2,7:1", "0000:08:00.0")
    uniform = [own(device) for device in inventory("h100x8").devices]
    assert not any({"links", "pcieSwitch"} & set(said) for said in uniform)


@pytest.mark.parametrize(("others", "is_said"), [(14, True), (15, False)])
def test_links_that_an_attribute_cannot_say_are_not_said_in_part(others: int, is_said: bool) -> None:
    card = replace(cards("v100x8")[0], links=dict.fromkeys(range(1, others + 1), 1))
    found, _ = build_inventory([card], FACTS, EVERY_OFFER, 1, NAMES).devices
    assert ("links" in own(found)) == is_said


def test_an_unknown_numa_node_is_minus_one_and_absent_from_the_standard_attribute() -> None:
    found = own(named(inventory("t4x2"), "gpu-0"))
    assert found["numaNode"] == -1
    assert NUMA_NODE not in found


def test_the_rail_of_the_node_counts_where_the_card_does_not_know_its_own() -> None:
    assert own(named(inventory("t4x2"), "gpu-0"))["rail"] == "rail-9"
    assert own(named(inventory("h100x8"), "gpu-0"))["rail"] == "rail-0"


def test_a_partition_has_the_uuid_of_its_card_and_names_its_profile() -> None:
    found = inventory("a100x4")
    part = own(named(found, "gpu-1-mig-1g-5gb-6"))
    assert (part["kind"], part["profile"]) == ("mig", "1g.5gb")
    assert part["uuid"] == own(named(found, "gpu-1"))["uuid"]


def amounts(device: Device) -> dict[str, str]:
    return {name: str(capacity.value) for name, capacity in device.capacity.items()}


def test_capacities_by_kind() -> None:
    gpus, npus = inventory("a100x4"), inventory("ascend310px4", slots=20)
    assert amounts(named(gpus, "gpu-0")) == {"memory": "40Gi", "cores": "100"}
    assert amounts(named(gpus, "gpu-0-mig-3g-20gb-4")) == {"memory": "20Gi", "cores": "42", "memorySlices": "4"}
    assert amounts(named(npus, "npu-0-vir02-1c-3")) == {"memory": "6Gi", "cores": "25", "aicore": "2", "aicpu": "1"}
    assert amounts(named(npus, "npu-0-share")) == {"memory": "21527Mi", "cores": "100", "slots": "20"}


def test_a_share_takes_all_memory_no_cores_and_one_slot_unless_asked_otherwise() -> None:
    share = named(inventory("t4x2"), "gpu-0-share")
    assert share.allow_multiple
    policies = {name: capacity.policy for name, capacity in share.capacity.items()}
    assert {name: str(policy.default) for name, policy in policies.items() if policy} == {
        "memory": "15Gi",
        "cores": "0",
        "slots": "1",
    }


@pytest.mark.parametrize("profile", OF_UNKNOWN_MEMORY)
def test_a_card_of_unknown_memory_has_no_share(profile: str) -> None:
    """The API would refuse a share of nothing, and with it the slice that has all other devices."""
    assert {item.kind for item in inventory(profile).offered} <= {"gpu", "npu"}


def test_a_card_for_one_tenant_still_has_a_request_policy_the_api_accepts() -> None:
    found = inventory("t4x2", slots=1)
    assert not faults(build_slices(found.devices, found.counter_sets, "node-a", NAMES))


@pytest.mark.parametrize("profile", [name for name in OF_LIBRARIES if name not in OF_UNKNOWN_MEMORY])
def test_a_whole_card_and_a_share_each_draw_all_there_is_and_a_partition_part_of_it(profile: str) -> None:
    found = inventory(profile)
    totals = {item.name: item.counters for item in found.counter_sets}
    assert set(totals) == {item.card.name for item in found.offered}
    for item in found.offered:
        (drawn,) = item.device.consumes
        assert drawn.counter_set == item.card.name
        if item.partition is None:
            assert drawn.counters == totals[item.card.name]
        else:
            assert all(Quantity.whole(0) < n <= totals[item.card.name][c] for c, n in drawn.counters.items())


@pytest.mark.parametrize("offer", ["whole", "share"])
@pytest.mark.parametrize("profile", shipped_profiles())
def test_a_card_offered_as_one_device_publishes_no_counters(profile: str, offer: Offer) -> None:
    found = inventory(profile, (offer,))
    assert len(found.devices) == (0 if offer == "share" and profile in OF_UNKNOWN_MEMORY else len(cards(profile)))
    assert not found.counter_sets
    assert not any(device.consumes for device in found.devices)


def test_partitions_offered_alone_keep_their_counters_because_they_overlap() -> None:
    found = inventory("a100x4", ("partitions",))
    assert len(found.counter_sets) == 4
    assert all(device.consumes for device in found.devices)


def test_partitions_of_cards_that_have_none_are_no_devices() -> None:
    assert inventory("t4x2", ("partitions",)).devices == ()


def test_devices_of_an_unhealthy_card_are_tainted_and_no_others() -> None:
    found = inventory("a100x4", taints={"gpu-2": (Taint("lode.dev/unhealthy"),)})
    tainted = {item.card.name for item in found.offered if item.device.taints}
    assert tainted == {"gpu-2"}
    assert all(item.device.taints for item in found.offered if item.card.name == "gpu-2")
    (taint,) = named(found, "gpu-2-share").taints
    assert (taint.key, taint.effect) == ("lode.dev/unhealthy", "NoSchedule")


def test_a_fault_of_a_partition_taints_that_partition_alone() -> None:
    health = {"gpu-0": Health(), "gpu-0-mig-1g-5gb-6": Health("fatal", "Xid 63")}
    found = inventory("a100x4", taints=taints_of(health, HealthTaints(), (), NAMES))
    assert [device.name for device in found.devices if device.taints] == ["gpu-0-mig-1g-5gb-6"]


def test_the_operator_chooses_the_effect_of_each_state_of_health() -> None:
    health = {"gpu-0": Health("fatal"), "gpu-1": Health("degraded"), "gpu-2": Health("unknown"), "gpu-3": Health()}
    effects = HealthTaints(fatal="NoExecute", degraded="None", unknown="NoSchedule")
    found = taints_of(health, effects, (), NAMES)
    assert {name: [taint.effect for taint in taints] for name, taints in found.items()} == {
        "gpu-0": ["NoExecute"],
        "gpu-2": ["NoSchedule"],
    }


def test_no_pod_ends_because_who_speaks_for_its_card_is_away() -> None:
    effects = HealthTaints(fatal="NoExecute")
    found = taints_of({"gpu-0": Health("fatal", away=True)}, effects, (), NAMES)
    assert [taint.effect for taint in found["gpu-0"]] == ["NoSchedule"]


def test_a_device_that_an_earlier_claim_has_not_let_go_of_is_tainted() -> None:
    taints = taints_of({"gpu-0": Health("fatal")}, HealthTaints(), ["gpu-0-share", "gpu-1-mig-1g-5gb-6"], NAMES)
    found = inventory("a100x4", taints=taints)
    assert [taint.key for taint in named(found, "gpu-0-share").taints] == ["lode.dev/unhealthy", "lode.dev/releasing"]
    assert [taint.key for taint in named(found, "gpu-1-mig-1g-5gb-6").taints] == ["lode.dev/releasing"]
    assert named(found, "gpu-1").taints == ()


@pytest.mark.parametrize("profile", shipped_profiles())
def test_whatever_is_offered_breaks_no_limit_of_the_api(profile: str) -> None:
    found = inventory(profile, taints=dict.fromkeys(("gpu-0", "npu-0"), (Taint("lode.dev/unhealthy"),)))
    assert not faults(build_slices(found.devices, found.counter_sets, "node-a", NAMES))


@pytest.mark.parametrize("profile", shipped_profiles())
def test_every_device_is_described_by_its_name(profile: str) -> None:
    for item in inventory(profile).offered:
        assert find_device(item.device.name, cards(profile), FACTS, 100, NAMES) == item


@pytest.mark.parametrize(
    "name", ["gpu-9", "gpu-0-mig-9g-1gb-0", "gpu-0-mig-1g-20gb-5", "gpu-0-share-1", "npu-0", "gpu", ""]
)
def test_no_other_name_describes_a_device(name: str) -> None:
    assert find_device(name, cards("h100x8"), FACTS, 100, NAMES) is None


def test_a_device_no_longer_offered_is_still_described_for_whoever_holds_it() -> None:
    assert not [d for d in inventory("t4x2", ("whole",)).devices if d.name == "gpu-0-share"]
    found = find_device("gpu-0-share", cards("t4x2"), FACTS, 100, NAMES)
    assert found
    assert (found.kind, found.profile) == ("gpu-share", "")


def test_facts_come_from_the_labels_the_settings_name() -> None:
    keys = NodeLabels(ib_cluster="fabric.example.com/island")
    labels = {"fabric.example.com/island": "west", "lode.dev/rail": "rail-2", "lode.dev/ib-cluster": "ignored"}
    assert fabric_from(labels, keys) == Fabric("west", "", "rail-2")


@pytest.mark.parametrize(
    ("fabric", "cluster", "rail"),
    [
        (Fabric(), "fec0000000000001", "rail-1"),
        # A label for the fabric counts more than what the hardware reports, and a card's own rail more than a label.
        (Fabric("west", "leaf-3", "rail-9"), "west", "rail-1"),
    ],
)
def test_what_the_hardware_reports_of_the_fabric_is_used_with_the_labels(
    fabric: Fabric, cluster: str, rail: str
) -> None:
    card = replace(cards("t4x2")[0], ib_cluster="fec0000000000001", rail="rail-1")
    found = build_inventory([card], fabric, EVERY_OFFER, 100, NAMES).devices[0].attributes
    assert (found["lode.dev/ibCluster"], found["lode.dev/rail"]) == (cluster, rail)
    assert found["lode.dev/ibLeaf"] == fabric.ib_leaf


@given(st.text(max_size=100))
def test_a_text_attribute_is_at_most_64_bytes_and_short_texts_are_unchanged(text: str) -> None:
    made = text_attribute(text)
    assert len(made.encode()) <= 64
    assert made == text or len(text.encode()) > 64


@given(st.text(min_size=64, max_size=70), st.text(max_size=3), st.text(max_size=3))
def test_long_texts_stay_different_after_being_cut(head: str, one: str, other: str) -> None:
    assert (text_attribute(head + one) == text_attribute(head + other)) is (one == other)
