"""The rules of a cordon: as few as the API allows, the same each time, and only those of this command are removed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cards.card import CardTarget, PublishedCard, cards_of
from cli.cards.rules import KnownRule, is_closed, known_rules, remaining_taints, to_cordon, to_uncordon
from driver.errors import OperatorFault
from driver.kube.api import Object
from driver.model import Taint
from driver.names import Names
from tests.unit.cli.cluster import slices

NAMES = Names()
CARDS = cards_of("n", slices("n", "a100x4"), NAMES)
CARD = CardTarget("n", CARDS[1], CARDS[1:2])
NODE = CardTarget("n", None, CARDS)


def stored(objects: list[Object]) -> list[KnownRule]:
    return known_rules([{**obj, "metadata": {**obj["metadata"], "uid": "u"}} for obj in objects], NAMES)


def rule(name: str, labels: dict[str, str] | None = None, effect: str = "NoSchedule", **selector: str) -> Object:
    spec: Object = {"taint": {"key": "example.com/repair", "effect": effect}, "deviceSelector": selector}
    return {"metadata": {"name": name, "uid": "u", "labels": labels or {}}, "spec": spec}


def test_a_card_needs_a_rule_for_each_of_its_devices_and_a_node_only_one() -> None:
    of_card = to_cordon(CARD, [], NAMES).create
    selectors = [obj["spec"]["deviceSelector"] for obj in of_card]
    assert [one["device"] for one in selectors] == list(CARDS[1].devices)
    assert {(one["driver"], one["pool"]) for one in selectors} == {("lode.dev", "n/lode.dev")}
    (of_node,) = to_cordon(NODE, [], NAMES).create
    assert of_node["spec"] == {
        "deviceSelector": {"driver": "lode.dev", "pool": "n/lode.dev"},
        "taint": {"key": "lode.dev/cordoned", "effect": "NoSchedule"},
    }
    assert of_node["metadata"] == {"name": "all.n.cordon.lode.dev", "labels": {"lode.dev/cordon": "true"}}


def test_the_whole_card_and_its_share_have_rules_even_while_they_are_not_published() -> None:
    partition = next(device for device in CARDS[1].devices if "-mig-" in device)
    card = PublishedCard("n", "gpu-1", devices={partition: ()})
    devices = [
        obj["spec"]["deviceSelector"]["device"] for obj in to_cordon(CardTarget("n", card, (card,)), [], NAMES).create
    ]
    assert devices == ["gpu-1", "gpu-1-share", partition]


@pytest.mark.parametrize("target", [CARD, NODE], ids=["card", "node"])
def test_cordoning_again_changes_nothing_and_uncordoning_removes_exactly_that(target: CardTarget) -> None:
    made = stored(list(to_cordon(target, [], NAMES).create))
    again = to_cordon(target, made, NAMES)
    assert not again.create
    assert not again.delete
    assert to_uncordon(target, made, NAMES).delete == tuple(made)


def test_what_is_missing_is_made_and_what_was_weakened_is_made_again() -> None:
    objects = list(to_cordon(CARD, [], NAMES).create)
    weak = {**objects[1], "spec": {**objects[1]["spec"], "taint": {"key": "lode.dev/cordoned", "effect": "None"}}}
    strong = {
        **objects[2],
        "spec": {**objects[2]["spec"], "taint": {"key": "lode.dev/cordoned", "effect": "NoExecute"}},
    }
    changes = to_cordon(CARD, stored([weak, strong, *objects[3:]]), NAMES)
    assert [obj["metadata"]["name"] for obj in changes.create] == [obj["metadata"]["name"] for obj in objects[:2]]
    assert [one.rule.name for one in changes.delete] == [objects[1]["metadata"]["name"]]


def test_a_card_and_its_node_are_cordoned_independently() -> None:
    node, card = to_cordon(NODE, [], NAMES).create, to_cordon(CARD, [], NAMES).create
    both = stored([*node, *card])
    assert {one.rule.name for one in to_uncordon(NODE, both, NAMES).delete} == {node[0]["metadata"]["name"]}
    assert len(to_uncordon(CARD, both, NAMES).delete) == len(card)
    assert not to_cordon(CARD, both, NAMES).create
    assert len(to_cordon(CARD, stored(list(node)), NAMES).create) == len(card)


OTHERS = [
    rule("drain-n-gpu-1", driver="lode.dev", pool="n/lode.dev", device="gpu-1"),
    rule("gpu-1.n.cordon.example.com", {"lode.dev/cordon": "true"}, device="gpu-1", pool="n/lode.dev"),
    rule("everything"),
]


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: one["metadata"]["name"])
@pytest.mark.parametrize("target", [CARD, NODE], ids=["card", "node"])
def test_a_rule_of_somebody_else_is_left_alone_and_named(target: CardTarget, other: Object) -> None:
    known = known_rules([other], NAMES)
    assert not to_uncordon(target, known, NAMES).delete
    (found,) = remaining_taints(CARDS[1], known, NAMES)
    assert found == (Taint("example.com/repair"), f"DeviceTaintRule {other['metadata']['name']}")


def test_a_rule_of_somebody_else_with_the_name_of_ours_is_not_replaced() -> None:
    name = to_cordon(NODE, [], NAMES).create[0]["metadata"]["name"]
    with pytest.raises(OperatorFault, match=r"all\.n\.cordon\.lode\.dev: exists, and `lode cordon` has not made it"):
        to_cordon(NODE, known_rules([rule(name, pool="n/lode.dev")], NAMES), NAMES)


@pytest.mark.parametrize(
    "other",
    [
        rule("other-node", pool="m/lode.dev"),
        rule("other-card", device="gpu-2", pool="n/lode.dev"),
        rule("other-driver", driver="gpu.nvidia.com"),
        rule("only-told", effect="None"),
        {**rule("nothing"), "spec": {"taint": {"key": "a", "effect": "NoSchedule"}}},
        {"metadata": {"name": "damaged"}, "spec": {"taint": 1, "deviceSelector": {}}},
    ],
    ids=lambda one: one["metadata"]["name"],
)
def test_a_rule_that_does_not_close_the_card_is_not_named(other: Object) -> None:
    assert not list(remaining_taints(CARDS[1], known_rules([other], NAMES), NAMES))


def test_taints_of_the_plugin_are_named_once_for_a_card() -> None:
    unhealthy = Taint("lode.dev/unhealthy")
    devices: dict[str, tuple[Taint, ...]] = {
        "gpu-1": (unhealthy, Taint("a", effect="None")),
        "gpu-1-share": (unhealthy,),
    }
    card = PublishedCard("n", "gpu-1", devices=devices)
    assert list(remaining_taints(card, [], NAMES)) == [(unhealthy, "the plugin of the node")]
    assert is_closed(card, [], NAMES)


def test_a_card_is_closed_only_if_every_device_of_it_is() -> None:
    objects = list(to_cordon(CARD, [], NAMES).create)
    assert is_closed(CARDS[1], stored(objects), NAMES)
    assert not is_closed(CARDS[1], stored(objects[1:]), NAMES)
    assert not is_closed(CARDS[0], stored(objects), NAMES)
    assert is_closed(CARDS[0], stored(list(to_cordon(NODE, [], NAMES).create)), NAMES)


LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
NODE_NAMES = st.lists(LABEL, min_size=1, max_size=4).map(".".join).filter(lambda name: len(name) <= 253)


@given(
    st.lists(st.tuples(NODE_NAMES, st.sampled_from(["", "gpu-0", "gpu-0-share", "npu-15-vir04-4c-dvpp-0"])), max_size=6)
)
def test_names_of_rules_are_valid_and_no_two_devices_share_one(places: list[tuple[str, str]]) -> None:
    names: dict[str, Any] = {}
    for node, device in places:
        card = PublishedCard(node, device, devices={device: ()}) if device else None
        target = CardTarget(node, card, ())
        for obj in to_cordon(target, [], NAMES).create:
            name, selector = obj["metadata"]["name"], obj["spec"]["deviceSelector"]
            assert len(name) <= 253
            assert names.setdefault(name, selector) == selector
