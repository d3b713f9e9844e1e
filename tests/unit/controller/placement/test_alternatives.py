"""An earlier alternative (``firstAvailable``) on any node comes before a later one, as kube-scheduler scores nodes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import Fleet
from controller.allocation.nodefit.score import alternatives
from controller.placement import Placed, place
from driver.model import Claim, Device, Want
from driver.wire import claim_from, class_from, slice_from
from tests.recorded_scores import CLASS, Case, recorded
from tests.unit.controller.allocation.nodefit.test_device_order import POLICIES, with_policy
from tests.unit.controller.allocation.small_fleets import claim, device, fleet, memory, pool, want
from tests.unit.controller.allocation.test_laws import cards, wants

CASES = list(recorded())
MOST = 8
"""Alternatives that a request may have (FirstAvailableDeviceRequestMaxSize), which is the score of the first."""


def built(case: Case) -> Fleet:
    made = Fleet()
    made.upsert_class(class_from(CLASS))
    for node in case.nodes:
        made.ledger.upsert_node(node, {})
    for part in case.slices():
        made.ledger.upsert_slice(slice_from(part))
    for holder in case.holders():
        metadata = {**holder["metadata"], "uid": holder["metadata"]["name"]}
        made.ledger.upsert_claim(claim_from({**holder, "metadata": metadata}))
    return made


def wanted(case: Case, policy: str = "firstFit") -> list[Claim]:
    return [with_policy(claim_from(raw), policy) for raw in case.wanted()]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_node_is_one_of_those_that_kube_scheduler_scores_best(case: Case, policy: str) -> None:
    answer = place(built(case), wanted(case, policy))
    if not case.bound:
        assert answer == ()
        return
    assert isinstance(answer, Placed)
    if case.scores:
        assert case.scores[answer.node] == max(case.scores.values())
    else:
        assert answer.node == case.bound


@pytest.mark.parametrize("case", [case for case in CASES if case.scores], ids=lambda case: case.name)
def test_each_node_has_the_score_that_kube_scheduler_gives_it(case: Case) -> None:
    made, claims = built(case), wanted(case)
    requests = sum(len(one.spec.requests) for one in claims)
    raw = {}
    for node in case.nodes:
        found = made.allocate(node, {}, claims)
        if isinstance(found, tuple):
            raw[node] = MOST * requests - alternatives(claims, found)
    best, weight = max(raw.values()), 2
    assert {node: weight * (100 * score // best) for node, score in raw.items()} == case.scores


def test_whole_cards_anywhere_come_before_shares() -> None:
    share = device("s", {"kind": "share"}, shared=True, capacity={"memory": memory("8", "1")})
    made = fleet(
        *pool(share, *(device(f"h{number}") for number in range(2)), node="a"),
        *pool(*(device(f"m{number}", {"kind": "mig"}) for number in range(3)), node="b"),
    )
    for name in ("a", "b"):
        made.ledger.upsert_node(name, {})
    chosen = []
    for number in range(6):
        one = claim(
            (want("gpu", name="first"), want("mig", name="second"), want("share", name="third")), name=f"{number}"
        )
        answer = place(made, [one])
        assert isinstance(answer, Placed)
        made.ledger.assume(one.uid, answer.allocations[0])
        chosen.append(answer.allocations[0].results[0].request)
    assert chosen == ["r0/first"] * 2 + ["r0/second"] * 3 + ["r0/third"]


def test_a_node_that_cannot_run_the_pod_does_not_count() -> None:
    made = fleet(*pool(device("m", {"kind": "mig"}), node="a"), *pool(device("g"), node="b"))
    for name in ("a", "b"):
        made.ledger.upsert_node(name, {})
    one = claim((want("gpu", name="first"), want("mig", name="second")))
    answers = [place(made, [one], eligible) for eligible in (None, lambda name: name == "a")]
    assert [answer.node for answer in answers if isinstance(answer, Placed)] == ["b", "a"]


@st.composite
def asked(draw: st.DrawFn, name: str) -> Claim:
    requests: list[Want | tuple[Want, ...]] = [
        tuple(replace(draw(wants), name=f"s{at}") for at in range(draw(st.integers(2, 3))))
        for _ in range(draw(st.integers(1, 2)))
    ]
    if draw(st.booleans()):
        requests.append(draw(wants))
    return claim(*requests, name=name)


Cards = tuple[list[Device], dict[str, dict[str, int]]]


@settings(max_examples=100)
@given(st.lists(cards(), min_size=2, max_size=3), st.lists(st.tuples(asked("c"), asked("d")), max_size=3), st.data())
def test_no_node_has_earlier_alternatives(
    made: list[Cards], pods: list[tuple[Claim, Claim]], data: st.DataObject
) -> None:
    names = [f"n{number}" for number in range(len(made))]
    slices = [part for name, (d, sets) in zip(names, made, strict=True) for part in pool(*d, sets=sets, node=name)]
    one = fleet(*slices, step_limit=100_000)
    for name in names:
        one.ledger.upsert_node(name, {})
    policy = data.draw(st.sampled_from(POLICIES))
    for number, pod in enumerate(pods):
        claims = [with_policy(claim, policy) for claim in pod]
        found = {name: one.allocate(name, {}, claims) for name in names}
        places = {name: alternatives(claims, answer) for name, answer in found.items() if isinstance(answer, tuple)}
        answer = place(one, claims)
        assert (answer == ()) == (not places)
        if isinstance(answer, Placed):
            best = [name for name in names if places.get(name) == min(places.values())]
            assert answer.node in best
            assert policy != "firstFit" or answer.node == best[0]
            assert answer.allocations == found[answer.node]
            for claim_, allocation in zip(claims, answer.allocations, strict=True):
                one.ledger.assume(f"{claim_.uid}{number}", allocation)
