"""Gangs that fit although a count by kinds or by groups of one size would say that they do not."""

import pytest

from controller.cluster import Cluster
from controller.gangs import GangPlan, Level, Member, choose
from controller.refusal import Refusal
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, want
from tests.unit.controller.gangs.cases import (
    CLUSTER,
    IB,
    LEAF,
    GangCase,
    Host,
    attribute,
    devices_of,
    gang,
    member,
    nodes_of,
    standing,
)

RACK = "rack"


def in_leaves(size: int, *, required: bool = True) -> Level:
    return Level(LEAF, "nodeLabel", required=required, group_size=size)


def leaves(*rooms: int) -> list[Host]:
    """A leaf with one node for each of these numbers of cards."""
    return [Host(f"n{at}", {IB: "a", LEAF: f"l{at}"}, room) for at, room in enumerate(rooms)]


def of(*ranks: int) -> list[Member]:
    return [member(rank) for rank in ranks]


LEADER = member(0, leader=True)
WITH_GROUPS = {
    "a leader is one more in the first group": ((5, 1), [LEADER, *of(*range(5))], 4, [0, 0, 0, 0, 0, 1]),
    "a leader may be alone in the first group": ((1, 2), [LEADER, *of(4, 5)], 4, [0, 1, 1]),
    "each of the ranks is in another group": ((1, 1, 1), of(0, 4, 8), 4, [0, 1, 2]),
    "there are more groups than the number of members says": ((1, 1, 1, 1), of(1, 4, 6, 11), 2, [0, 1, 2, 3]),
    "the last group is smaller": ((2, 2, 1), of(*range(5)), 2, [0, 0, 1, 1, 2]),
}


@pytest.mark.parametrize(("rooms", "members", "size", "expected"), WITH_GROUPS.values(), ids=WITH_GROUPS)
@pytest.mark.parametrize("required", [True, False])
def test_groups_are_those_of_the_ranks(
    rooms: tuple[int, ...], members: list[Member], size: int, expected: list[int], required: bool
) -> None:
    answer = GangCase(leaves(*rooms), gang(members, CLUSTER, in_leaves(size, required=required))).decide()
    assert nodes_of(answer) == [f"n{at}" for at in expected]


def test_groups_inside_groups_need_not_divide_them() -> None:
    cluster = [Host(f"n{at}", {LEAF: f"l{at // 2}", RACK: f"r{at}"}, room) for at, room in enumerate((2, 1, 2, 1))]
    levels = in_leaves(3), Level(RACK, "nodeLabel", group_size=2)
    answer = GangCase(cluster, gang(of(*range(6)), *levels)).decide()
    assert nodes_of(answer) == ["n0", "n0", "n1", "n2", "n2", "n3"]


def test_each_group_of_which_members_stand_may_lack_one() -> None:
    cluster = leaves(4, 4, 4)
    stand = [standing(rank, cluster, f"n{rank // 4}", f"gpu-{rank % 4}") for rank in range(12) if rank % 4 != 3]
    asked = gang(of(3, 7, 11), CLUSTER, in_leaves(4), minimum=12, standing=tuple(stand))
    assert nodes_of(GangCase(cluster, asked).decide()) == ["n0", "n1", "n2"]


def test_members_that_share_a_claim_join_their_groups() -> None:
    shared = claim(want(count=1), name="shared")
    members = [member(0, shared), member(1), member(2, shared), member(3)]
    assert isinstance(GangCase(leaves(2, 2), gang(members, in_leaves(2))).decide(), Refusal)
    assert nodes_of(GangCase(leaves(2, 3), gang(members, in_leaves(2))).decide()) == ["n1"] * 4


def test_a_required_level_inside_a_preferred_one_holds_for_members_beyond_the_minimum() -> None:
    cluster = [Host(f"n{at}", {IB: f"c{at}", LEAF: f"l{at}"}, room) for at, room in enumerate((1, 2))]
    levels = Level(IB, "nodeLabel", required=False, group_size=2), Level(LEAF, "nodeLabel")
    answer = GangCase(cluster, gang(of(0, 2, 3, 4), *levels, minimum=3)).decide()
    at = dict(zip((0, 2, 3, 4), nodes_of(answer), strict=False))
    assert at == {0: "n0", 2: "n1", 3: "n1"}, "rank 4 is in a third group, for which no card is left"


ALTERNATIVES = {
    "one of each kind": (1, (4, 4), 8),
    "several at once": (4, (4, 4), 2),
    "some of one kind are left over": (2, (3, 3), 2),
}


@pytest.mark.parametrize(("count", "cards", "fit"), ALTERNATIVES.values(), ids=ALTERNATIVES)
def test_members_take_different_alternatives(count: int, cards: tuple[int, int], fit: int) -> None:
    kinds = [kind for kind, number in zip("ab", cards, strict=True) for _ in range(number)]
    devices = tuple(device(f"gpu-{at}", {"sort": kind}) for at, kind in enumerate(kinds))
    either = tuple(
        want("gpu", f'device.attributes["{DRIVER}"].sort == "{kind}"', count=count, name=f"of-{kind}") for kind in "ba"
    )
    members = [member(rank, claim(either, name=f"w{rank}")) for rank in range(fit + 1)]
    cluster = [Host("n1", {IB: "a"}, 0, devices=devices)]
    assert nodes_of(GangCase(cluster, gang(members[:fit], CLUSTER)).decide()) == ["n1"] * fit
    refusal = GangCase(cluster, gang(members, CLUSTER)).decide(budget=0)
    assert isinstance(refusal, Refusal)
    assert refusal.why.decided, "counted, not searched"
    assert [verdict.placed for verdict in refusal.why.fits] == [fit]


def test_who_wants_all_devices_of_a_node_never_gets_those_of_one_domain_only() -> None:
    both = Host("both", {}, 0, devices=tuple(device(f"gpu-{at}", {"leaf": leaf}) for at, leaf in enumerate("xxy")))
    whole = Host("whole", {}, 0, devices=tuple(device(f"gpu-{at}", {"leaf": "z"}) for at in range(2)))
    members = [member(0, claim(want(mode="All")))]
    in_one, anywhere = (gang(members, attribute("leaf", required=required)) for required in (True, False))
    for asked in (in_one, anywhere):
        assert devices_of(GangCase([both, whole], asked).decide()) == ["whole/gpu-0", "whole/gpu-1"]
    assert isinstance(GangCase([both], in_one).decide(), Refusal)
    assert devices_of(GangCase([both], anywhere).decide()) == ["both/gpu-0", "both/gpu-1", "both/gpu-2"]


def test_small_gangs_leave_domains_whole_for_large_ones() -> None:
    racks = [Host(f"r{rack}-{at}", {RACK: f"r{rack}"}, 4) for rack in range(3) for at in range(6)]
    made, nodes, _ = GangCase(racks, gang([])).built()
    in_rack, used = Level(RACK, "nodeLabel"), list[str]()
    for size, name in [(2, "a"), (2, "b"), (2, "c"), (6, "d"), (6, "e")]:
        members = [member(rank, count=4, name=f"{name}-{rank}") for rank in range(size)]
        answer = choose(gang(members, in_rack), Cluster.unlimited(made, nodes))
        assert isinstance(answer, GangPlan), f"{size} members wait, after small gangs went to {used}"
        for placement in answer.placements:
            made.ledger.assume(f"uid-{placement.pod.removeprefix('ns/')}", placement.allocations[0])
        used.append(str(answer.domain))
    assert used == ["r0", "r0", "r0", "r1", "r2"]
