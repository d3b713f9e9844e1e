"""The vendors differ where they must, and everything that is published of a card follows from its vendor."""

from collections import Counter
from dataclasses import fields
from typing import Any, get_args

import pytest

from driver.kinds import Backend, PartitionKind, WholeKind
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, VendorFacts, facts_of

OF_ONE_VENDOR = (
    *("backend", "pci_vendor", "library", "card_file", "device_files"),
    *("extended_resources", "device_plugins", "card_drivers", "visible_devices"),
)
MAY_BE_EMPTY = {"numbered_card", "companion_drivers"}


def card(vendor: Vendor) -> Card:
    return Card(3, "uuid", vendor, "type", "model", "architecture", 1024, "", "", "1")


@pytest.mark.parametrize("name", OF_ONE_VENDOR)
def test_what_tells_vendors_apart_belongs_to_one_of_them(name: str) -> None:
    values: Counter[Any] = Counter()
    for vendor in EVERY_VENDOR:
        value = getattr(facts_of(vendor), name)
        values.update(value if isinstance(value, tuple) else [value])
    assert max(values.values()) == 1


@pytest.mark.parametrize("vendor", EVERY_VENDOR)
def test_every_vendor_says_everything(vendor: Vendor) -> None:
    facts = facts_of(vendor)
    assert {field.name for field in fields(VendorFacts) if not getattr(facts, field.name)} <= MAY_BE_EMPTY
    assert facts.backend in get_args(Backend)
    assert facts.kind in get_args(WholeKind)
    assert facts.partition_kind in get_args(PartitionKind)


@pytest.mark.parametrize(("vendor", "name"), [("nvidia", "gpu-3"), ("huawei", "npu-3")])
def test_a_card_is_named_after_the_kind_of_its_vendor(vendor: Vendor, name: str) -> None:
    assert (card(vendor).name, card(vendor).share_name) == (name, f"{name}-share")
