"""Inputs on which a plain search takes exponential time are decided in few steps: counted, not timed."""

from collections.abc import Callable, Mapping

import pytest

from controller.allocation import Fleet
from driver.model import Capacity, Claim, Constraint, Device, Slice
from tests.unit.allocation.rig import DRIVER, NODE, claim, device, fleet, pool, q, want

STEPS = 500
N = 16
MATCH, DISTINCT = Constraint((), f"{DRIVER}/v"), Constraint((), "", f"{DRIVER}/v")


def cards(count: int, values: int = 1) -> list[Device]:
    return [device(f"gpu-{i}", {"v": i % values}) for i in range(count)]


def partitioned(count: int) -> list[Slice]:
    """Cards of eight memory slices with small (1) and large (4) partitions."""
    devices = []
    for card in range(count):
        for size, starts in ((1, range(8)), (4, (0, 4))):
            for start in starts:
                drawn = {f"card-{card}.m{i}": 1 for i in range(start, start + size)}
                kind = "mig" if size == 4 else "gpu"
                devices.append(device(f"p-{card}-{size}-{start}", {"kind": kind}, draws=drawn))
    return pool(*devices, sets={f"card-{card}": {f"m{i}": 1 for i in range(8)} for card in range(count)})


def shareable(count: int) -> list[Device]:
    capacity = {"memory": Capacity(q("10"))}
    return [device(f"s-{i}", {"kind": "share"}, capacity=capacity, shared=True) for i in range(count)]


HOPELESS: Mapping[str, Callable[[], tuple[list[Slice], list[Claim]]]] = {
    "one device too many": lambda: (pool(*cards(N)), [claim(want(count=N + 1))]),
    "one request too many": lambda: (pool(*cards(N)), [claim(*[want()] * (N + 1))]),
    "one claim too many": lambda: (pool(*cards(N)), [claim(want(), name=f"c{i}") for i in range(N + 1)]),
    "a missing card of another kind": lambda: (pool(*cards(N)), [claim(*[want()] * N, want("nic"))]),
    "alternatives that are all alike": lambda: (
        pool(*cards(N)),
        [claim(*[(want(name="a"), want(name="b"), want(name="c"))] * (N + 1))],
    ),
    "one more than any value has": lambda: (pool(*cards(8 * N, 8)), [claim(want(count=N + 1), constraints=(MATCH,))]),
    "the same by single requests": lambda: (pool(*cards(8 * N, 8)), [claim(*[want()] * (N + 1), constraints=(MATCH,))]),
    "more than there are values": lambda: (pool(*cards(4 * N, N)), [claim(want(count=N + 1), constraints=(DISTINCT,))]),
    "the same by single requests, distinct": lambda: (
        pool(*cards(4 * N, N)),
        [claim(*[want()] * (N + 1), constraints=(DISTINCT,))],
    ),
    "shares, and one that does not fit": lambda: (
        pool(*shareable(8)),
        [claim(*[want("share", capacity={"memory": "6"})] * 8, want("share", capacity={"memory": "5"}))],
    ),
    "more partitions than counters": lambda: (
        pool(*[device(f"p{i}", draws={"c.u": 1}) for i in range(2 * N)], sets={"c": {"u": N}}),
        [claim(want(count=N + 1))],
    ),
    "large partitions leave no room for a small one": lambda: (
        partitioned(8),
        [claim(want("mig", count=16), want("gpu"))],
    ),
    "the same, one by one": lambda: (partitioned(4), [claim(*[want("mig")] * 8, want("gpu"))]),
}

FEASIBLE: Mapping[str, Callable[[], tuple[list[Slice], list[Claim]]]] = {
    "only the last value has enough": lambda: (
        pool(*cards(3 * N, 3), *[device(f"last-{i}", {"v": 9}) for i in range(N + 1)]),
        [claim(want(count=N + 1), constraints=(MATCH,))],
    ),
    "small partitions before large ones": lambda: (partitioned(8), [claim(want("gpu", count=4), want("mig", count=8))]),
}


def built(slices: list[Slice]) -> Fleet:
    return fleet(*slices, step_limit=STEPS)


@pytest.mark.parametrize("family", HOPELESS)
def test_what_cannot_be_is_proved_in_few_steps(family: str) -> None:
    slices, asked = HOPELESS[family]()
    answer = built(slices).allocate(NODE, {}, asked)
    assert not isinstance(answer, tuple)
    assert not answer.undecided
    assert answer.reasons


@pytest.mark.parametrize("family", FEASIBLE)
def test_what_can_be_is_found_in_few_steps(family: str) -> None:
    slices, asked = FEASIBLE[family]()
    assert isinstance(built(slices).allocate(NODE, {}, asked), tuple)


def test_where_the_budget_ends_the_search_the_answer_says_so() -> None:
    pairs = [device(f"gpu-{i}", {"root": i}) for i in range(8)]
    pairs += [device(f"nic-{i}", {"kind": "nic", "root": i if i else 99}) for i in range(8)]
    aligned = tuple(Constraint((f"r{2 * i}", f"r{2 * i + 1}"), f"{DRIVER}/root") for i in range(8))
    asked = claim(*[want("nic" if i % 2 else "gpu") for i in range(16)], constraints=aligned)
    answer = built(pool(*pairs)).allocate(NODE, {}, [asked])
    assert not isinstance(answer, tuple)
    assert answer.undecided
    assert "no proof that none fits" in " ".join(answer.reasons)
