"""The examples in the docstrings of ``controller.gangs``, ``exact_packing`` and ``domain_search``, step by step."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from controller.cluster import Cluster
from controller.gangs import Gang, GangPlan, Level, choose
from controller.gangs.gang import Domain
from controller.gangs.staging import Staging
from controller.gangs.units import CoLocatedMembers
from controller.refusal import Refusal
from tests.unit.controller.gangs.cases import CLUSTER, IB, LEAF, PREFERRED_LEAF, GangCase, Host, gang, member

FREE = {"n1": ("a", "a1", 4), "n2": ("a", "a1", 3), "n3": ("a", "a2", 2), "n4": ("a", "a2", 2)}
FREE |= {"n5": ("b", "b1", 4), "n6": ("b", "b2", 4)}
NODES = [Host(name, {IB: ib, LEAF: leaf}, cards=cards) for name, (ib, leaf, cards) in FREE.items()]
FIVE = replace(gang([member(number, count=2) for number in range(5)], CLUSTER, PREFERRED_LEAF), minimum=4)


@pytest.fixture
def additions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What searches add to nodes: the node, and how many units."""
    made: list[tuple[str, int]] = []
    add = Staging.add

    def added(staging: Staging, node: int, units: Sequence[CoLocatedMembers]) -> bool:
        made.append((staging._domain_nodes[node].name, len(units)))
        return add(staging, node, units)

    monkeypatch.setattr(Staging, "add", added)
    return made


def decided(cluster: Sequence[Host], asked: Gang) -> GangPlan:
    fleet, nodes, asked = GangCase(cluster, asked).built()
    answer = choose(asked, Cluster.unlimited(fleet, nodes))
    assert isinstance(answer, GangPlan), answer
    return answer


def test_no_leaf_takes_four_members_which_the_bounds_say_without_a_search() -> None:
    answer = GangCase(NODES, replace(FIVE, levels=(CLUSTER, Level(LEAF, "nodeLabel")))).decide(budget=0)
    assert isinstance(answer, Refusal)
    assert answer.why.decided
    most = {str(verdict.domain): verdict.placed for verdict in answer.why.fits}
    assert most == {"a/a1": 3, "a/a2": 2, "b/b1": 2, "b/b2": 2}


def test_the_cluster_that_four_members_fill_is_taken_and_the_fifth_waits(additions: list[tuple[str, int]]) -> None:
    answer = decided(NODES, FIVE)
    assert answer.domain == Domain(((IB, "b"),))
    assert [placement.node for placement in answer.placements] == ["n5", "n5", "n6", "n6"]
    assert additions == [("n5", 2), ("n6", 2)], "nothing is tried in the other cluster"


def test_without_that_cluster_all_five_are_in_the_other_one() -> None:
    assert len(decided(NODES[:4], FIVE).placements) == 5


def test_the_hard_member_goes_where_the_others_find_two_cards_each(additions: list[tuple[str, int]]) -> None:
    cluster = [Host("n1", cards=4), Host("n2", cards=3)]
    answer = decided(cluster, gang([member(0, count=2), member(1, count=3), member(2, count=2)]))
    assert [placement.node for placement in answer.placements] == ["n1", "n2", "n1"]
    assert additions == [("n1", 1), ("n2", 1), ("n1", 2)]
