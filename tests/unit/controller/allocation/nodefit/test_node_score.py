"""Which nodes are preferred, and that what is remembered of them is what there is."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import CompiledRequest, Fleet
from controller.allocation.nodefit.score import node_score
from controller.allocation.preferences import Preference, load, node_rank
from controller.placement import Placed, place
from driver.errors import Fault
from driver.model import Allocation, Claim, Device, Taint
from tests.unit.controller.allocation.nodefit.test_device_order import (
    POLICIES,
    by,
    in_use,
    located,
    share,
    shared_cards,
    wired,
    with_policy,
)
from tests.unit.controller.allocation.small_fleets import NODE, claim, device, fleet, pool, want
from tests.unit.controller.allocation.test_laws import cards, claims


def placed(answer: Placed | tuple[Fault, ...]) -> Placed:
    assert isinstance(answer, Placed)
    return answer


def test_a_load_is_in_millionths_rounded_down() -> None:
    assert [load(1, 3), load(2, 2), load(0, 7), load(0, 0)] == [333_333, 1_000_000, 0, 1_000_000]


# available, total and asked of two nodes; which of them binpack and spread prefer
RANKS = (
    ((8, 8, 1), (5, 8, 1), 1, 0),
    ((4, 8, 4), (8, 8, 4), 0, 1),
    # Fuller before smaller; of equally full ones that with least left.
    ((5, 8, 1), (4, 4, 1), 0, 1),
    ((8, 8, 2), (4, 4, 1), 1, 0),
)


@pytest.mark.parametrize(("one", "other", "packed", "spread"), RANKS)
def test_nodes_are_ranked_by_load_then_by_what_is_left(
    one: tuple[int, int, int], other: tuple[int, int, int], packed: int, spread: int
) -> None:
    for policy, chosen in (("binpack", packed), ("spread", spread)):
        preference = Preference(policy)  # type: ignore[arg-type]
        ranks = [node_rank(preference, *node) for node in (one, other)]
        assert ranks.index(min(ranks)) == chosen
    assert node_rank(Preference(), *one) == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_whole_cards_fill_or_balance_the_nodes(policy: str) -> None:
    nodes = ("a", "b", "c")
    built = fleet(*(part for n in nodes for part in pool(*[device(f"g{i}") for i in range(4)], node=n)))
    for name in nodes:
        built.ledger.upsert_node(name, {})
    built.ledger.assume("held", placed(place(built, [claim(want())], lambda name: name == "b")).allocations[0])
    chosen = []
    for number in range(6):
        got = placed(place(built, [by(policy, want(), name=f"p{number}")]))
        built.ledger.assume(f"p{number}", got.allocations[0])
        chosen.append(got.node)
    assert "".join(chosen) == {"firstFit": "aaaabb", "binpack": "bbbaaa", "spread": "acabca"}[policy]


def test_shares_fill_or_balance_the_nodes() -> None:
    built = fleet(*(part for n in ("a", "b") for part in pool(*located(shared_cards(1000, 1000), n), node=n)))
    for name in ("a", "b"):
        built.ledger.upsert_node(name, {})
    in_use(built, (0, 300), "b")
    for policy, node, chosen in (("firstFit", "a", "s0"), ("binpack", "b", "s1"), ("spread", "a", "s0")):
        got = placed(place(built, [by(policy, share(200))]))
        assert (got.node, got.allocations[0].results[0].device.device) == (node, chosen)
    assert placed(place(built, [by("binpack", share(800))])).allocations[0].results[0].device.device == "s0"


@pytest.mark.parametrize(
    ("policy", "node_policy", "node", "chosen"),
    [
        ("binpack", "spread", "a", "s0"),
        ("spread", "binpack", "b", "s0"),
        ("binpack", "binpack", "b", "s1"),
        ("binpack", "firstFit", "a", "s0"),
        ("firstFit", "binpack", "b", "s0"),
    ],
)
def test_nodes_can_have_another_policy_than_their_cards(policy: str, node_policy: str, node: str, chosen: str) -> None:
    built = fleet(*(part for n in ("a", "b") for part in pool(*located(shared_cards(1000, 1000), n), node=n)))
    for name in ("a", "b"):
        built.ledger.upsert_node(name, {})
    in_use(built, (0, 300), "b")
    got = placed(place(built, [by(policy, share(200), nodePolicy=node_policy)]))
    assert (got.node, got.allocations[0].results[0].device.device) == (node, chosen)


def test_a_node_that_cannot_run_the_pod_is_passed_over() -> None:
    built = fleet(*pool(device("g0"), node="a"), *pool(device("g0"), device("g1"), node="b"))
    for name in ("a", "b"):
        built.ledger.upsert_node(name, {})
    assert placed(place(built, [by("binpack", want())])).node == "a"
    assert placed(place(built, [by("binpack", want())], lambda name: name != "a")).node == "b"
    assert place(built, [by("binpack", want(count=3))]) == ()


def test_a_node_where_the_cards_are_close_comes_first() -> None:
    far, near = [("", f"root{i}", i) for i in range(4)], [("nv", f"root{i}", 0) for i in range(4)]
    built = fleet(*pool(*wired(far), node="a"), *pool(*wired(near), node="b"))
    for name in ("a", "b"):
        built.ledger.upsert_node(name, {})
    for policy, chosen in (("binpack", "b"), ("spread", "b"), ("firstFit", "a")):
        assert placed(place(built, [by(policy, want(count=2))])).node == chosen
    assert placed(place(built, [by("firstFit", want(count=2), locality="preferred")])).node == "b"


# Laws


@given(cards(), cards(), claims())
def test_a_policy_never_decides_whether_some_node_takes_a_claim(
    one: tuple[list[Device], dict[str, dict[str, int]]],
    two: tuple[list[Device], dict[str, dict[str, int]]],
    asked: Claim,
) -> None:
    made = {"a": one, "b": two}
    built = fleet(*(part for n, (d, sets) in made.items() for part in pool(*d, sets=sets, node=n)), step_limit=100_000)
    for name in made:
        built.ledger.upsert_node(name, {})
    answers = [place(built, [with_policy(asked, policy)]) for policy in POLICIES]
    assert len({isinstance(answer, Placed) for answer in answers}) == 1
    for policy, answer in zip(POLICIES, answers, strict=True):
        if isinstance(answer, Placed):
            assert answer.allocations == built.allocate(answer.node, {}, [with_policy(asked, policy)])
            assert place(built, [with_policy(asked, policy)]) == answer


@settings(max_examples=50)
@given(cards(), cards(), st.lists(st.tuples(claims(), st.sampled_from(POLICIES), st.integers(0, 5)), max_size=6))
def test_what_is_remembered_of_nodes_is_what_a_new_fleet_finds(
    one: tuple[list[Device], dict[str, dict[str, int]]],
    two: tuple[list[Device], dict[str, dict[str, int]]],
    steps: list[tuple[Claim, str, int]],
) -> None:
    made = {"a": one, "b": two}
    slices = [part for name, (devices, sets) in made.items() for part in pool(*devices, sets=sets, node=name)]

    def fresh() -> Fleet:
        built = fleet(*slices, step_limit=100_000)
        for name in made:
            built.ledger.upsert_node(name, {})
        return built

    built, held = fresh(), dict[str, Allocation]()
    for number, (asked, policy, gone) in enumerate(steps):
        wanted = with_policy(asked, policy)
        rebuilt = fresh()
        for uid, allocated in held.items():
            rebuilt.ledger.assume(uid, allocated)
        answer = place(built, [wanted])
        assert answer == place(rebuilt, [wanted])
        if isinstance(answer, Placed):
            held[f"u{number}"] = answer.allocations[0]
            built.ledger.assume(f"u{number}", answer.allocations[0])
        if held.pop(f"u{gone}", None):
            built.ledger.forget(f"u{gone}")


@settings(max_examples=150)
@given(
    cards(), st.lists(claims(), max_size=3), claims(), st.sampled_from(POLICIES), st.sampled_from(["", "NoSchedule"])
)
def test_masks_tell_of_a_node_what_its_devices_tell(
    made: tuple[list[Device], dict[str, dict[str, int]]], held: list[Claim], asked: Claim, policy: str, effect: str
) -> None:
    taints = (Taint("t", "", effect),) if effect else ()
    devices = [replace(one, taints=taints) if number % 3 == 0 else one for number, one in enumerate(made[0])]
    built = fleet(*pool(*devices, sets=made[1]), step_limit=100_000)
    for number, before in enumerate(held):
        got = built.allocate(NODE, {}, [before])
        if isinstance(got, tuple):
            built.ledger.assume(f"held-{number}", got[0])
    built.ledger.upsert_node(NODE, {})
    wanted = [with_policy(asked, policy)]
    place(built, wanted)
    request, index = built.compile(wanted), built._index
    slot = index.slot(NODE, {})
    assert isinstance(request, CompiledRequest)
    by_masks, by_devices = (
        node_score(index.order(slot), request, index, built._costs, lambda: built._search.node(slot), masks=masks)
        for masks in (True, False)
    )
    assert by_masks == by_devices
