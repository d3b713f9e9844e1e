"""Reasons of many nodes are told together: grouped, in order, and within the limits of their text."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import Exclusion, NodeReasons, Shortage
from controller.allocation.reasons import MOST_CAUSES
from controller.explaining.messages import MOST_GROUPS, Closest, render, summarise
from driver.model import Taint
from tests.unit.controller.allocation.small_fleets import NODE, claim, device, fleet, hold, pool, refused, want

CARDS = [device(f"gpu-{i}", {"type": "A100" if i < 3 else "H100"}) for i in range(4)]


def test_nodes_with_equal_reasons_are_told_together_and_within_the_limit() -> None:
    answers: dict[str, NodeReasons] = {}
    for number in range(300):
        cards = [replace(card, name=f"{card.name}-{number % 40}") for card in CARDS]
        built = fleet(*pool(*cards[: 1 + number % 4]))
        hold(built, claim(want(), name=f"holder-{number % 25}"))
        answers[f"node-{number:03}"] = refused(built.allocate(NODE, {}, [claim(want(count=9))]))
    text = render(answers)
    assert len(text) <= 1024
    assert text.startswith(
        "75 nodes (node-000, node-004, node-008, ...): claim ns/c, request r0: wants 9 of gpu, 0 of 1 d"
    )
    assert "in use by uid-holder-0, uid-holder-1, uid-holder-10 and 72 more" in text
    assert text.endswith("Closest: 75 nodes (node-003, node-007, node-011, ...) have 3 of 9")
    same = render({f"node-{number}": answers["node-000"] for number in range(5000)})
    assert same.startswith("5000 nodes (node-0, node-1, node-10, ...): claim ns/c, request r0: wants 9 of gpu")


def test_many_causes_of_one_kind_are_counted_together() -> None:
    cards = [replace(device(f"g{i}"), taints=(Taint("t", str(i), "NoSchedule"),)) for i in range(40)]
    (shortage,) = refused(fleet(*pool(*cards)).allocate(NODE, {}, [claim(want())])).shortages
    assert len(shortage.exclusions) == MOST_CAUSES + 1
    assert shortage.exclusions[-1] == Exclusion(28, "other", "28")
    assert sum(one.count for one in shortage.exclusions) == 40


# The whole fleet


def test_the_largest_group_comes_first_and_equal_ones_in_the_order_of_their_nodes() -> None:
    refusals = {"n1": "a", "n2": "b", "n3": "c", "n4": "c", "n5": "b", "n6": "c"}
    found = summarise({node: NodeReasons(predicates=(why,)) for node, why in refusals.items()})
    assert [group.reasons.predicates for group in found.groups] == [("c",), ("b",), ("a",)]
    equal = summarise({node: NodeReasons(predicates=(node,)) for node in ("n2", "n1")})
    assert [group.named for group in equal.groups] == [("n1",), ("n2",)]


def test_what_is_most_likely_to_change_comes_before_what_never_fits_on_many_nodes() -> None:
    few, enough = fleet(*pool(device("g0"))), fleet(*pool(device("g0"), device("g1")))
    hold(enough, claim(want(), name="holder"))
    never, later = (refused(it.allocate(NODE, {}, [claim(want(count=2))])) for it in (few, enough))
    off = NodeReasons(("node taint node-role.kubernetes.io/control-plane is not tolerated",))
    groups = summarise({"n1": never, "n2": never, "n3": never, "n4": off, "n5": off, "n6": later}).groups
    assert [(group.nodes, group.named[0]) for group in groups] == [(1, "n6"), (2, "n4"), (3, "n1")]


def test_what_remains_of_many_groups_is_summed_up() -> None:
    refusals = {}
    for number in range(40):
        built = fleet(*pool(*[device(f"g{i}") for i in range(30)]))
        hold(built, claim(want(count=number % 20 + 1), name=f"h{number}"))
        refusals[f"n{number:02}"] = refused(built.allocate(NODE, {}, [claim(want(count=30))]))
    told = summarise({**refusals, "n99": NodeReasons(("the node is not ready",))})
    assert (told.nodes, len(told.groups)) == (41, MOST_GROUPS)
    rest = told.groups[-1]
    assert rest.summed
    assert sum(group.nodes for group in told.groups) == 41
    (shortage,) = rest.reasons.shortages
    assert shortage.seen == shortage.available + shortage.exclusions[0].count
    assert shortage.more_holders == rest.nodes - 1 - len(shortage.holders)
    assert rest.reasons.predicates == ("the node is not ready",)
    assert f"{rest.nodes} other nodes, together: the node is not ready; claim ns/c" in render(told, 10**6)
    assert told.closest is not None
    assert (told.closest.nodes, told.closest.fit, told.closest.wanted) == (2, 29, 30)


def test_where_the_claims_in_the_way_differ_the_node_is_named() -> None:
    refusals = {}
    for node in ("n1", "n2", "n3"):
        built = fleet(*pool(*CARDS, node=node))
        one = built.allocate(node, {}, [claim(want(count=2))])
        assert isinstance(one, tuple)
        built.ledger.assume(f"held-{node}", one[0])
        refusals[node] = refused(built.allocate(node, {}, [claim(want(count=4))]))
    assert "; in use by held-n1, held-n2, held-n3" in render(refusals)
    (group,) = summarise(refusals).groups
    assert (group.nodes, group.named) == (3, ("n1", "n2", "n3"))
    closest = summarise(refusals).closest
    assert closest == Closest(3, ("n1", "n2", "n3"), "r0", 2, 4, ("held-n1",), "n1")


def test_a_refusal_by_five_thousand_nodes_and_a_thousand_claims_is_small() -> None:
    """Every node differs: in who holds its cards, in its taints, and in why."""
    refusals: dict[str, NodeReasons] = {}
    for number in range(5000):
        holders = tuple(f"team-{number % 7}/{'long-' * 20}{number % 1000 + i}" for i in range(3))
        excluded = tuple(Exclusion(number % 50 + 1, "taint", f"key-{number}={i}:NoSchedule") for i in range(5))
        one = Shortage("ns/c", "r0", "gpu", 8, 64, number % 8, excluded, holders, 40, holders[: number % 3])
        refusals[f"node-{'x' * 40}-{number:04}"] = NodeReasons(
            (f"node taint {number % 3000} is not tolerated",) if number % 2 else (), shortages=(one,)
        )
    told = summarise(refusals)
    assert sum(group.nodes for group in told.groups) == told.nodes == 5000
    assert len(told.groups) == MOST_GROUPS
    assert len(json.dumps(told.to_json())) < 20_000
    assert len(render(told)) <= 1024
    assert ". Closest: 625 nodes (" in render(told)
    assert all(group.reasons.of_devices for group in told.groups)


reasons_of_nodes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=40)


@given(reasons_of_nodes, st.integers(40, 1024))
def test_every_node_is_told_of_once_and_the_text_is_never_too_long(
    nodes: list[tuple[int, int, bool]], limit: int
) -> None:
    refusals: dict[str, NodeReasons] = {}
    for number, (available, busy, ready) in enumerate(nodes):
        excluded = (Exclusion(busy, "inUse"),) if busy else ()
        one = Shortage("ns/c", "r", "gpu", 9, available + busy, available, excluded, (f"ns/h{number}",) * bool(busy))
        refusals[f"n{number}"] = NodeReasons(shortages=(one,)) if ready else NodeReasons(("off",))
    told = summarise(refusals)
    assert sum(group.nodes for group in told.groups) == len(nodes)
    assert len(render(told, limit)) <= limit
    seen = sum(
        one.seen * (1 if group.summed else group.nodes)
        for group in told.groups
        if group.reasons.of_devices
        for one in group.reasons.shortages
    )
    assert seen == sum(available + busy for available, busy, ready in nodes if ready)
