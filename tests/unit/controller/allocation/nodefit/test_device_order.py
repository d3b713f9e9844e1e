"""Which devices and nodes are preferred, and that a preference never decides whether a claim can be satisfied."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings

from controller.allocation import Fleet
from controller.explaining.messages import render
from driver.model import Claim, Device, DeviceClass, OpaqueConfig, Result, Want
from driver.names import NUMA_NODE, PCIE_ROOT, Names
from driver.parameters import PlacementPolicy
from tests.unit.controller.allocation.small_fleets import (
    DRIVER,
    NODE,
    claim,
    device,
    fleet,
    hold,
    memory,
    names,
    pool,
    q,
    refused,
    want,
)
from tests.unit.controller.allocation.test_laws import cards, claims, consumption

POLICIES = get_args(PlacementPolicy)


def placement(*requests: str, **fields: object) -> OpaqueConfig:
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", **fields}
    return OpaqueConfig(DRIVER, parameters, requests)


def by(policy: str, *wants: Want, name: str = "c", **fields: object) -> Claim:
    return claim(*wants, config=(placement(policy=policy, **fields),), name=name)


def share(mib: int, **more: str) -> Want:
    return want("share", capacity={"memory": f"{mib}Mi", **more})


def shared_cards(*sizes: int) -> list[Device]:
    """Shareable cards of these sizes, MiB."""
    return [
        device(f"s{i}", {"kind": "share"}, capacity={"memory": memory(f"{size}Mi")}, shared=True)
        for i, size in enumerate(sizes)
    ]


def in_use(built: Fleet, used: Sequence[int], node: str = NODE) -> None:
    """MiB in use of each shared card of the node, by claims of their own."""
    for index, mib in enumerate(used):
        if mib:
            one = want(
                "share", f'device.attributes["lode.dev"].at == "{node}-{index}"', capacity={"memory": f"{mib}Mi"}
            )
            answer = built.allocate(node, {}, [claim(one, name=f"{node}-{index}")])
            assert isinstance(answer, tuple)
            built.ledger.assume(f"{node}-{index}", answer[0])


def located(devices: Sequence[Device], node: str = NODE) -> list[Device]:
    return [
        replace(one, attributes={**one.attributes, f"{DRIVER}/at": f"{node}-{index}"})
        for index, one in enumerate(devices)
    ]


# Shares: MiB of each card, MiB in use of it, MiB asked for, and the card each policy chooses

SHARES: tuple[tuple[tuple[int, ...], tuple[int, ...], int, Mapping[str, str]], ...] = (
    ((30000, 30000), (3000, 6000), 1000, {"firstFit": "s0", "binpack": "s1", "spread": "s0"}),
    ((30000, 30000), (3000, 3000), 1000, {"firstFit": "s0", "binpack": "s0", "spread": "s0"}),
    ((30000, 30000), (3000, 0), 1000, {"firstFit": "s0", "binpack": "s0", "spread": "s1"}),
    # Fuller, though less of it is in use.
    ((80000, 24000), (20000, 18000), 4000, {"firstFit": "s0", "binpack": "s1", "spread": "s0"}),
    # The fullest that still has room.
    ((30000, 30000, 30000), (29500, 10000, 5000), 1000, {"firstFit": "s1", "binpack": "s1", "spread": "s2"}),
    # A card in use before an idle one that would be fuller, and the other way round.
    ((16000, 80000), (0, 8000), 8000, {"firstFit": "s0", "binpack": "s1", "spread": "s0"}),
    # Of idle cards the one that would be fullest, or emptiest.
    ((80000, 16000), (0, 0), 8000, {"firstFit": "s0", "binpack": "s1", "spread": "s0"}),
)


@pytest.mark.parametrize(("sizes", "used", "asked", "chosen"), SHARES)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_share_goes_to_the_fullest_or_emptiest_card(
    sizes: tuple[int, ...], used: tuple[int, ...], asked: int, chosen: Mapping[str, str], policy: str
) -> None:
    built = fleet(*pool(*located(shared_cards(*sizes))))
    in_use(built, used)
    assert names(built.allocate(NODE, {}, [by(policy, share(asked))])) == [[chosen[policy]]]


def test_a_card_is_as_full_as_its_fullest_capacity_that_is_asked_for() -> None:
    def card(name: str) -> Device:
        capacity = {"memory": memory("100Mi"), "cores": memory("100", "0", least="0", step="1")}
        return device(name, {"kind": "share"}, capacity=capacity, shared=True)

    built = fleet(*pool(*located([card("s0"), card("s1")])))
    for index, amounts in enumerate(({"memory": "50Mi", "cores": "10"}, {"memory": "10Mi", "cores": "60"})):
        one = want("share", f'device.attributes["lode.dev"].at == "{NODE}-{index}"', capacity=amounts)
        hold(built, claim(one, name=f"held-{index}"))
    both = {"memory": "5Mi", "cores": "5"}
    assert names(built.allocate(NODE, {}, [by("binpack", want("share", capacity=both))])) == [["s1"]]
    assert names(built.allocate(NODE, {}, [by("binpack", want("share", capacity={"memory": "5Mi"}))])) == [["s0"]]


def test_two_shares_of_one_pod_are_packed_or_spread_one_after_the_other() -> None:
    built = fleet(*pool(*shared_cards(40000, 40000)))
    for policy, chosen in (("binpack", ["s0", "s0"]), ("spread", ["s0", "s1"])):
        assert names(built.allocate(NODE, {}, [by(policy, share(1000), share(1000))])) == [chosen]


def test_packing_takes_back_what_does_not_lead_to_a_solution() -> None:
    """The fullest card has room for the first share, but then there is none for the second."""
    built = fleet(*pool(*located(shared_cards(40000, 16000))))
    in_use(built, (30000, 10000))
    assert names(built.allocate(NODE, {}, [by("binpack", share(6000), share(10000))])) == [["s1", "s0"]]


def results(answer: object) -> Sequence[Result]:
    assert isinstance(answer, tuple), answer
    return [result for allocation in answer for result in allocation.results]


# Whole cards and locality: cards as (NVLink domain, PCIe root, NUMA node)

DGX = [("nv0", f"root{i // 2}", i // 4) for i in range(8)]
PAIRS = [("", f"root{i // 2}", i // 4) for i in range(8)]
BRIDGED = [(f"bridge{i // 2}", f"root{i}", i % 2) for i in range(8)]
LONE = [("", f"root{i}", i % 2) for i in range(8)]


def wired(cards: Sequence[tuple[str, str, int]]) -> list[Device]:
    return [
        replace(
            (one := device(f"g{i}")),
            attributes={
                **one.attributes,
                f"{DRIVER}/nvlinkDomain": domain,
                f"{DRIVER}/index": i,
                PCIE_ROOT: root,
                NUMA_NODE: numa,
            },
        )
        for i, (domain, root, numa) in enumerate(cards)
    ]


# cards, those in use, how many are asked for, and the cards chosen
NEAR: tuple[tuple[str, Sequence[tuple[str, str, int]], set[int], int, Mapping[str, Sequence[int]]], ...] = (
    ("a pair behind one root", DGX, {0}, 2, {"binpack": (2, 3), "spread": (4, 5), "firstFit": (2, 3)}),
    ("four of one NUMA node", DGX, {0}, 4, {"binpack": (4, 5, 6, 7), "spread": (4, 5, 6, 7), "firstFit": (4, 5, 6, 7)}),
    ("no root has three, a NUMA node does", PAIRS, {0}, 3, {"binpack": (2, 3, 1), "spread": (4, 5, 6)}),
    ("one more than a NUMA node has", PAIRS, set(), 5, {"binpack": (0, 1, 2, 3, 4), "spread": (0, 1, 2, 3, 4)}),
    ("a bridge before a root or NUMA node", BRIDGED, {0}, 2, {"binpack": (2, 3), "firstFit": (2, 3)}),
    (
        "cards alone behind their roots",
        LONE,
        {1},
        3,
        {"binpack": (3, 5, 7), "spread": (0, 2, 4), "firstFit": (0, 2, 4)},
    ),
    ("one card: next to those in use, or far away", PAIRS, {0, 4, 5}, 1, {"binpack": (1,), "spread": (2,)}),
    ("one card of the fuller NUMA node", LONE, {1}, 1, {"binpack": (3,), "spread": (0,)}),
    ("all there are", DGX, {3}, 7, {"binpack": (0, 1, 2, 4, 5, 6, 7)}),
)


@pytest.mark.parametrize(("case", "cards", "used", "count", "chosen"), NEAR, ids=[one[0] for one in NEAR])
def test_several_cards_are_close_to_one_another(
    case: str, cards: Sequence[tuple[str, str, int]], used: set[int], count: int, chosen: Mapping[str, Sequence[int]]
) -> None:
    built = fleet(*pool(*wired(cards)))
    for index in used:
        hold(built, claim(want("gpu", f'device.attributes["lode.dev"].index == {index}'), name=f"u{index}"))
    for policy, indices in chosen.items():
        answer = built.allocate(NODE, {}, [by(policy, want(count=count), locality="preferred")])
        assert sorted(names(answer)[0]) == sorted(f"g{i}" for i in indices), policy


def test_locality_is_preferred_under_binpack_and_spread_unless_said_otherwise() -> None:
    built = fleet(*pool(*wired(LONE)))
    close, first = ["g0", "g2"], ["g0", "g1"]
    for policy, locality, chosen in (
        ("firstFit", None, first),
        ("firstFit", "none", first),
        ("firstFit", "preferred", close),
        ("binpack", None, close),
        ("binpack", "none", first),
        ("spread", None, close),
    ):
        fields = {"locality": locality} if locality else {}
        assert names(built.allocate(NODE, {}, [by(policy, want(count=2), **fields)])) == [chosen], (policy, locality)


def test_locality_never_refuses() -> None:
    apart = [(f"nv{i}", f"root{i}", i) for i in range(4)]
    built = fleet(*pool(*wired(apart)))
    assert len(names(built.allocate(NODE, {}, [by("binpack", want(count=4))]))[0]) == 4
    bare = fleet(*pool(*[device(f"g{i}") for i in range(3)]))
    assert names(bare.allocate(NODE, {}, [by("binpack", want(count=2))])) == [["g0", "g1"]]


def test_every_request_has_a_policy_of_its_own() -> None:
    built = fleet(*pool(*located(shared_cards(1000, 1000, 1000))))
    in_use(built, (100, 500, 0))
    config = (placement("r0", policy="binpack"), placement("r1", policy="spread"))
    asked = claim(share(10), share(10), share(10), config=config)
    assert names(built.allocate(NODE, {}, [asked])) == [["s1", "s2", "s0"]]


def test_the_claim_wins_over_the_class_and_later_entries_over_earlier_ones_field_by_field() -> None:
    built = fleet(*pool(*located(shared_cards(1000, 1000))))
    in_use(built, (0, 500))
    selector = f'device.attributes["{DRIVER}"].kind == "share"'
    built.upsert_class(DeviceClass("share", (selector,), (placement(policy="binpack", memoryPercent=20),)))
    for config, chosen, mib in (
        ((), "s1", 200),
        ((placement(policy="spread"),), "s0", 200),
        ((placement(policy="firstFit"),), "s0", 200),
        ((placement(policy="firstFit"), placement(policy="binpack", memoryPercent=30)), "s1", 300),
        ((placement("r9", policy="spread"),), "s1", 200),
    ):
        (got,) = results(built.allocate(NODE, {}, [claim(want("share"), config=config)]))
        assert (got.device.device, got.consumed["memory"]) == (chosen, q(f"{mib}Mi"))


# Laws


def with_policy(asked: Claim, policy: str) -> Claim:
    return replace(asked, spec=replace(asked.spec, config=(placement(policy=policy),)))


@settings(max_examples=200)
@given(cards(), claims())
def test_a_policy_never_decides_whether_a_claim_can_be_satisfied(
    made: tuple[list[Device], dict[str, dict[str, int]]], asked: Claim
) -> None:
    built = fleet(*pool(*made[0], sets=made[1]), step_limit=100_000)
    answers = [built.allocate(NODE, {}, [with_policy(asked, policy)]) for policy in POLICIES]
    assert len({isinstance(answer, tuple) for answer in answers}) == 1
    none = built.allocate(NODE, {}, [asked])
    if isinstance(none, tuple):
        assert names(answers[0]) == names(none)
    for answer in answers:
        if isinstance(answer, tuple):
            assert not consumption(made[0], answer[0].results)


def test_parameters_are_those_of_the_driver_as_it_is_called() -> None:
    named = Fleet(names=Names("acme.example"))
    named.upsert_class(DeviceClass("any"))
    for part in pool(*[device(f"g{i}", {"numa": i % 2}) for i in range(2)], driver="acme.example"):
        named.ledger.upsert_slice(part)
    theirs, ours = placement(policy="nonsense"), {"apiVersion": "acme.example/v1alpha1", "kind": "PlacementConfig"}
    good = claim(want("any"), config=(theirs, OpaqueConfig("acme.example", {**ours, "policy": "spread"})))
    assert names(named.allocate(NODE, {}, [good])) == [["g0"]]
    bad = claim(want("any"), config=(OpaqueConfig("acme.example", {**ours, "policy": "nonsense"}),))
    assert "spec.devices.config[0].opaque.parameters.policy: unsupported value: 'nonsense'" in render(
        refused(named.allocate(NODE, {}, [bad]))
    )
