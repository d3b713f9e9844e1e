"""What a device plugin reports and the settings say make a card."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from driver.deviceplugins import ResourceSettings
from driver.limits import is_dns_label
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, card_of, device_name, vendor_of
from kubeletplugin.hardware.deviceplugin.reported import ReportedCard
from kubeletplugin.hardware.place import Place

RESOURCES = st.from_regex(r"[a-z]{1,9}\.[a-z]{2,3}/[A-Za-z0-9][-A-Za-z0-9_.]{0,61}", fullmatch=True)
SYSFS = {"0000:18:00.0": Place(("pci0000:15",), 1)}


def card(report: ReportedCard | str, resource: str = "amd.com/gpu", **settings: Any) -> Card:
    if isinstance(report, str):
        report = ReportedCard(report, (report,), False)
    node = LabelledNode({"amd.com/gpu.product-name": "MI300X"}, lambda address: SYSFS.get(address, Place()))
    return card_of(resource, report, ResourceSettings.model_validate(settings), node)


def attributes(report: str, **settings: Any) -> dict[str, str]:
    bridged = card(report, **settings).bridged
    assert bridged
    return dict(bridged.attributes)


@given(RESOURCES, st.text(min_size=1, max_size=63))
def test_names_are_labels_with_room_for_the_end_of_a_share(resource: str, device_id: str) -> None:
    name = device_name(resource, device_id)
    assert is_dns_label(f"{name}-share")
    assert name.count("-") == 1, "the name of a card has two parts"


@given(st.lists(st.tuples(RESOURCES, st.text(min_size=1, max_size=63)), unique=True, min_size=2, max_size=20))
def test_different_devices_have_different_names(devices: list[tuple[str, str]]) -> None:
    assert len({device_name(*device) for device in devices}) == len(devices)


def test_a_card_is_what_its_resource_says() -> None:
    found = card("0000:18:00.0")
    assert (found.unit, found.vendor, found.type, found.index) == ("device", "bridged", "gpu", -1)
    assert (found.pci_bus_id, found.pcie_root, found.numa_node) == ("0000:18:00.0", "pci0000:15", 1)
    assert (found.uuid, found.memory_mib) == ("amd.com/gpu/0000:18:00.0", 0)
    assert found.bridged
    assert (found.bridged.vendor, found.bridged.device_id) == ("amd", "0000:18:00.0")


def test_the_numa_node_that_the_device_plugin_reports_counts_more() -> None:
    assert card(ReportedCard("0000:18:00.0", ("0000:18:00.0",), False, numa_node=0)).numa_node == 0


def test_attributes_come_from_four_places() -> None:
    found = attributes(
        "card0-a",
        idPattern=r"(?P<card>card\d)-(?P<part>.)",
        attributes={
            "family": {"value": "CDNA"},
            "part": {"group": "part"},
            "model": {"nodeLabel": "amd.com/gpu.product-name"},
            "slot": {"table": {"card0-a": "left"}},
        },
    )
    assert found == {"family": "CDNA", "part": "a", "model": "MI300X", "slot": "left"}


def test_a_device_of_which_a_source_says_nothing_has_the_empty_value() -> None:
    sources = {"a": {"group": "x"}, "b": {"nodeLabel": "missing"}, "c": {"table": {"other": "1"}}}
    assert attributes("card", idPattern="(?P<x>never)", attributes=sources) == {"a": "", "b": "", "c": ""}


def test_what_counts_cards_by_type_finds_one_also_where_the_label_is_missing() -> None:
    found = card("card0", attributes={"type": {"nodeLabel": "missing"}, "model": {"value": "OAM"}})
    assert (found.type, found.model) == ("gpu", "OAM")
    assert found.bridged
    assert found.bridged.attributes == {"type": "gpu", "model": "OAM"}
    assert card("card0", attributes={"type": {"nodeLabel": "amd.com/gpu.product-name"}}).type == "MI300X"


def test_amounts_are_memory_and_others() -> None:
    found = card("card0", capacity={"memory": {"value": "64Gi"}, "lanes": {"table": {"card0": "16", "card1": "8"}}})
    assert found.memory_mib == 64 * 1024
    assert found.bridged
    assert found.bridged.capacity == {"lanes": "16"}


def test_an_amount_that_a_label_does_not_say_is_left_out() -> None:
    assert card("card0", capacity={"memory": {"nodeLabel": "amd.com/gpu.product-name"}}).memory_mib == 0


def test_the_address_can_be_a_group_of_the_pattern() -> None:
    assert card("npu@AF:00.1", idPattern="npu@(?P<pciBusID>.+)").pci_bus_id == "0000:af:00.1"
    assert card("GPU-1").pci_bus_id == ""


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [("amd.com/gpu", "amd"), ("gpu.intel.com/i915", "intel"), ("rdma/hca", "rdma"), ("beta.hpe.com/cxi", "hpe")],
)
def test_the_vendor_is_in_the_name_of_the_resource(resource: str, vendor: str) -> None:
    assert vendor_of(resource) == vendor


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attributes": {"kind": {"value": "x"}}}, "every device has it already"),
        ({"attributes": {"a-b": {"value": "x"}}}, "is not a name of an attribute"),
        ({"attributes": {"a": {}}}, "must have one of value, group, nodeLabel and table"),
        ({"attributes": {"a": {"value": "x", "group": "y"}}}, "must have one of"),
        ({"attributes": {"a": {"group": "y"}}, "idPattern": "(?P<x>.)"}, "idPattern has no group y"),
        ({"idPattern": "("}, "is not a regular expression"),
        ({"capacity": {"memory": {"value": "much"}}}, "is not a quantity: 'much'"),
        ({"capacity": {"slots": {"value": "1"}}}, "every device has it already"),
        ({"attributes": {f"a{n}": {"value": "x"} for n in range(9)}}, "at most 8 attributes and capacities: 9"),
    ],
)
def test_settings_that_cannot_be_published_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("(", r"\(")):
        ResourceSettings.model_validate(settings)
