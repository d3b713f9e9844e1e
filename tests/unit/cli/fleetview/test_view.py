"""The view of a fleet: what each card is in, who holds it, what is free of it, and what closes it."""

import random
from typing import Any

import pytest

from cli.cards.card import CardTarget, cards_of
from cli.cards.rules import to_cordon
from controller.quotas import price
from driver.kube.api import Object
from driver.model import DeviceId
from driver.wire import claim_from, slice_from
from tests.unit.cli.cluster import node, slices
from tests.unit.cli.fleetview.views import NAMES, card_of, held, states, view_of

GIB = 1024**3


def tainted(parts: list[Object], card: str, key: str, effect: str = "NoSchedule") -> list[Object]:
    """The slices with a taint on every device of a card."""

    def changed(device: Object) -> Object:
        ours = device["name"] == card or device["name"].startswith(f"{card}-")
        return {**device, "taints": [{"key": key, "effect": effect}]} if ours else device

    return [
        {**part, "spec": {**part["spec"], "devices": [changed(one) for one in part["spec"].get("devices", ())]}}
        for part in parts
    ]


def test_a_card_that_nobody_holds_is_free_and_all_of_it_can_be_had() -> None:
    view = view_of(slices("a", "t4x2"))
    assert states(view) == {"a/gpu-0": "free", "a/gpu-1": "free"}
    card = view.cards[0]
    assert (card.facts.type, card.memory_held, card.cores_held) == ("T4", 0, 0)
    assert card.largest_free == card.facts.memory == 15 * GIB
    assert card.is_free


def test_a_card_is_what_claims_hold_of_it() -> None:
    claims = [
        held("one", "a/gpu-0", "p"),
        held("two", "a/gpu-1-share", "q", memory=8 * GIB, cores=25),
        held("three", "a/gpu-1-share", "r", memory=16 * GIB, cores=50),
        held("four", "a/gpu-2-mig-1g-5gb-3", "s"),
    ]
    view = view_of(slices("a", "a100x4"), claims)
    assert states(view) == {"a/gpu-0": "whole", "a/gpu-1": "shared", "a/gpu-2": "partitioned", "a/gpu-3": "free"}
    whole, shared, parted, _ = view.cards
    assert (whole.memory_held, whole.cores_held, whole.largest_free) == (whole.facts.memory, 100, 0)
    assert (shared.memory_held, shared.cores_held) == (24 * GIB, 75)
    assert shared.largest_free == shared.facts.memory - 24 * GIB
    assert [shared.fraction(one) for one in shared.holders] == [0.25, 0.5]
    assert [one.users for one in whole.holders] == [("p",)]
    assert parted.fraction(parted.holdings[0]) == pytest.approx(
        max(parted.memory_held / parted.facts.memory, parted.cores_held / 100)
    )


def test_of_a_partitioned_card_the_profiles_that_still_fit_are_told() -> None:
    parts = slices("a", "a100x4")
    before = card_of(view_of(parts), "a/gpu-0")
    half = card_of(view_of(parts, [held("c", "a/gpu-0-mig-3g-20gb-0")]), "a/gpu-0")
    assert "7g.40gb" in before.free_profiles
    assert "3g.20gb" in half.free_profiles
    assert not {"4g.20gb", "7g.40gb"} & set(half.free_profiles)
    assert 19 * GIB < half.largest_free < 21 * GIB
    assert card_of(view_of(parts, [held("c", "a/gpu-0-mig-7g-40gb-0")]), "a/gpu-0").largest_free == 0


def test_the_larger_part_of_memory_and_cores_counts() -> None:
    claims = [held("memory", "a/gpu-0-share", memory=12 * GIB, cores=10), held("cores", "a/gpu-1-share", cores=90)]
    view = view_of(slices("a", "t4x2"), claims)
    assert [card.fraction(card.holdings[0]) for card in view.cards] == [0.8, 0.9]


def test_a_claim_that_only_looks_at_a_card_holds_none_of_it() -> None:
    (card, _) = view_of(slices("a", "t4x2"), [held("monitor", "a/gpu-0", adminAccess=True)]).cards
    assert card.is_free
    assert card.fraction(card.holdings[0]) == 0
    assert card.memory_held == 0


@pytest.mark.parametrize(
    ("key", "effect", "state"),
    [
        ("lode.dev/unhealthy", "NoSchedule", "unhealthy"),
        ("lode.dev/unhealthy", "NoExecute", "unhealthy"),
        ("lode.dev/unhealthy", "None", "free"),
        ("lode.dev/other-driver", "NoSchedule", "foreign"),
        ("lode.dev/releasing", "NoSchedule", "releasing"),
    ],
)
def test_taints_of_the_plugin_say_what_closes_a_card(key: str, effect: str, state: str) -> None:
    view = view_of(tainted(slices("a", "t4x2"), "gpu-0", key, effect))
    assert states(view) == {"a/gpu-0": state, "a/gpu-1": "free"}
    assert bool(card_of(view, "a/gpu-0").largest_free) == (state == "free")


def test_a_card_in_use_that_is_closed_is_both() -> None:
    parts = tainted(slices("a", "t4x2"), "gpu-0", "lode.dev/unhealthy")
    assert states(view_of(parts, [held("c", "a/gpu-0")]))["a/gpu-0"] == "whole,unhealthy"


def test_a_taint_of_one_partition_does_not_close_its_card() -> None:
    parts = tainted(slices("a", "a100x4"), "gpu-0-mig-1g-5gb-0", "lode.dev/unhealthy")
    assert states(view_of(parts))["a/gpu-0"] == "free"


def test_a_card_of_which_others_have_something_is_foreign() -> None:
    counters, *parts = slices("a", "a100x4")
    counters["spec"]["sharedCounters"][0]["counters"]["memory-slice-0"]["value"] = "0"
    card = card_of(view_of([counters, *parts]), "a/gpu-0")
    assert card.state == "foreign"


def test_rules_of_cordon_close_a_card_or_all_cards_of_a_node() -> None:
    parts = slices("a", "t4x2")
    cards = cards_of("a", parts, NAMES)
    one = to_cordon(CardTarget("a", cards[1], cards), (), NAMES).create
    every = to_cordon(CardTarget("a", None, cards), (), NAMES).create
    assert states(view_of(parts, rules=one)) == {"a/gpu-0": "free", "a/gpu-1": "cordoned"}
    assert set(states(view_of([*parts, *slices("b", "t4x2")], rules=every)).values()) == {"cordoned", "free"}
    assert states(view_of(parts, rules=every)) == {"a/gpu-0": "cordoned", "a/gpu-1": "cordoned"}
    part_only = [rule for rule in one if "share" in rule["metadata"]["name"]]
    assert states(view_of(parts, rules=part_only))["a/gpu-1"] == "free"


def test_cards_of_a_node_that_takes_no_pods_are_cordoned() -> None:
    closed = {**node("a"), "spec": {"unschedulable": True}}
    view = view_of([*slices("a", "t4x2"), *slices("b", "t4x2")], nodes=[closed, node("b")])
    assert [card.state for card in view.cards] == ["cordoned", "cordoned", "free", "free"]


def test_a_card_that_is_held_and_published_no_more_is_still_seen() -> None:
    view = view_of(slices("b", "t4x2"), [held("c", "a/gpu-5", "p")])
    assert states(view)["a/gpu-5"] == "whole,unpublished"
    assert view.cards[0].cores_held == 100


def test_only_the_newest_generation_of_a_pool_counts_in_any_order() -> None:
    old, new = slices("a", "a100x4", ("whole",)), slices("a", "t4x2", ("whole",))
    for part in new:
        part["spec"]["pool"]["generation"] = 2
    for parts in ([*old, *new], [*new, *old]):
        assert [card.facts.type for card in view_of(parts).cards] == ["T4", "T4"]


def test_an_incomplete_pool_is_noted() -> None:
    view = view_of(slices("a", "h100x8")[:-1])
    (note,) = view.notes
    assert note.startswith("pool a/lode.dev has 3 of 4 slices")


def test_slices_of_other_drivers_and_of_wrong_pools_are_left_out() -> None:
    (other,) = slices("a", "t4x2", ("whole",))
    (wrong,) = slices("b", "t4x2", ("whole",))
    other["spec"]["driver"] = "gpu.example"
    wrong["spec"]["pool"]["name"] = "a/lode.dev"
    assert view_of([other, wrong]).cards == ()


def test_cards_are_in_the_order_of_their_numbers() -> None:
    parts = slices("a", "h100x8", ("whole",))
    for device in parts[0]["spec"]["devices"]:
        device["name"] = {"gpu-7": "gpu-10"}.get(device["name"], device["name"])
    assert [card.facts.name for card in view_of(parts).cards][-2:] == ["gpu-6", "gpu-10"]


@pytest.mark.parametrize(
    "spec",
    [
        7,
        {"driver": "lode.dev"},
        {"driver": "lode.dev", "pool": 1},
        {"driver": "lode.dev", "pool": {"name": "n/lode.dev"}, "nodeName": "n", "devices": [7]},
        {"driver": "lode.dev", "pool": {"name": "n/lode.dev"}, "nodeName": "n", "devices": [{"name": []}]},
        {
            "driver": "lode.dev",
            "pool": {"name": "n/lode.dev"},
            "nodeName": "n",
            "devices": [{"name": "gpu-0"}, {"name": "gpu-1", "capacity": {"memory": {"value": "much"}}}],
        },
    ],
)
def test_a_slice_that_makes_no_sense_is_named_and_harms_no_other(spec: Any) -> None:
    view = view_of([{"metadata": {"name": "odd"}, "spec": spec}, *slices("a", "t4x2", ("whole",))])
    assert len(view.cards) == 2
    (note,) = view.notes
    assert note.startswith("ResourceSlice odd is left out")


def test_what_others_wrote_as_text_does_no_harm() -> None:
    (part,) = slices("a", "t4x2", ("whole",))
    part["spec"]["devices"][0]["attributes"]["type"] = {"string": "\x1b[2J"}
    part["spec"]["devices"][0]["attributes"]["uuid"] = {"string": ["a"]}
    card = view_of([part]).cards[0]
    assert (card.facts.type, card.facts.uuid) == ("", "")


def test_a_claim_that_makes_no_sense_is_named_and_harms_no_other() -> None:
    bad = {"metadata": {"namespace": "x", "name": "bad"}, "spec": {}, "status": {"allocation": {"devices": 7}}}
    view = view_of(slices("a", "t4x2"), [bad, held("good", "a/gpu-0")])
    assert states(view)["a/gpu-0"] == "whole"
    (note,) = view.notes
    assert note.startswith("ResourceClaim x/bad is left out")


@pytest.mark.parametrize("seed", range(20))
def test_amounts_are_those_that_quotas_count(seed: int) -> None:
    """Whatever claims hold, the view and ``controller.quotas.price`` have the same memory and cores."""
    rng, parts = random.Random(seed), [*slices("a", "a100x4"), *slices("b", "ascend310px4")]
    devices = {
        DeviceId(part.driver, part.pool, device.name): device
        for part in map(slice_from, parts)
        for device in part.devices
    }
    claims = []
    for number in range(12):
        device = rng.choice([*devices, DeviceId("lode.dev", "gone/lode.dev", "gpu-0")])
        share: Any = (
            {"memory": rng.randrange(GIB), "cores": rng.randrange(100)} if device.device.endswith("-share") else {}
        )
        claims.append(held(f"c{number}", f"{device.pool.partition('/')[0]}/{device.device}", **share))
    allocations = [found for raw in claims if (found := claim_from(raw).allocation)]
    prices = [price(allocation, devices.get, NAMES).amounts for allocation in allocations]
    view = view_of(parts, claims)
    assert sum(card.memory_held for card in view.cards) * 10**9 == sum(one.get("memory", 0) for one in prices)
    assert sum(card.cores_held for card in view.cards) * 10**9 == sum(one.get("cores", 0) for one in prices)
