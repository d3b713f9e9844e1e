"""Against trying everything: what the values of the members' devices have to have in common, or apart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gangs import GangPlan, Level, Member, TriedDomains, ValueConstraint
from controller.refusal import Refusal
from driver.model import Device
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, want
from tests.unit.controller.gangs.cases import GangCase, Host, gang, member, standing

RAIL = f"{DRIVER}/rail"
Kind = Literal["sameSet", "same", "distinct"]
KINDS: tuple[Kind, ...] = ("sameSet", "same", "distinct")
RAILS = ("0", "1", "2", "")
IB = Level("ib", "nodeLabel")
LEVELS = ((), (IB,), (replace(IB, required=False),))


@dataclass(frozen=True)
class Box:
    """A node: its domain, the rail of each card, and of each adapter; None for a device without one."""

    ib: str
    cards: tuple[str, ...]
    nics: tuple[str | None, ...] = ()

    @property
    def devices(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {f"gpu-{number}": rail for number, rail in enumerate(self.cards)}
        return found | {f"nic-{number}": rail for number, rail in enumerate(self.nics)}


@dataclass(frozen=True)
class Asked:
    """A member: cards, and adapters in a claim of their own; ``either`` takes the last card as an adapter instead."""

    cards: int
    nics: int = 0
    either: bool = False


@dataclass(frozen=True)
class Problem:
    boxes: tuple[Box, ...]
    asked: tuple[Asked, ...]
    minimum: int
    levels: tuple[Level, ...]
    stands: tuple[str, ...] = ()
    """Cards of the first node that a member with a place has."""


boxes = st.builds(
    Box,
    st.sampled_from(["a", "a", "b"]),
    st.lists(st.sampled_from(RAILS), min_size=1, max_size=3).map(tuple),
    st.lists(st.sampled_from([None, "0", "1"]), max_size=2).map(tuple),
)
asked = st.builds(
    Asked, st.sampled_from([1, 1, 2, 2, 3]), st.sampled_from([0, 0, 1]), st.sampled_from([False, False, True])
)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    found = tuple(draw(st.lists(boxes, min_size=1, max_size=3)))
    kinds = draw(st.lists(asked, min_size=1, max_size=2))
    members = tuple(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)))
    minimum = draw(st.sampled_from([len(members), len(members), 1]))
    stands = ("gpu-0",) if draw(st.sampled_from([False, False, True])) else ()
    return Problem(found, members, minimum, draw(st.sampled_from(LEVELS)), stands)


def member_of(number: int, one: Asked) -> Member:
    cards = one.cards - one.either
    first = [want(count=cards)] if cards else []
    last = [(want("nic", name="nic"), want("gpu", name="gpu"))] if one.either else []
    claims = [claim(*first, *last, name=f"w{number}")]
    claims += [claim(want("nic", count=one.nics), name=f"w{number}-nics")] if one.nics else []
    return member(number, *claims)


def scene(problem: Problem, *constraints: ValueConstraint) -> GangCase:
    hosts = [
        Host(f"n{number}", {"ib": box.ib}, devices=tuple(devices_of(box))) for number, box in enumerate(problem.boxes)
    ]
    members = [member_of(number, one) for number, one in enumerate(problem.asked)]
    stands = (standing(9, hosts, "n0", *problem.stands, name="stands"),) if problem.stands else ()
    asks = gang(members, *problem.levels, minimum=problem.minimum + len(stands), standing=stands)
    return GangCase(hosts, replace(asks, constraints=constraints))


def devices_of(box: Box) -> Iterator[Device]:
    for name, rail in box.devices.items():
        yield device(name, {"kind": name[:3]} | ({} if rail is None else {"rail": rail}))


Way = tuple[int, frozenset[str]]
"""A node and devices of it."""


def ways(problem: Problem, one: Asked) -> Iterator[Way]:
    """What the member may get, on each node."""
    for number, box in enumerate(problem.boxes):
        free = [name for name in box.devices if number or name not in problem.stands]
        for gpus, nics in [(one.cards, one.nics), *([(one.cards - 1, one.nics + 1)] if one.either else [])]:
            for some in product(
                combinations([name for name in free if name.startswith("gpu")], gpus),
                combinations([name for name in free if name.startswith("nic")], nics),
            ):
                yield number, frozenset().union(*some)


def rails(problem: Problem, way: Way) -> list[str]:
    found = [problem.boxes[way[0]].devices[name] for name in way[1]]
    return [rail for rail in found if rail is not None]


def meets(problem: Problem, kind: Kind | None, held: Sequence[Way]) -> bool:
    """Whether these members and the one that has its place have what they have to have in common."""
    if kind is None:
        return True
    sets = [rails(problem, way) for way in held]
    if any(not some or "" in some for some in sets):
        return False
    stood = set(rails(problem, (0, frozenset(problem.stands)))) - {""}
    every = [*map(set, sets), *([stood] if stood else [])]
    if kind == "sameSet":
        return all(some == every[0] for some in every)
    union = set().union(*every)
    return len(union) <= 1 if kind == "same" else len(union) == sum(map(len, every))


def tier(problem: Problem, kind: Kind | None) -> int | None:
    """The first attempt that succeeds: 0 with all levels, 1 without the preferred one; None if none does."""
    required = any(level.required for level in problem.levels)
    if problem.levels and any(_places(problem, kind, ib) for ib in {box.ib for box in problem.boxes}):
        return 0
    return None if required or not _places(problem, kind, None) else len(problem.levels)


def _places(problem: Problem, kind: Kind | None, ib: str | None) -> bool:
    if problem.stands and ib not in (None, problem.boxes[0].ib):
        return False
    every = [
        [way for way in dict.fromkeys(ways(problem, one)) if ib in (None, problem.boxes[way[0]].ib)]
        for one in problem.asked
    ]

    def extends(number: int, held: list[Way]) -> bool:
        if len(held) + len(every) - number < problem.minimum:
            return False
        if len(held) == problem.minimum:
            return meets(problem, kind, held)
        for way in every[number]:
            if (
                all(way[0] != other[0] or not way[1] & other[1] for other in held)
                and meets(problem, kind, [*held, way])
                and extends(number + 1, [*held, way])
            ):
                return True
        return extends(number + 1, held)

    return extends(0, [])


def held_by(problem: Problem, answer: GangPlan) -> list[Way]:
    return [
        (
            int(placement.node[1:]),
            frozenset(result.device.device for held in placement.allocations for result in held.results),
        )
        for placement in answer.placements
    ]


def tier_of(problem: Problem, answer: GangPlan | Refusal[TriedDomains], minimum: int) -> int | None:
    if isinstance(answer, Refusal):
        return None
    used = {problem.boxes[node].ib for node, _ in held_by(problem, answer)} | (
        {problem.boxes[0].ib} if problem.stands else set()
    )
    return 0 if len(used) == 1 else len(problem.levels)


@settings(max_examples=100)
@given(problems(), st.sampled_from(KINDS), st.integers(0, 100))
def test_a_gang_is_placed_exactly_if_its_constraint_can_be_met(problem: Problem, kind: Kind, seed: int) -> None:
    asks = scene(problem, ValueConstraint(RAIL, kind))
    answer = asks.decide()
    assert asks.decide(Random(seed)) == answer
    expected = tier(problem, kind)
    if expected is None:
        assert isinstance(answer, Refusal)
        assert answer.why.decided
        assert all(fit.placed < fit.needed for fit in answer.why.fits)
        assert bool(answer.why.values) == (tier(problem, None) is not None)
        return
    assert isinstance(answer, GangPlan), answer
    held = held_by(problem, answer)
    assert problem.minimum <= len(held)
    assert meets(problem, kind, held)
    if len(held) == problem.minimum and problem.levels:
        assert tier_of(problem, answer, problem.minimum) == expected


@given(problems(), st.sampled_from(KINDS))
def test_a_preferred_constraint_keeps_no_gang_from_its_place(problem: Problem, kind: Kind) -> None:
    without = scene(problem).decide()
    answer = scene(problem, ValueConstraint(RAIL, kind, required=False)).decide()
    assert isinstance(answer, GangPlan) == isinstance(without, GangPlan)
    if isinstance(answer, GangPlan) and isinstance(without, GangPlan):
        required = scene(problem, ValueConstraint(RAIL, kind)).decide()
        if isinstance(required, Refusal):
            assert len(answer.placements) == len(without.placements)
        if problem.minimum == len(problem.asked):
            nodes = [len({one.node for one in some.placements}) for some in (answer, without)]
            assert nodes[0] <= nodes[1]
            assert len(answer.domain.path) >= len(without.domain.path)


@given(problems(), st.sampled_from(KINDS))
def test_what_is_ruled_out_by_counting_is_impossible(problem: Problem, kind: Kind) -> None:
    answer = scene(problem, ValueConstraint(RAIL, kind)).decide(budget=0)
    if isinstance(answer, Refusal) and answer.why.decided:
        assert tier(problem, kind) is None
