"""Where the answer differs from kube-scheduler's allocator on purpose; docs/differences.md tells why."""

from dataclasses import replace
from itertools import permutations

import pytest

from controller.explaining.messages import render
from driver.model import (
    AttributeValue,
    Capacity,
    Constraint,
    NodeRequirement,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    RequestPolicy,
    Slice,
    UnreadableValue,
    Want,
)
from driver.quantity import Quantity
from driver.wire import claim_from
from tests.unit.controller.allocation.small_fleets import (
    DRIVER,
    NODE,
    claim,
    device,
    fleet,
    hold,
    names,
    pool,
    q,
    refused,
    want,
)

CARDS = [device(f"gpu-{i}", {"v": i}) for i in range(2)]
EVERY = replace(want(mode="All"), name="every")
ONE = replace(want(), name="one")
FAILING = f'device.attributes["{DRIVER}"].missing == 1'


def elsewhere(*, complete: bool = True) -> Slice:
    """A pool that every node reaches."""
    return Slice(
        "other", "b.example.com", "other", 1, 1 if complete else 2, NodeScope(all_nodes=True), (device("far"),)
    )


def test_an_overdrawn_counter_keeps_only_those_devices_out_that_draw_on_it() -> None:
    sets = {"card": {"used": 1, "left": 4}}
    parts = [device(f"p{i}", draws={"card.used": 1}) for i in range(2)] + [device("p2", draws={"card.left": 1})]
    generous = fleet(*pool(*parts, sets={"card": {"used": 2, "left": 4}}))
    (taken,) = hold(generous, claim(want(count=2)))
    built = fleet(*pool(*parts, sets=sets))
    built.ledger.assume("before", taken)
    assert names(built.allocate(NODE, {}, [claim(want())])) == [["p2"]]


def test_a_device_that_draws_below_0_on_a_counter_leaves_others_no_more() -> None:
    parts = [device("giving", draws={"card.used": -1}), *[device(f"p{i}", draws={"card.used": 1}) for i in range(2)]]
    built = fleet(*pool(*parts, sets={"card": {"used": 1}}))
    assert names(built.allocate(NODE, {}, [claim(want(count=2))])) == [["giving", "p0"]]
    refused(built.allocate(NODE, {}, [claim(want(count=3))]))


def test_where_a_constraint_does_not_allow_all_devices_the_next_alternative_is_tried() -> None:
    built = fleet(*pool(*CARDS))
    alike = (Constraint((), f"{DRIVER}/v"),)
    assert names(built.allocate(NODE, {}, [claim((EVERY, ONE), constraints=alike)])) == [["gpu-0"]]


def test_before_all_devices_of_a_request_others_are_tried_for_the_first() -> None:
    built = fleet(*pool(device("gpu-0", {"v": 0}), device("gpu-1", {"v": 1}), device("nic-0", {"v": 1, "kind": "nic"})))
    asked = claim(want(), want("nic", mode="All", name="nics"), constraints=(Constraint((), f"{DRIVER}/v"),))
    assert names(built.allocate(NODE, {}, [asked])) == [["gpu-1", "nic-0"]]


def test_an_unfinished_pool_rules_out_the_alternative_that_wants_all_devices_and_no_other() -> None:
    built = fleet(*pool(*CARDS), elsewhere(complete=False))
    assert names(built.allocate(NODE, {}, [claim((ONE, EVERY))])) == [["gpu-0"]]
    assert names(built.allocate(NODE, {}, [claim((EVERY, ONE))])) == [["gpu-0"]]


def test_a_selector_of_an_alternative_that_is_not_reached_cannot_fail() -> None:
    built = fleet(*pool(*CARDS))
    failing = replace(want("any", FAILING, mode="All"), name="failing")
    assert names(built.allocate(NODE, {}, [claim((ONE, failing))])) == [["gpu-0"]]
    assert "missing" in refused(built.allocate(NODE, {}, [claim((failing, ONE))])).sentences[0]


def test_a_selector_that_fails_on_a_device_of_one_node_leaves_the_other_nodes() -> None:
    good = device("gpu-0", {"missing": 1})
    built = fleet(*pool(CARDS[0]), *pool(good, node="n2"))
    asked = [claim(want("any", FAILING))]
    assert "missing" in refused(built.allocate(NODE, {}, asked)).sentences[0]
    assert names(built.allocate("n2", {}, asked)) == [["gpu-0"]]


def test_a_selector_is_not_asked_about_a_device_for_another_node() -> None:
    good = device("good", {"missing": 1}, scope=NodeScope(NODE))
    other = device("other", scope=NodeScope("n2"))
    built = fleet(Slice("s", DRIVER, "p", 1, 1, NodeScope(per_device=True), (other, good)))
    assert names(built.allocate(NODE, {}, [claim(want("any", FAILING))])) == [["good"]]


@pytest.mark.parametrize(
    ("constraint", "chosen"),
    [(Constraint((), f"{DRIVER}/near"), ["a", "b"]), (Constraint((), "", f"{DRIVER}/near"), ["a", "c"])],
)
def test_a_list_is_a_set_of_values_whether_the_gate_is_on_or_not(constraint: Constraint, chosen: list[str]) -> None:
    near = {"a": (0, 1), "b": (1, 2), "c": (3,)}
    built = fleet(*pool(*[device(name, {"near": values}) for name, values in near.items()]))
    assert names(built.allocate(NODE, {}, [claim(want(count=2), constraints=(constraint,))])) == [chosen]


def test_devices_that_share_a_list_value_two_by_two_only_do_not_match() -> None:
    near = {"a": (0, 1), "b": (1, 2), "c": (2, 0)}
    built = fleet(*pool(*[device(name, {"near": values}) for name, values in near.items()]))
    alike = (Constraint((), f"{DRIVER}/near"),)
    assert not isinstance(built.allocate(NODE, {}, [claim(want(count=3), constraints=alike)]), tuple)


UNREADABLE = UnreadableValue("it has no value of a kind that is known")
OURS = f'device.attributes["{DRIVER}"]'


def test_a_value_that_nobody_reads_harms_nobody() -> None:
    foreign = Slice("f", "b.example.com", "f", 1, 1, NodeScope(NODE), (device("far", {"near": UNREADABLE}),))
    built = fleet(*pool(device("a", {"near": UNREADABLE, "v": 1}), device("b", {"near": 1, "v": 1})), foreign)
    alike = (Constraint((), f"{DRIVER}/v"),)
    assert names(built.allocate(NODE, {}, [claim(want(count=2), constraints=alike)])) == [["a", "b"]]
    assert names(
        built.allocate(NODE, {}, [claim(want("any", f'device.driver == "{DRIVER}" && {OURS}.v == 1', count=2))])
    ) == [["a", "b"]]


def test_a_selector_that_reads_it_fails_on_that_device_and_names_device_attribute_and_remedy() -> None:
    built = fleet(*pool(device("a", {"near": UNREADABLE})), *pool(device("b", {"near": 1}), node="n2"))
    asked = [claim(want("any", f"{OURS}.near == 1"))]
    (reason,) = refused(built.allocate(NODE, {}, asked)).sentences
    assert f"attribute {DRIVER}/near cannot be read; test first that" in reason
    assert "(on a)" in reason
    assert names(built.allocate("n2", {}, asked)) == [["b"]]
    tested = f'"near" in {OURS} && {OURS}.near == 1'
    both = fleet(*pool(device("a", {"near": UNREADABLE}), device("b", {"near": 1})))
    assert names(both.allocate(NODE, {}, [claim(want("any", tested))])) == [["b"]]


@pytest.mark.parametrize(
    ("constraint", "chosen"),
    [(Constraint((), f"{DRIVER}/near"), ["b", "d"]), (Constraint((), "", f"{DRIVER}/near"), ["b", "c"])],
)
def test_a_constraint_allows_no_device_whose_value_cannot_be_read(constraint: Constraint, chosen: list[str]) -> None:
    near: dict[str, AttributeValue] = {"a": UNREADABLE, "b": 1, "c": 2, "d": 1}
    built = fleet(*pool(*[device(name, {"near": value}) for name, value in near.items()]))
    assert names(built.allocate(NODE, {}, [claim(want(count=2), constraints=(constraint,))])) == [chosen]


FRACTIONS = (
    ("100m", "100m", "150m", "200m"),
    ("100m", "100m", "50m", "100m"),
    ("500m", "250m", "1", "1"),
    ("1", "1", "1500m", "2"),
    ("1", "500m", "1200m", "1500m"),
)


@pytest.mark.parametrize(("least", "step", "asked", "taken"), FRACTIONS)
def test_a_range_in_fractions_means_what_it_says(least: str, step: str, asked: str, taken: str) -> None:
    cores = Capacity(q("8"), RequestPolicy(q("1"), (), q(least), None, q(step)))
    built = fleet(*pool(device("share", {"kind": "share"}, capacity={"cores": cores}, shared=True)))
    (allocation,) = hold(built, claim(want("share", capacity={"cores": asked})))
    assert allocation.results[0].consumed == {"cores": q(taken)}


@pytest.mark.parametrize("amount", ["100E", str(2**63), str(10**40)])
def test_an_amount_no_device_can_give_leaves_the_other_alternatives(amount: str) -> None:
    card = device("share", {"kind": "share"}, capacity={"memory": "8"}, shared=True)
    too_much = replace(want("share"), name="much", capacity={"memory": Quantity.parse(amount)})
    asked = claim((too_much, replace(want("share", capacity={"memory": "1"}), name="some")))
    (allocation,) = hold(fleet(*pool(card)), asked)
    assert allocation.results[0].request == "r0/some"


POLICIES = (
    None,
    RequestPolicy(q("1"), (), q("1"), q("8"), q("1")),
    RequestPolicy(q("1"), (), q("0"), None, q("1")),
    RequestPolicy(q("1"), (q("1"), q("4"))),
)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_amount_below_0_is_a_fault_of_the_claim_whatever_a_policy_would_make_of_it(
    policy: RequestPolicy | None, shared: bool
) -> None:
    card = device("card", {}, capacity={"memory": Capacity(q("8"), policy)}, shared=shared)
    below = replace(want("any"), name="below", capacity={"memory": q("-1")})
    asked = claim((below, replace(want("any"), name="some")))
    (reason,) = refused(fleet(*pool(card)).allocate(NODE, {}, [asked])).sentences
    assert "spec.devices.requests[0].firstAvailable[0].capacity.requests[memory]: -1 is below 0" in reason


@pytest.mark.parametrize("counts", [(33,), (20, 20)])
def test_counts_above_the_limit_of_a_claim_are_a_fault_of_the_claim(counts: tuple[int, ...]) -> None:
    asked = claim(*[Want("gpu", count=count) for count in counts])
    assert "exceed the limit of 32" in refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [asked])).sentences[0]


def test_derived_attributes_are_refused_on_the_claim() -> None:
    exactly = {"deviceClassName": "gpu", "derivedAttributes": [{"name": "a.example.com/x", "expression": "1"}]}
    requests = [{"name": "r0", "exactly": exactly}]
    asked = {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": {"devices": {"requests": requests}}}
    (fault,) = refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [claim_from(asked)])).faults
    assert "derivedAttributes" in str(fault)


def test_operations_to_be_skipped_are_told_whatever_the_node_declares() -> None:
    (part,) = pool(*CARDS)
    (allocation,) = hold(fleet(replace(part, skip_node_operations=("*",))), claim(want()))
    assert allocation.results[0].skip_node_operations == ("*",)


def test_counters_of_two_drivers_whose_pools_share_a_name_are_counted_apart() -> None:
    card = device("card", draws={"set.units": 1})
    parts = [
        replace(part, pool="same", name=f"{driver}-{part.name}")
        for driver in ("a.example.com", "b.example.com")
        for part in pool(card, sets={"set": {"units": 1}}, driver=driver)
    ]
    built = fleet(*parts)
    asked = [claim(want("any"), name="one"), claim(want("any"), name="two")]
    assert names(built.allocate(NODE, {}, asked)) == [["card"], ["card"]]
    assert not isinstance(built.allocate(NODE, {}, [*asked, claim(want("any"), name="three")]), tuple)


def test_devices_of_an_older_generation_are_gone_from_every_node() -> None:
    old = Slice("old", DRIVER, "p", 1, 1, NodeScope(NODE), (CARDS[0],))
    new = Slice("new", DRIVER, "p", 2, 1, NodeScope("n2"), (CARDS[1],))
    built = fleet(old, new)
    assert not isinstance(built.allocate(NODE, {}, [claim(want())]), tuple)
    assert names(built.allocate("n2", {}, [claim(want())])) == [["gpu-1"]]


@pytest.mark.parametrize("counts", [(1, 2), (2, 2, 3), (1, 1), (2, 1, 3)])
def test_slices_that_contradict_each_other_or_are_too_many_are_not_used_whatever_their_names(
    counts: tuple[int, ...],
) -> None:
    for named in permutations(counts):
        parts = [
            Slice(f"s{number}", DRIVER, "p", 1, count, NodeScope(NODE), (device(f"gpu-{number}"),))
            for number, count in enumerate(named)
        ]
        answer = render(refused(fleet(*parts).allocate(NODE, {}, [claim(want())])))
        said = [*dict.fromkeys(map(str, sorted(counts)))]
        if len(said) > 1:
            assert f"contradict each other: resourceSliceCount {' and '.join(said)}" in answer
        else:
            assert "has 2 slices of generation 1, and each says that there are 1" in answer


def test_a_device_that_selects_nodes_by_several_terms_is_not_used_and_named() -> None:
    terms = tuple(NodeSelectorTerm((NodeRequirement("zone", "In", (zone,)),)) for zone in "ab")
    for count in (1, 2):
        scope = NodeScope(selector=NodeSelector(terms[:count]))
        part = Slice("s", DRIVER, "p", 1, 1, NodeScope(per_device=True), (replace(CARDS[0], scope=scope),))
        answer = fleet(part).allocate(NODE, {"zone": "a"}, [claim(want())])
        if count == 1:
            assert names(answer) == [["gpu-0"]]
        else:
            assert "device 'gpu-0': nodeSelector has 2 terms; it may have one" in render(refused(answer))
