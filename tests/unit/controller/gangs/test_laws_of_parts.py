"""Against trying everything, where nodes have cards of several domains and members share claims."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from controller.gangs import GangPlan, Member
from controller.refusal import Refusal
from tests.unit.controller.allocation.small_fleets import claim, device, want
from tests.unit.controller.gangs.cases import GangCase, Host, attribute, devices_of, gang, member

DOMAINS = ("", "x", "y", "z")
ALL = -1


@dataclass(frozen=True)
class Part:
    """A node: the domain of each of its cards, and its CPUs."""

    cards: tuple[str, ...]
    cpus: int


@dataclass(frozen=True)
class Unit:
    """Members that share one claim for some cards, or for all cards of their node (``ALL``); mostly a single one."""

    members: int
    cards: int
    cpus: int


nodes = st.builds(Part, st.lists(st.sampled_from(DOMAINS), max_size=5).map(tuple), st.integers(1, 6))
units = st.builds(Unit, st.sampled_from([1, 1, 2, 3]), st.sampled_from([1, 1, 2, 2, 3, ALL]), st.integers(1, 2))
problems = st.tuples(st.lists(nodes, min_size=1, max_size=3), st.lists(units, min_size=1, max_size=4))


def fits(cluster: list[Part], wanted: list[Unit], domain: str | None) -> bool:
    """Whether all units find cards of the domain, None for any cards, each on one node."""
    for places in product(range(len(cluster)), repeat=len(wanted)):
        on = [[unit for unit, at in zip(wanted, places, strict=True) if at == number] for number in range(len(cluster))]
        if all(
            _has_cards(node, here, domain) and sum(unit.cpus * unit.members for unit in here) <= node.cpus
            for node, here in zip(cluster, on, strict=True)
        ):
            return True
    return False


def _has_cards(node: Part, here: list[Unit], domain: str | None) -> bool:
    inside = len(node.cards) if domain is None else node.cards.count(domain)
    if any(unit.cards == ALL for unit in here):
        return len(here) == 1 and 0 < inside == len(node.cards)
    return sum(unit.cards for unit in here) <= inside


def members_of(wanted: list[Unit]) -> Iterator[Member]:
    rank = 0
    for number, unit in enumerate(wanted):
        asked = want(mode="All") if unit.cards == ALL else want(count=unit.cards)
        shared = claim(asked, name=f"shared-{number}")
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
    scene = GangCase(hosts, gang(members_of(wanted), attribute("domain", required=required)))
    answer = scene.decide()
    assert scene.decide(Random(seed)) == answer
    in_one = any(fits(cluster, wanted, domain) for domain in DOMAINS[1:])
    if not in_one and (required or not fits(cluster, wanted, None)):
        assert isinstance(answer, Refusal)
        assert answer.why.decided
        return
    assert isinstance(answer, GangPlan)
    assert len(answer.placements) == sum(unit.members for unit in wanted)
    held = [name.split("/gpu-") for name in devices_of(answer)]
    for number, placement in enumerate(answer.placements):
        node, unit = cluster[int(placement.node[1:])], [unit for unit in wanted for _ in range(unit.members)][number]
        (allocation,) = placement.allocations
        assert len(allocation.results) == (len(node.cards) if unit.cards == ALL else unit.cards)
    if in_one:
        (domain,) = {cluster[int(node[1:])].cards[int(card)] for node, card in held}
        assert domain
