"""Against trying everything, where nodes have cards of several domains and members share claims."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from controller.gangs import GangPlan, GangRefusal, Member
from tests.unit.controller.allocation.rig import claim, device, want
from tests.unit.controller.gangs.rig import Host, Scene, attribute, devices_of, gang, member

DOMAINS = ("", "x", "y", "z")


@dataclass(frozen=True)
class Part:
    """A node: the domain of each of its cards, and its CPUs."""

    cards: tuple[str, ...]
    cpus: int


@dataclass(frozen=True)
class Unit:
    """Members that share one claim for some cards; mostly a single one."""

    members: int
    cards: int
    cpus: int


nodes = st.builds(Part, st.lists(st.sampled_from(DOMAINS), max_size=5).map(tuple), st.integers(1, 6))
units = st.builds(Unit, st.sampled_from([1, 1, 2, 3]), st.integers(1, 3), st.integers(1, 2))
problems = st.tuples(st.lists(nodes, min_size=1, max_size=3), st.lists(units, min_size=1, max_size=4))


def fits(cluster: list[Part], wanted: list[Unit], domain: str | None) -> bool:
    """Whether all units find cards of the domain, None for any cards, each on one node."""
    cards = [len(node.cards) if domain is None else node.cards.count(domain) for node in cluster]
    for places in product(range(len(cluster)), repeat=len(wanted)):
        on = [[unit for unit, at in zip(wanted, places, strict=True) if at == number] for number in range(len(cluster))]
        if all(
            sum(unit.cards for unit in here) <= cards[number]
            and sum(unit.cpus * unit.members for unit in here) <= cluster[number].cpus
            for number, here in enumerate(on)
        ):
            return True
    return False


def members_of(wanted: list[Unit]) -> Iterator[Member]:
    rank = 0
    for number, unit in enumerate(wanted):
        shared = claim(want(count=unit.cards), name=f"shared-{number}")
        for _ in range(unit.members):
            yield member(rank, shared, cpus=unit.cpus)
            rank += 1


@given(problems, st.booleans(), st.integers(0, 100))
def test_a_gang_is_placed_exactly_if_it_can_be_and_in_one_domain_of_devices_if_that_can_be(
    problem: tuple[list[Part], list[Unit]], required: bool, seed: int
) -> None:
    cluster, wanted = problem
    hosts = [
        Host(
            f"n{number}",
            cards=0,
            cpus=node.cpus,
            devices=tuple(
                device(f"gpu-{card}", {"domain": domain} if domain else {}) for card, domain in enumerate(node.cards)
            ),
        )
        for number, node in enumerate(cluster)
    ]
    scene = Scene(hosts, gang(members_of(wanted), attribute("domain", required=required)))
    answer = scene.decide()
    assert scene.decide(Random(seed)) == answer
    in_one = any(fits(cluster, wanted, domain) for domain in DOMAINS[1:])
    if not in_one and (required or not fits(cluster, wanted, None)):
        assert isinstance(answer, GangRefusal)
        assert answer.decided
        return
    assert isinstance(answer, GangPlan)
    assert len(answer.placements) == sum(unit.members for unit in wanted)
    held = [name.split("/gpu-") for name in devices_of(answer)]
    if in_one:
        (domain,) = {cluster[int(node[1:])].cards[int(card)] for node, card in held}
        assert domain
