"""A launcher: a member without devices is beside the domain of the others where it cannot be in it."""

from dataclasses import replace

from controller.gangs import GangPlan, Level, Member, Standing, TriedDomains
from controller.placement import Placed
from controller.refusal import Refusal
from tests.unit.controller.allocation.small_fleets import device
from tests.unit.controller.gangs.cases import (
    GangCase,
    Host,
    attribute,
    domain_of,
    gang,
    member,
    members,
    nodes_of,
    standing,
    verdicts,
)

FABRIC = attribute("fabric")


def host(name: str, fabric: str, cards: int = 2, cpus: int = 8) -> Host:
    """A node whose cards are in a fabric."""
    devices = tuple(device(f"gpu-{number}", {"fabric": fabric}) for number in range(cards))
    return Host(name, {"zone": name[0]}, cards=0, cpus=cpus, devices=devices)


def bare(name: str, cpus: int = 8) -> Host:
    """A node without devices."""
    return Host(name, {"zone": name[0]}, cards=0, cpus=cpus)


LAUNCHER = member(9, count=0, cpus=2, name="launcher")


def decided(
    cluster: list[Host], *levels: Level, launcher: Member = LAUNCHER, cpus: int = 4
) -> GangPlan | Refusal[TriedDomains]:
    return GangCase(cluster, gang([*members(4, cpus=cpus), launcher], *levels)).decide()


def test_it_goes_to_a_node_without_devices_when_the_fabric_has_no_room_for_it() -> None:
    answer = decided([host("a1", "a"), host("a2", "a"), bare("c1")], FABRIC)
    assert nodes_of(answer) == ["a1", "a1", "a2", "a2", "c1"]
    assert domain_of(answer) == "a"


def test_it_stays_inside_where_there_is_room() -> None:
    answer = decided([bare("c1"), host("a1", "a"), host("a2", "a")], FABRIC, cpus=2)
    assert set(nodes_of(answer)) == {"a1", "a2"}


def test_a_fabric_that_takes_all_of_them_comes_before_one_that_does_not() -> None:
    cluster = [host("a1", "a"), host("a2", "a"), bare("c1"), host("b1", "b"), host("b2", "b"), host("b3", "b", 1)]
    assert domain_of(decided(cluster, FABRIC)) == "b"


def test_no_preferred_level_is_given_up_for_it() -> None:
    leaf = attribute("leaf", required=False)
    nodes = [
        Host(
            f"{zone}1",
            cards=0,
            cpus=16,
            devices=tuple(device(f"gpu-{n}", {"fabric": "a", "leaf": zone}) for n in range(4)),
        )
        for zone in "xy"
    ]
    assert nodes_of(decided(nodes, FABRIC, leaf)) == ["x1"] * 4 + ["y1"]


def test_a_level_of_nodes_holds_for_it() -> None:
    cluster = [host("a1", "f"), host("a2", "f"), bare("c1")]
    zone = Level("zone", "nodeLabel")
    assert verdicts(decided(cluster, zone, FABRIC)) == ["a/f: 4 of 5"]
    assert nodes_of(decided([*cluster, bare("a3")], zone, FABRIC))[-1] == "a3"


def test_a_launcher_that_is_made_again_goes_where_the_others_are_or_to_another_node() -> None:
    for cpus, expected in ((2, "a1"), (5, "c1")):
        cluster = [bare("c1"), host("a1", "a", cpus=4)]
        asked = gang([member(9, count=0, cpus=cpus, name="launcher")], FABRIC, minimum=2)
        answer = GangCase(cluster, replace(asked, standing=(standing(0, cluster, "a1", "gpu-0"),))).decide()
        assert nodes_of(answer) == [expected], cpus


def test_where_a_launcher_runs_says_nothing_about_the_fabric() -> None:
    cluster = [host("a1", "a", 1), host("b1", "b"), host("b2", "b"), bare("c1")]
    for node in ("a1", "c1"):
        stands = Standing("ns/launcher", Placed(node, ()))
        answer = GangCase(cluster, replace(gang(members(4), FABRIC), standing=(stands,), minimum=5)).decide()
        assert nodes_of(answer) == ["b1", "b1", "b2", "b2"], node


def test_a_gang_of_launchers_needs_no_fabric() -> None:
    assert nodes_of(GangCase([bare("c1")], gang([LAUNCHER], FABRIC)).decide()) == ["c1"]
