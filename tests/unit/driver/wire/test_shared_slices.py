"""Equal hardware is decoded once, and decoded as everything else is."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from driver.kinds import EVERY_OFFER
from driver.model import Device, SharedAttributes, Slice
from driver.names import Names
from driver.wire import Json, SharedSlices, device_to, slice_from, slice_spec_to
from kubeletplugin.hardware.simulated import load_profile
from kubeletplugin.inventory import Fabric, build_inventory
from kubeletplugin.publish.slices import build_slices
from tests.simulation.files import MemoryFiles
from tests.unit.driver.wire.test_wire import DRIVER, devices, names, scalars

own = st.dictionaries(st.sampled_from([f"{DRIVER}/uuid", "other.dev/index", "pciBusID"]), scalars, max_size=3)


@st.composite
def fleets(draw: st.DrawFn) -> list[list[Json]]:
    """The devices of several slices. Few names and few kinds of device, so that many are equal, or nearly so."""
    kinds = draw(st.lists(devices, min_size=1, max_size=3))

    def device() -> Json:
        kind = draw(st.sampled_from(kinds))
        changed = replace(kind, name=draw(st.sampled_from("ab")), attributes={**kind.attributes, **draw(own)})
        return device_to(changed, DRIVER)

    return [[device() for _ in range(draw(st.integers(0, 3)))] for _ in range(draw(st.integers(1, 4)))]


@settings(max_examples=200)
@given(fleets())
def test_a_slice_is_decoded_as_if_there_were_no_other(fleet: list[list[Json]]) -> None:
    shared = SharedSlices()
    for number, content in enumerate(fleet):
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": f"n{number}", "devices": content}
        raw = {"metadata": {"name": f"s{number}"}, "spec": spec}
        found, expected = shared.slice_from(raw), slice_from(raw)
        assert found == expected
        assert [kinds_of(device) for device in found.devices] == [kinds_of(device) for device in expected.devices]


def kinds_of(device: Device) -> dict[str, tuple[type, Any]]:
    """Attributes with the types of their values: 1 and True are equal."""
    return {name: (type(value), value) for name, value in device.attributes.items()}


@given(st.lists(names, min_size=20, max_size=40, unique=True))
def test_more_kinds_under_one_name_than_are_remembered_are_decoded_too(types: list[str]) -> None:
    shared = SharedSlices()
    for _ in range(2):
        for kind in types:
            device = {"name": "gpu-0", "attributes": {"type": {"string": kind}, "uuid": {"string": f"u-{kind}"}}}
            spec = {"driver": DRIVER, "pool": {"name": "p"}, "devices": [device]}
            found = shared.slice_from({"metadata": {"name": "s"}, "spec": spec}).devices[0]
            assert dict(found.attributes) == {f"{DRIVER}/type": kind, f"{DRIVER}/uuid": f"u-{kind}"}


def slices_of(shared: SharedSlices, node: str) -> list[Slice]:
    """The slices of a node with eight partitioned cards."""
    cards = [replace(card, uuid=f"{node}-{card.index}") for card in load_profile("h100x8", MemoryFiles()).cards]
    inventory = build_inventory(cards, Fabric(""), EVERY_OFFER, 10, Names())
    parts = build_slices(inventory.devices, inventory.counter_sets, node, Names())
    return [shared.slice_from({"metadata": {"name": part.name}, "spec": slice_spec_to(part)}) for part in parts]


def parts(device: Device) -> SharedAttributes:
    assert isinstance(device.attributes, SharedAttributes)
    return device.attributes


def test_equal_nodes_share_everything_but_the_attributes_of_their_cards() -> None:
    shared = SharedSlices()
    first, second = slices_of(shared, "n1"), slices_of(shared, "n2")
    for one, other in zip(first, second, strict=True):
        assert one.counter_sets is other.counter_sets
        for a, b in zip(one.devices, other.devices, strict=True):
            assert dict(a.attributes) != dict(b.attributes)
            assert parts(a).common is parts(b).common
            for part in ("name", "capacity", "consumes", "taints"):
                assert getattr(a, part) is getattr(b, part)


def test_the_devices_of_a_card_share_the_attributes_of_the_card() -> None:
    devices = [device for part in slices_of(SharedSlices(), "n1") for device in part.devices]
    assert len({id(parts(device).own) for device in devices}) < len(devices) / 5
