"""Sub-groups start whole or not at all, and as many as have to."""

from collections import Counter
from collections.abc import Sequence

import pytest

from controller.gangs import Gang, GangPlan, Level, Member, SubGroups, TriedDomains, render
from controller.refusal import Refusal
from tests.unit.controller.gangs.cases import GangCase, Host, gang, hosts, member, nodes_of

A, B = {"ib": "a"}, {"ib": "b"}
CLUSTER = Level("ib", "nodeLabel")
RACK = Level("rack", "nodeLabel", per_sub_group=True)


def replicas(*sizes: int, first: int = 0, **fields: object) -> list[Member]:
    """Members of sub-groups 0, 1, ... with so many members each."""
    found: list[Member] = []
    for number, size in enumerate(sizes):
        start = first + len(found)
        found += [
            member(rank, name=f"r{number}-{rank}", sub_group=(0, str(number)), **fields)  # type: ignore[arg-type]
            for rank in range(start, start + size)
        ]
    return found


def asked(some: Sequence[Member], *levels: Level, size: int = 4, minimum: int = 1, least: int = 0) -> Gang:
    return gang(some, *levels, minimum=max(least, size * minimum), sub_groups=(SubGroups(size, minimum),), starts=True)


def placed(answer: GangPlan | Refusal[TriedDomains]) -> dict[str, int]:
    """How many members of each sub-group are placed."""
    assert isinstance(answer, GangPlan), answer
    return dict(Counter(placement.pod.partition("/")[2].partition("-")[0] for placement in answer.placements))


def test_three_members_of_each_of_two_sub_groups_of_four_are_no_start() -> None:
    cluster = [Host("n1", {"rack": "r1"}, cards=3), Host("n2", {"rack": "r2"}, cards=3)]
    answer = GangCase(cluster, asked(replicas(4, 4), RACK)).decide()
    assert isinstance(answer, Refusal)
    assert answer.why.decided


def test_room_for_one_whole_sub_group_starts_that_one_only() -> None:
    assert placed(GangCase(hosts("n", 1, cards=7), asked(replicas(4, 4))).decide()) == {"r0": 4}


def test_as_many_whole_sub_groups_as_there_is_room_for_start_beyond_the_minimum() -> None:
    assert placed(GangCase(hosts("n", 4, cards=4), asked(replicas(4, 4, 4, 4, 4))).decide()) == dict.fromkeys(
        ["r0", "r1", "r2", "r3"], 4
    )


def test_single_members_come_after_whole_sub_groups() -> None:
    others = [member(90 + number, name=f"free-{number}") for number in range(3)]
    found = placed(GangCase(hosts("n", 1, cards=9), asked([*others, *replicas(4, 4, 4)])).decide())
    assert found == {"r0": 4, "r1": 4, "free": 1}


def test_a_whole_sub_group_may_have_more_members_than_its_size() -> None:
    assert placed(GangCase(hosts("n", 1, cards=7), asked(replicas(6, 4))).decide()) == {"r0": 6}
    assert placed(GangCase(hosts("n", 1, cards=5), asked(replicas(6, 4))).decide()) == {"r0": 5}


def test_a_sub_group_that_has_too_few_members_is_left_out() -> None:
    assert placed(GangCase(hosts("n", 1, cards=8), asked(replicas(3, 4))).decide()) == {"r1": 4}
    answer = GangCase(hosts("n", 1, cards=8), asked(replicas(3, 3))).decide()
    assert isinstance(answer, Refusal)
    assert "only 0 of 1 sub-groups that have to be whole are there to be placed" in render(answer)


def test_another_sub_group_becomes_whole_where_the_first_cannot() -> None:
    first = [member(number, count=8, name=f"r0-{number}", sub_group=(0, "0")) for number in range(4)]
    second = [member(4 + number, name=f"r1-{number}", sub_group=(0, "1")) for number in range(4)]
    assert placed(GangCase(hosts("n", 2, cards=4), asked([*first, *second])).decide()) == {"r1": 4}


def test_each_sub_group_stays_in_one_domain_of_a_level() -> None:
    cluster = [Host(f"n{number}", {"ib": "a", "rack": f"r{number}"}, cards=5) for number in range(3)]
    answer = GangCase(cluster, asked(replicas(4, 4, 4), CLUSTER, RACK, minimum=3)).decide()
    assert nodes_of(answer) == ["n0"] * 4 + ["n1"] * 4 + ["n2"] * 4


def test_each_policy_has_a_minimum_of_its_own() -> None:
    prefill = [member(number, name=f"p{number}-0", sub_group=(0, str(number))) for number in range(3)]
    decode = [
        member(10 + number, count=2, name=f"d{number // 2}-{number}", sub_group=(1, str(number // 2)))
        for number in range(4)
    ]
    both = (SubGroups(1, 2), SubGroups(2, 1))
    wanted = gang([*prefill, *decode], minimum=4, sub_groups=both, starts=True)
    assert placed(GangCase(hosts("n", 1, cards=6), wanted).decide()) == {"p0": 1, "p1": 1, "d0": 2}
    assert isinstance(GangCase(hosts("n", 1, cards=5), wanted).decide(), Refusal)


def test_a_minimum_of_members_beyond_that_of_sub_groups_takes_more_of_them() -> None:
    wanted = asked(replicas(4, 4, 4), least=7)
    assert placed(GangCase(hosts("n", 1, cards=8), wanted).decide()) == {"r0": 4, "r1": 4}
    assert isinstance(GangCase(hosts("n", 1, cards=7), wanted).decide(), Refusal)


@pytest.mark.parametrize("count", [8, 60])
def test_many_sub_groups_that_are_alike_are_decided_within_the_steps(count: int) -> None:
    """Of as many as there are, half have to be whole, and there is room for one fewer: no choice of them fits."""
    cluster = [Host(f"n{number}", {"rack": f"r{number}"}, cards=4) for number in range(count // 2 - 1)]
    spare = [Host(f"m{number}", {"rack": f"s{number}"}, cards=3) for number in range(8)]
    answer = GangCase([*cluster, *spare], asked(replicas(*[4] * count), RACK, minimum=count // 2)).decide()
    assert isinstance(answer, Refusal)
    assert answer.why.decided
