"""The work of a decision about many sub-groups grows with their number, and not faster."""

import sys
from types import FrameType

import pytest

from controller.cluster import Cluster
from controller.gangs import Gang, GangPlan, Level, SubGroups, choose
from tests.unit.controller.gangs.cases import GangCase, Host, gang, member
from tests.unit.controller.gangs.test_sub_groups import CLUSTER, RACK, replicas

MOST = 3_000
"""Calls of functions for each sub-group of four members."""


def nodes(number: int) -> list[Host]:
    """Nodes with room for one sub-group each, two in a rack; one is alone in its rack if their number is odd."""
    return [Host(f"n{at}", {"ib": "a", "rack": f"r{at // 2}"}, cards=4) for at in range(number)]


def calls(cluster: list[Host], asked: Gang) -> tuple[int, int]:
    """How many members are placed, and how many functions are called for that."""
    fleet, nodes, asked = GangCase(cluster, asked).built()
    count = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        answer = choose(asked, Cluster.unlimited(fleet, nodes))
    finally:
        sys.setprofile(None)
    assert isinstance(answer, GangPlan), answer
    return len(answer.placements), count


@pytest.mark.parametrize("sub_groups", [30, 90])
@pytest.mark.parametrize("levels", [(), (CLUSTER,), (CLUSTER, RACK)], ids=["anywhere", "cluster", "racks"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0], ids=["one", "half", "all"])
@pytest.mark.parametrize("room", [0.5, 1.0], ids=["room-for-half", "room-for-all"])
def test_each_sub_group_costs_the_same(sub_groups: int, levels: tuple[Level, ...], share: float, room: float) -> None:
    minimum = max(1, int(sub_groups * min(share, room)))
    asked = gang(replicas(*[4] * sub_groups), *levels, minimum=1, sub_groups=(SubGroups(4, minimum),), starts=True)
    placed, found = calls(nodes(int(sub_groups * room)), asked)
    assert placed == 4 * int(sub_groups * room)
    assert found <= MOST * sub_groups


@pytest.mark.parametrize("sub_groups", [30, 90])
@pytest.mark.parametrize("cards", [6, 8], ids=["tight", "roomy"])
def test_so_it_does_if_sub_groups_differ_in_what_they_ask_for(sub_groups: int, cards: int) -> None:
    """Half of them need twice the devices of the others, as with prefill and decode."""
    half = sub_groups // 2
    some = [
        member(4 * number + at, count=1 + policy, name=f"p{policy}-{number}-{at}", sub_group=(policy, str(number)))
        for policy in range(2)
        for number in range(half)
        for at in range(4)
    ]
    policies = (SubGroups(4, half), SubGroups(4, half))
    asked = gang(some, CLUSTER, RACK, minimum=len(some), sub_groups=policies, starts=True)
    cluster = [Host(f"n{at}", {"ib": "a", "rack": f"r{at // 2}"}, cards=cards) for at in range(sub_groups)]
    placed, found = calls(cluster, asked)
    assert placed == len(some)
    assert found <= MOST * sub_groups
