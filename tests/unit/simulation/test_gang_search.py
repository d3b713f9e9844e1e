"""The search that a refusal of a gang must agree with: what it finds is a way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cluster import Cluster
from controller.gangs import Gang, Level, SubGroups, ValueConstraint
from tests.simulation.gang_search import fits, positions
from tests.unit.controller.gangs.cases import CLUSTER, IB, LEAF, GangCase, Host, gang, member, members
from tests.unit.controller.gangs.test_laws_of_values import (
    KINDS,
    RAIL,
    Asked,
    Box,
    Kind,
    Problem,
    problems,
    scene,
    tier,
)


def parts(of: tuple[int, ...], *levels: Level, size: int = 2, minimum: int = 1, succeeded: int = 0) -> Gang:
    """A gang of which each member is in the sub-group of this number; of the last one, so many have succeeded."""
    made = [replace(member(rank), sub_group=(0, str(number))) for rank, number in enumerate(of)]
    ended = (((0, str(of[-1])), succeeded),) if succeeded else ()
    needed = size * minimum - succeeded
    return replace(
        gang(made, *levels), sub_groups=(SubGroups(size, minimum),), succeeded=ended, minimum=needed, starts=True
    )


PAIRS = Level(LEAF, "nodeLabel", group_size=2)
LEAVES = [Host(f"n{at}", {IB: "a", LEAF: f"l{at}"}, room) for at, room in enumerate((2, 1))]
GANGS = {
    "room for all": (gang(members(3), CLUSTER), True),
    "one too many": (gang(members(4), CLUSTER), False),
    "two groups": (gang(members(3), CLUSTER, PAIRS), True),
    "each in another group, and only two leaves": (gang([member(0), member(2), member(4)], PAIRS), True),
    "two groups of two": (gang(members(4), PAIRS), False),
    "a whole sub-group of two, not both": (parts((0, 0, 1, 1), minimum=1), True),
    "two whole sub-groups, and room for three members": (parts((0, 0, 1, 1), minimum=2), False),
    "a sub-group that has one member too few": (parts((0, 0, 1), minimum=2), False),
    "one that a member has left which has succeeded": (parts((0, 0, 1), minimum=2, succeeded=1), True),
    "a sub-group in one leaf": (parts((0, 0), Level(LEAF, "nodeLabel", per_sub_group=True)), True),
    "three of a sub-group in one leaf": (parts((0, 0, 0), Level(LEAF, "nodeLabel", per_sub_group=True), size=3), False),
    "one domain that does not exist": (gang(members(1), Level("rack", "nodeLabel")), False),
}


@pytest.mark.parametrize(("asked", "expected"), GANGS.values(), ids=GANGS)
def test_a_gang_fits_if_every_member_has_a_node_and_the_required_levels_hold(asked: Gang, expected: bool) -> None:
    made, nodes, _ = GangCase(LEAVES, asked).built()
    assert fits(asked, Cluster.unlimited(made, nodes)) is expected


BOXES = (Box("a", ("0", "1")), Box("a", ("1", "2")))
VALUES: dict[str, tuple[Kind, int, int, bool]] = {
    "two members on rail 1": ("sameSet", 2, 1, True),
    "two members with two rails each": ("sameSet", 2, 2, False),
    "three members on one rail": ("sameSet", 3, 1, False),
    "one value": ("same", 2, 1, True),
    "two cards of one value on a node": ("same", 1, 2, False),
    "three rails": ("distinct", 3, 1, True),
    "four members, and three rails": ("distinct", 4, 1, False),
}


@pytest.mark.parametrize(("kind", "count", "cards", "expected"), VALUES.values(), ids=VALUES)
def test_a_gang_fits_if_its_members_can_have_the_values(kind: Kind, count: int, cards: int, expected: bool) -> None:
    case = scene(Problem(BOXES, (Asked(cards),) * count, count, ()), ValueConstraint(RAIL, kind))
    made, nodes, _ = case.built()
    assert fits(case.gang, Cluster.unlimited(made, nodes)) is expected
    preferred = replace(case.gang, constraints=(ValueConstraint(RAIL, kind, required=False),))
    assert fits(preferred, Cluster.unlimited(made, nodes)) is (count * cards <= 4)


@given(problems(), st.sampled_from(KINDS))
def test_what_fits_with_values_does_so_by_trying_everything(problem: Problem, kind: Kind) -> None:
    case = scene(problem, ValueConstraint(RAIL, kind))
    made, nodes, _ = case.built()
    assert not fits(case.gang, Cluster.unlimited(made, nodes)) or tier(problem, kind) is not None


def test_positions_are_ranks_unless_two_are_equal_and_leaders_come_first() -> None:
    assert positions({"a": 7, "b": 3, "c": 9}, ["c"]) == {"a": 7, "b": 3, "c": 0}
    assert positions({"w-10": 0, "w-2": 0, "w-1": 0}, []) == {"w-1": 0, "w-2": 1, "w-10": 2}
