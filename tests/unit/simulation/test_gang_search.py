"""The search that a refusal of a gang must agree with: what it finds is a way."""

from dataclasses import replace

import pytest

from controller.cluster import Cluster
from controller.gangs import Gang, Level, SubGroups
from tests.simulation.gang_search import fits, positions
from tests.unit.controller.gangs.cases import CLUSTER, IB, LEAF, GangCase, Host, gang, member, members


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


def test_positions_are_ranks_unless_two_are_equal_and_leaders_come_first() -> None:
    assert positions({"a": 7, "b": 3, "c": 9}, ["c"]) == {"a": 7, "b": 3, "c": 0}
    assert positions({"w-10": 0, "w-2": 0, "w-1": 0}, []) == {"w-1": 0, "w-2": 1, "w-10": 2}
