"""A recorded node can be played: its profile has the same cards, and offers the same devices."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.deviceplugins import ResourceSettings
from driver.errors import InvalidInput
from driver.kinds import EVERY_OFFER, Offer
from driver.names import Names
from kubeletplugin.hardware import Card, Partition, Scheme
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, card_of
from kubeletplugin.hardware.deviceplugin.reported import Reported, card_reports
from kubeletplugin.hardware.place import Place
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile, profile_from, profile_of, shipped_profiles
from kubeletplugin.hardware.simulated.schemes import SCHEMES
from kubeletplugin.inventory import Fabric, Inventory, build_inventory
from tests.simulation.files import MemoryFiles

SHIPPED = load_profile("h100x8", MemoryFiles()).cards[0]


def played(cards: tuple[Card, ...]) -> tuple[Card, ...]:
    """The cards of a simulated node of another name with the recorded profile."""
    return SimulatedHardware(profile_from(profile_of(cards, "node-a"), "recorded"), "another-node").cards()


def offers(cards: tuple[Card, ...], offer: tuple[Offer, ...] = EVERY_OFFER) -> Inventory:
    return build_inventory(cards, Fabric("fabric-1", "leaf-1", "rail-1"), offer, 10, Names())


@pytest.mark.parametrize("name", shipped_profiles())
def test_every_shipped_profile_is_reproduced(name: str) -> None:
    cards = SimulatedHardware(load_profile(name, MemoryFiles()), "node-a").cards()
    assert played(cards) == cards
    assert offers(played(cards)) == offers(cards)


# Texts that YAML reads as something else unless they are quoted.
words = st.sampled_from(
    ("", "Tesla T4", "580.65", "0x1f", "null", "yes", "1e3", "a: b", "{c}", "- d", "# e", "'\"", "é\u2028")
)
names = st.sampled_from(("1g.5gb", "vir02_1c", "580.65", "null", "aicore"))
amounts = st.dictionaries(names, st.integers(1, 100), min_size=1, max_size=3)


@st.composite
def schemes(draw: st.DrawFn) -> Scheme:
    counters = draw(amounts)
    draws = st.fixed_dictionaries({name: st.integers(0, most) for name, most in counters.items()})
    parts = st.builds(
        Partition, names, st.integers(0, 7), st.integers(1, 10**6), st.integers(0, 100), draws, amounts | st.just({})
    )
    # A name that this program knows may stand for something else on a card: the driver's answer counts.
    name = draw(names | st.sampled_from(sorted(SCHEMES)))
    return Scheme(name, draw(st.sampled_from(("mig", "vnpu"))), counters, tuple(draw(st.lists(parts, max_size=4))))


@st.composite
def of_device_plugins(draw: st.DrawFn) -> tuple[Card, ...]:
    """The devices of a resource, as the settings and a device plugin make them."""
    replicas: Any = draw(st.sampled_from(("auto", "dashed", "equal", "none")))
    shape = draw(st.sampled_from(("0000:{:02x}:00.0", "GPU-{}::1", "card{}-2", "{}")))
    ids = [shape.format(number) for number in draw(st.sets(st.integers(1, 9), min_size=1, max_size=4))]
    resource = draw(st.sampled_from(("amd.com/gpu", "rdma/hca", "example.com/NPU_x")))
    pattern = r"(?P<start>\w+).*" if draw(st.booleans()) else ""
    sources = st.fixed_dictionaries({"value": words.filter(bool)}) | st.just({"table": {ids[0]: "1"}})
    settings = ResourceSettings.model_validate(
        {
            "replicas": replicas,
            "idPattern": pattern,
            "vendor": draw(st.sampled_from(("", "me"))),
            "attributes": {
                **draw(st.dictionaries(st.sampled_from(("type", "model", "board", "driverVersion")), sources)),
                **({"start": {"group": "start"}} if pattern else {}),
            },
            "capacity": draw(
                st.dictionaries(st.sampled_from(("memory", "lanes")), st.just({"value": "16Gi"}), max_size=2)
            ),
        }
    )
    numa = draw(st.sampled_from((None, 0, 1)))
    node = LabelledNode({}, lambda _: Place(("pci0000:15",), 1))
    reports = card_reports([Reported(name, numa_node=numa) for name in ids], replicas)
    rail = draw(st.sampled_from(("", "rail-0")))
    return tuple(replace(card_of(resource, each, settings, node), rail=rail) for each in reports)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Card, ...]:
    known: st.SearchStrategy[Scheme | None] = st.sampled_from([None, *SCHEMES.values()]) | schemes()
    few = draw(st.lists(known, min_size=1, max_size=3))
    changes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {
            "type": words.filter(bool),
            "model": words.filter(bool),
            "architecture": words.filter(bool),
            "vendor": st.sampled_from(("nvidia", "huawei")),
            "memory_mib": st.integers(0, 10**6),
            "driver_version": words,
            "numa_node": st.none() | st.integers(0, 1023),
            "ib_cluster": words,
            "rail": words,
            "nvlink_domain": words,
            "pcie_switch": st.sampled_from(("", "0000:03:00.0", "10000:08:00.0")),
            "links": st.dictionaries(st.integers(0, 15), st.integers(1, 6), max_size=4),
            "compute_capability": st.sampled_from(("0.0.0", "9.0.0")),
            "scheme": st.sampled_from(few),
        }
    )
    common, domain = draw(changes), draw(st.sampled_from(("0000", "000f", "10000", "ffffffff")))
    cards = [
        replace(
            SHIPPED,
            **{**common, **draw(changes | st.just({}))},
            index=n,
            uuid=f"u{n}",
            pci_bus_id=f"{domain}:{n:02x}:00.0",
        )
        for n in range(draw(st.integers(0, 4)))
    ]
    return tuple(sorted(cards, key=lambda card: (card.unit, card.index)))


@given(nodes())
def test_a_recorded_node_has_the_same_cards_and_offers(cards: tuple[Card, ...]) -> None:
    assert played(cards) == cards
    assert offers(played(cards)) == offers(cards)


def test_what_a_machine_does_not_say_about_a_card_is_recorded_as_unknown() -> None:
    cards = (replace(SHIPPED, uuid="u", pci_bus_id="", pcie_root="", numa_node=None),)
    assert played(cards) == cards


def test_what_is_recorded_again_is_the_same_text() -> None:
    cards = SimulatedHardware(load_profile("a100x4", MemoryFiles()), "node-a").cards()
    assert profile_of(played(cards), "n") == profile_of(cards, "n")


@given(of_device_plugins(), st.booleans())
def test_devices_of_device_plugins_are_played_as_the_settings_have_made_them(
    cards: tuple[Card, ...], beside: bool
) -> None:
    both = (*((SHIPPED,) if beside else ()), *cards)
    found = played(tuple(sorted(both, key=lambda card: card.order)))
    assert {card.name: card for card in found if card.bridged} == {card.name: card for card in cards}
    assert offers(tuple(card for card in found if card.bridged)) == offers(cards)


def test_every_field_of_a_card_is_recorded() -> None:
    texts = """
    uuid=GPU-5 vendor=huawei type=T model=M architecture=A pci_bus_id=0000:05:00.0 pcie_root=pci0000:05
    pcie_switch=0000:03:00.0 driver_version=D ib_cluster=I rail=R nvlink_domain=N compute_capability=1.2.3
    """
    values: dict[str, Any] = {
        "index": 5,
        "memory_mib": 7,
        "numa_node": 3,
        "links": {1: 2, 3: 1},
        "scheme": SCHEMES["vnpu-310p"],
        **dict(text.split("=") for text in texts.split()),
    }
    unknown = "partitions_unread", "memory_unread"
    for field in (field for field in fields(Card) if field.name not in ("bridged", *unknown)):
        card = replace(SHIPPED, **{field.name: values.get(field.name, "1.2.3")})
        (again,) = played((card,))
        assert getattr(again, field.name) == getattr(card, field.name), field.name


def test_a_known_scheme_is_named_and_another_one_of_its_name_is_written_out() -> None:
    known = SCHEMES["mig-a100-40gb"]
    other = replace(known, partitions=known.partitions[:2])
    cards = (
        replace(SHIPPED, scheme=known),
        replace(SHIPPED, index=1, uuid="u", pci_bus_id="0000:01:00.0", scheme=other),
    )
    assert "schemes" not in profile_of(cards[:1], "n")
    assert "mig-a100-40gb-2:" in profile_of(cards, "n")
    assert [card.scheme for card in played((replace(SHIPPED, uuid="v", scheme=known), cards[1]))] == [known, other]


def test_a_card_that_no_profile_can_describe_is_refused_with_the_field() -> None:
    with pytest.raises(InvalidInput, match=r"card gpu-0.*memoryMiB"):
        profile_of([replace(SHIPPED, memory_mib=-1)], "n")


def test_two_chips_behind_one_pci_function_are_recorded() -> None:
    """Atlas 300I Duo."""
    chip = load_profile("ascend310px4", MemoryFiles()).cards[0]
    cards = (replace(chip, uuid="a"), replace(chip, index=1, uuid="b"))
    assert played(cards) == cards


def test_a_card_of_unknown_memory_has_no_shares() -> None:
    """As on the node that was recorded: GB10, whose memory is that of the machine."""
    profile = profile_from(profile_of([replace(SHIPPED, memory_mib=0)], "n"), "recorded")
    hardware = SimulatedHardware(profile, "node-a")
    (card,) = hardware.cards()
    assert set(hardware.observe(card).excluded) == {"share"}


@pytest.mark.parametrize(
    ("scheme", "field", "reason"),
    [
        ("{kind: mig, counters: {slices: 7}, partitions: [], colour: red}", "schemes.mine.colour", "Extra inputs"),
        ("{kind: tpu, counters: {}, partitions: []}", "schemes.mine.kind", "'mig' or 'vnpu'"),
        ("7", "schemes.mine", "valid dictionary"),
        (
            "{kind: mig, counters: {s: 1}, partitions: [{profile: p, slot: 0, memoryMiB: 1, cores: 1, draws: {s: 2}}]}",
            "schemes.mine",
            "draws 2 of the counter 's', and the card has 1",
        ),
    ],
)
def test_a_scheme_that_is_not_valid_is_refused_with_the_field(scheme: str, field: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        profile_from(f"schemes: {{mine: {scheme}}}\ncards: []", "profile mine")
    (fault,) = caught.value.faults
    assert fault.field == field
    assert reason in str(fault)
