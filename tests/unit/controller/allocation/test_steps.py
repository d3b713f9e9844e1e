"""Inputs on which a plain search takes exponential time are decided in few steps: counted, not timed."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.allocation import Fleet, Unsatisfiable
from driver.model import Allocation
from tests.hard_searches import LISTED, NODE, Family

STEPS = 200
"""Devices tried. The largest families place 64 devices; upstream needs millions of steps for the smallest."""


def decided(family: Family, steps: int) -> tuple[Allocation, ...] | Unsatisfiable:
    fleet = Fleet(steps)
    for part in family.slices:
        fleet.upsert_slice(part)
    for device_class in family.classes:
        fleet.upsert_class(device_class)
    return fleet.allocate(NODE, {}, family.claims)


def as_written(family: Family) -> Family:
    return family


def shuffled(family: Family) -> Family:
    """The devices in another order, over the same slices."""
    devices = [device for part in family.slices for device in part.devices]
    random.Random(len(devices)).shuffle(devices)
    mixed = iter(devices)
    return replace(
        family,
        slices=tuple(replace(part, devices=tuple(next(mixed) for _ in part.devices)) for part in family.slices),
    )


def backwards(family: Family) -> Family:
    """The requests of every claim, and the claims, last first."""
    claims = [
        replace(claim, spec=replace(claim.spec, requests=tuple(reversed(claim.spec.requests))))
        for claim in reversed(family.claims)
    ]
    return replace(family, claims=tuple(claims))


@pytest.mark.parametrize("variant", [as_written, shuffled, backwards])
@pytest.mark.parametrize(("name", "size"), [(name, size) for name, (_, sizes) in LISTED.items() for size in sizes])
def test_every_family_is_decided_in_few_steps(name: str, size: int, variant: Callable[[Family], Family]) -> None:
    family = variant(LISTED[name][0](size))
    answer = decided(family, STEPS)
    if isinstance(answer, tuple):
        assert family.satisfiable
        return
    assert not answer.undecided
    assert not family.satisfiable
    assert answer.reasons


def test_where_the_budget_ends_the_search_the_answer_says_so() -> None:
    answer = decided(LISTED["mig_halves"][0](16), 3)
    assert isinstance(answer, Unsatisfiable)
    assert answer.undecided
    assert "the claims may fit all the same" in " ".join(answer.reasons)
