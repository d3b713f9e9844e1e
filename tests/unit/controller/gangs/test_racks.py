"""Gangs of different sizes fill racks without breaking more of them than they must."""

import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cluster import Cluster
from controller.gangs import GangPlan, Level, choose
from controller.placement import Nodes
from tests.unit.controller.allocation.small_fleets import fleet
from tests.unit.controller.gangs.cases import Host, add, gang, member
from tests.unit.docs.pages import ROOT

RACK = Level("rack", "nodeLabel")
ROW = re.compile(r"^\| (\d) \| ([\d, ]+) \| (.*) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "nvlink-domains.md").read_text())
"""Racks, gangs, and where they are, of the page."""


class Hall:
    """Racks of nodes with four cards each. A gang has a node for each member."""

    def __init__(self, count: int, size: int):
        self.size = size
        self.free = Counter({f"r{number}": size for number in range(count)})
        self._fleet, self._nodes = fleet(), Nodes()
        for rack in self.free:
            for number in range(size):
                add(Host(f"{rack}-{number:02}", {"rack": rack}, cards=4), self._fleet, self._nodes)
        self._gangs = 0

    def start(self, nodes: int) -> str:
        """The rack of a gang; "" if it waits."""
        self._gangs += 1
        asked = gang([member(rank, count=4, name=f"g{self._gangs}-{rank}") for rank in range(nodes)], RACK)
        plan = choose(asked, Cluster.unlimited(self._fleet, self._nodes))
        if not isinstance(plan, GangPlan):
            return ""
        demands = {one.demand.key: one.demand for one in asked.members}
        for placement in plan.placements:
            demand = demands[placement.pod]
            for claim, allocation in demand.given(placement):
                self._fleet.ledger.assume(claim.uid, allocation)
            self._nodes.count(placement.pod, demand.needs, placement.node)
        (rack,) = {placement.node.split("-")[0] for placement in plan.placements}
        self.free[rack] -= nodes
        return rack


@given(st.integers(1, 3), st.lists(st.integers(1, 6), max_size=8))
def test_a_gang_is_where_least_is_left_over(count: int, sizes: list[int]) -> None:
    hall = Hall(count, 6)
    for nodes in sizes:
        fitting = [free for free in hall.free.values() if free >= nodes]
        before = dict(hall.free)
        rack = hall.start(nodes)
        assert bool(rack) == bool(fitting)
        if rack:
            assert before[rack] == min(fitting), "a rack with more room is kept for a larger gang"


@pytest.mark.parametrize(("count", "arriving", "told"), ROWS)
def test_the_page_says_where_they_are(count: str, arriving: str, told: str) -> None:
    hall, sizes = Hall(int(count), 18), [int(size) for size in arriving.split(",")]
    places = [hall.start(size) for size in sizes]
    assert not +hall.free, "every rack is full"
    together = sorted(
        sorted(size for size, at in zip(sizes, places, strict=True) if at == rack) for rack in set(places)
    )
    assert together == sorted(sorted(group) for group in _groups(told))


def _groups(told: str) -> Sequence[list[int]]:
    return [[int(size) for size in re.findall(r"\d+", part)] for part in told.split(";")]
