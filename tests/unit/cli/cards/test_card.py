"""A card is found by the name of any of its devices, by index or by uuid; what is not clear is answered with names."""

import pytest

from cli.cards.card import PublishedCard, cards_of, find, parse
from driver.device_facts import card_of
from driver.errors import OperatorFault
from driver.names import Names
from tests.unit.cli.cluster import slices

NAMES = Names()
H100 = cards_of("n", slices("n", "h100x8"), NAMES)
ASCEND = cards_of("n", slices("n", "ascend310px4"), NAMES)
MIXED = (
    PublishedCard("n", "gpu-0", 0, "GPU-aaaa-1"),
    PublishedCard("n", "gpu-1", 1, "GPU-aaaa-2"),
    PublishedCard("n", "npu-0", 0, "vdie-9"),
)


def test_a_card_has_all_its_devices_whole_share_and_partitions() -> None:
    assert [card.name for card in H100] == [f"gpu-{number}" for number in range(8)]
    assert {"gpu-3", "gpu-3-share"} < set(H100[3].devices)
    assert all(device.startswith("gpu-3") for device in H100[3].devices)
    assert sum(len(card.devices) for card in H100) == sum(
        len(it["spec"].get("devices", ())) for it in slices("n", "h100x8")
    )
    assert len([device for device in ASCEND[0].devices if "-vir" in device]) > 10


def test_cards_are_in_the_order_of_their_numbers() -> None:
    parts = [f"gpu-{number}" for number in (10, 9, 1)]
    raw = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "lode.dev",
            "nodeName": "n",
            "pool": {"name": "n/lode.dev", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": name} for name in parts],
        },
    }
    assert [card.name for card in cards_of("n", [raw], NAMES)] == ["gpu-1", "gpu-9", "gpu-10"]
    assert not cards_of("other", [raw], NAMES)


def test_only_the_newest_generation_counts_and_what_cannot_be_decoded_has_no_cards() -> None:
    old = slices("n", "t4x2")
    (part,) = [it for it in old if "devices" in it["spec"]]
    pool = {**part["spec"]["pool"], "generation": 9, "resourceSliceCount": 1}
    new = {**part, "spec": {**part["spec"], "pool": pool, "devices": part["spec"]["devices"][:1]}}
    assert [card.name for card in cards_of("n", [*old, new, {}, {"spec": 1}], NAMES)] == ["gpu-0"]


def test_while_slices_are_replaced_one_after_the_other_all_cards_are_there() -> None:
    old = slices("n", "h100x8")
    new = [{**part, "spec": {**part["spec"], "pool": {**part["spec"]["pool"], "generation": 9}}} for part in old]
    assert len(old) > 2
    for written in range(len(old) + 1):
        assert cards_of("n", [*new[:written], *old[written:]], NAMES) == H100


@pytest.mark.parametrize(
    "wanted", ["gpu-3", "3", "gpu-3-share", next(name for name in H100[3].devices if "-mig-" in name), H100[3].uuid]
)
def test_a_card_is_named_by_device_index_or_uuid(wanted: str) -> None:
    assert find("n", wanted, H100).name == "gpu-3"


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ("0", "'0' names several cards of node n: gpu-0 (GPU-aaaa-1), npu-0 (vdie-9)"),
        ("gpu-aaaa", "'gpu-aaaa' names several cards of node n: gpu-0 (GPU-aaaa-1), gpu-1 (GPU-aaaa-2)"),
        ("gpu-7", "node n has no card 'gpu-7'; its cards: gpu-0 (GPU-aaaa-1), gpu-1 (GPU-aaaa-2), npu-0 (vdie-9)"),
        ("7", "node n has no card '7'"),
        ("GPU-bbbb", "node n has no card 'GPU-bbbb'"),
    ],
)
def test_what_names_no_card_or_several_is_answered_with_the_candidates(wanted: str, problem: str) -> None:
    with pytest.raises(OperatorFault) as error:
        find("n", wanted, MIXED)
    assert problem in str(error.value)


def test_the_beginning_of_a_uuid_is_enough_if_only_one_card_has_it() -> None:
    assert find("n", "gpu-aaaa-2", MIXED).name == "gpu-1"
    assert find("n", "vdie", MIXED).name == "npu-0"


@pytest.mark.parametrize(
    ("what", "node", "card"),
    [("n", "n", ""), ("n/gpu-0", "n", "gpu-0"), ("node/n", "n", ""), ("node/n/3", "n", "3"), ("a.b/c", "a.b", "c")],
)
def test_node_and_card_are_parted_by_a_slash(what: str, node: str, card: str) -> None:
    assert parse(what) == (node, card)


@pytest.mark.parametrize("what", ["", "/gpu-0", "n/", "node/"])
def test_what_names_nothing_is_refused(what: str) -> None:
    with pytest.raises(OperatorFault, match="names no card"):
        parse(what)


def test_a_card_has_no_device_of_another_card_whose_number_begins_alike() -> None:
    assert not PublishedCard("n", "gpu-1").has("gpu-10-share")
    assert PublishedCard("n", "gpu-1").has("gpu-1-mig-1g-5gb-6")
    assert card_of("npu-3-vir02-1c-0") == "npu-3"
