"""Inputs on which a plain search takes exponential time are decided in few steps: counted, not timed."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.allocation import CompiledRequest, Fleet, NodeReasons
from driver.model import Allocation
from tests.hard_searches import HARD_SEARCHES, NODE, HardSearch

STEPS = 200
"""Devices tried. The largest hard searches place 64 devices; upstream needs millions of steps for the smallest."""


def fleet_of(search: HardSearch, steps: int) -> Fleet:
    fleet = Fleet(steps)
    for part in search.slices:
        fleet.ledger.upsert_slice(part)
    for device_class in search.classes:
        fleet.upsert_class(device_class)
    return fleet


def decided(search: HardSearch, steps: int) -> tuple[Allocation, ...] | NodeReasons:
    return fleet_of(search, steps).allocate(NODE, {}, search.claims)


def as_written(search: HardSearch) -> HardSearch:
    return search


def shuffled(search: HardSearch) -> HardSearch:
    """The devices in another order, over the same slices."""
    devices = [device for part in search.slices for device in part.devices]
    random.Random(len(devices)).shuffle(devices)
    mixed = iter(devices)
    return replace(
        search,
        slices=tuple(replace(part, devices=tuple(next(mixed) for _ in part.devices)) for part in search.slices),
    )


def backwards(search: HardSearch) -> HardSearch:
    """The requests of every claim, and the claims, last first."""
    claims = [
        replace(claim, spec=replace(claim.spec, requests=tuple(reversed(claim.spec.requests))))
        for claim in reversed(search.claims)
    ]
    return replace(search, claims=tuple(claims))


CASES = [(name, size) for name, (_, sizes) in HARD_SEARCHES.items() for size in sizes]


@pytest.mark.parametrize("variant", [as_written, shuffled, backwards])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_every_hard_search_is_decided_in_few_steps(
    name: str, size: int, variant: Callable[[HardSearch], HardSearch]
) -> None:
    search = variant(HARD_SEARCHES[name][0](size))
    answer = decided(search, STEPS)
    if isinstance(answer, tuple):
        assert search.satisfiable
        return
    assert not answer.undecided
    assert not search.satisfiable
    assert answer.sentences


def test_where_the_budget_ends_the_search_the_answer_says_so() -> None:
    answer = decided(HARD_SEARCHES["mig_halves"][0](16), 3)
    assert isinstance(answer, NodeReasons)
    assert answer.undecided
    assert "the claims may fit all the same" in " ".join(answer.sentences)


def test_a_node_on_which_a_search_ran_out_of_steps_is_searched_again_with_more() -> None:
    seen = set()
    for name, size in CASES:
        search = HARD_SEARCHES[name][0](size)
        fleet = fleet_of(search, 3)
        slot, request = fleet.slot(NODE, {}), fleet.compile(search.claims)
        assert isinstance(request, CompiledRequest)
        if fleet.fit(slot, request, search.claims) is None and fleet.is_undecided(slot, request):
            found = fleet.fit(slot, request, search.claims, effort=STEPS)
            assert (found is not None) == search.satisfiable
            assert found is not None or not fleet.is_undecided(slot, request)
            seen.add(search.satisfiable)
    assert seen == {True, False}


def test_a_node_is_undecided_exactly_if_its_search_ran_out_of_steps() -> None:
    seen = set()
    for name, size in CASES:
        search = HARD_SEARCHES[name][0](size)
        for steps in (3, STEPS):
            answer, fleet = decided(search, steps), fleet_of(search, steps)
            if isinstance(answer, NodeReasons):
                slot, request = fleet.slot(NODE, {}), fleet.compile(search.claims)
                assert isinstance(request, CompiledRequest)
                assert fleet.fit(slot, request, search.claims) is None
                assert fleet.is_undecided(slot, request) == answer.undecided
                seen.add(answer.undecided)
    assert seen == {True, False}
