"""Members that share a claim for a device that several nodes reach. Laws: against trying everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cluster import Cluster
from controller.gangs import GangPlan, Member, SearchOptions, TriedDomains, choose, render
from controller.refusal import Refusal
from driver.model import (
    Claim,
    NodeRequirement,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    Slice,
)
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, want
from tests.unit.controller.gangs.cases import CLUSTER, GangCase, Host, gang, member, state

EVERYWHERE = NodeScope(all_nodes=True)


def rack(name: str) -> NodeScope:
    return NodeScope(selector=NodeSelector((NodeSelectorTerm((NodeRequirement("rack", "In", (name,)),)),)))


def channel_claim(name: str = "channel") -> Claim:
    return claim(want("gpu", f'device.attributes["{DRIVER}"].sort == "channel"'), name=name)


def card_claim(name: str) -> Claim:
    return claim(want("gpu", f'device.attributes["{DRIVER}"].sort == "card"'), name=name)


def sharing(rank: int, *channels: Claim, others: bool = False) -> Member:
    """A member with a card of its own and these channels, which another driver's are if ``others``."""
    own = card_claim(f"card-{rank}")
    if others:
        return member(rank, own, other_drivers_claims=channels)
    return member(rank, own, *channels)


@dataclass(frozen=True)
class Racks:
    """Nodes as (rack, cards), and channels as the rack that reaches them; "" for all nodes."""

    nodes: tuple[tuple[str, int], ...]
    channels: tuple[str, ...]

    def decide(self, *asked: Member, **options: Any) -> GangPlan | Refusal[TriedDomains]:
        hosts = [
            Host(
                f"n{number}",
                {"ib": "a", "rack": of},
                devices=tuple(device(f"gpu-{card}", {"sort": "card"}) for card in range(cards)),
                cards=cards,
            )
            for number, (of, cards) in enumerate(self.nodes, 1)
        ]
        made, nodes, question = GangCase(hosts, gang(asked, CLUSTER, **options)).built()
        for number, of in enumerate(self.channels, 1):
            scope = rack(of) if of else EVERYWHERE
            devices = (device("channel", {"sort": "channel"}),)
            made.ledger.upsert_slice(Slice(f"c{number}", DRIVER, f"c{number}", 1, 1, scope, devices))
        before = state(made, nodes)
        answer = choose(question, Cluster.unlimited(made, nodes), SearchOptions(20_000))
        assert state(made, nodes) == before
        return answer


def pools(answer: GangPlan | Refusal[TriedDomains]) -> list[list[str]]:
    """The pools of each member's devices, its channels last."""
    assert isinstance(answer, GangPlan), answer
    return [
        [
            result.device.pool.split("/")[0]
            for allocation in (*placement.allocations, *placement.other_drivers_allocations)
            for result in allocation.results
        ]
        for placement in answer.placements
    ]


@pytest.mark.parametrize("others", [False, True])
def test_a_refusal_names_the_claims_for_which_no_node_has_devices(others: bool) -> None:
    one, other = channel_claim("one"), channel_claim("other")
    answer = Racks((("r1", 2), ("r2", 2)), ()).decide(sharing(0, one, others=others), sharing(1, one, others=others))
    assert isinstance(answer, Refusal)
    assert answer.why.lacking == ("ns/one",)
    assert render(answer).endswith("; no node has devices now for the claim ns/one")
    alone = Racks((("r1", 2),), ()).decide(sharing(0, one, others=others), sharing(1, other, others=others))
    assert isinstance(alone, Refusal)
    assert alone.why.lacking == (("ns/one", "ns/other") if others else ()), "each of ours is named with its member"
    both = Racks((("r1", 1),), ("r1",)).decide(sharing(0, one, others=others), sharing(1, one, others=others))
    assert isinstance(both, Refusal)
    assert both.why.lacking == (), "there is a channel, and a card too few"


def test_a_device_of_all_nodes_lets_members_be_on_different_ones() -> None:
    for others in (False, True):
        found = Racks((("r1", 1), ("r1", 1)), ("",)).decide(
            *(sharing(rank, channel_claim(), others=others) for rank in range(2)), minimum=2
        )
        assert pools(found) == [["n1", "c1"], ["n2", "c1"]]


def test_the_members_are_where_the_device_of_a_rack_is() -> None:
    cluster = Racks((("r1", 1), ("r1", 0), ("r2", 1), ("r2", 1)), ("r1", "r2"))
    for others in (False, True):
        found = cluster.decide(*(sharing(rank, channel_claim(), others=others) for rank in range(2)), minimum=2)
        assert pools(found) == [["n3", "c2"], ["n4", "c2"]]


def test_members_of_two_claims_get_a_channel_each() -> None:
    asked = [sharing(0, channel_claim("x")), sharing(1, channel_claim("x"))]
    asked += [sharing(2, channel_claim("y")), sharing(3, channel_claim("y"))]
    nodes = (("r1", 1), ("r1", 1), ("r2", 1), ("r2", 1))
    found = pools(Racks(nodes, ("r1", "r2")).decide(*asked, minimum=4))
    assert [channel for _, channel in found] == ["c1", "c1", "c2", "c2"]
    assert pools(Racks(nodes, ("", "")).decide(*asked, minimum=4)) == [
        ["n1", "c1"],
        ["n2", "c1"],
        ["n3", "c2"],
        ["n4", "c2"],
    ]
    assert isinstance(Racks(nodes, ("",)).decide(*asked, minimum=4), Refusal)


def test_a_member_may_have_several_of_them() -> None:
    asked = [sharing(0, channel_claim("x")), sharing(1, channel_claim("x"), channel_claim("y"))]
    asked.append(sharing(2, channel_claim("y")))
    found = pools(Racks((("r1", 1), ("r1", 1), ("r1", 1)), ("", "r1")).decide(*asked, minimum=3))
    assert found == [["n1", "c1"], ["n2", "c1", "c2"], ["n3", "c2"]]


def test_without_a_device_for_several_nodes_they_come_to_one() -> None:
    shared = card_claim("shared")
    found = Racks((("r1", 1), ("r1", 3)), ("",)).decide(
        member(0, card_claim("own-0"), shared), member(1, card_claim("own-1"), shared), minimum=2
    )
    assert [own[0] for own in pools(found)] == ["n2", "n2"]


def test_a_refusal_says_what_is_missing_where_the_device_is_reached() -> None:
    found = Racks((("r1", 1), ("r1", 0), ("r2", 0), ("r2", 0)), ("r1",)).decide(
        *(sharing(rank, channel_claim()) for rank in range(2)), minimum=2
    )
    assert isinstance(found, Refusal)
    assert [(fit.placed, fit.needed) for fit in found.why.fits] == [(1, 2)]


racks = st.builds(
    Racks,
    st.lists(st.tuples(st.sampled_from(["r1", "r2"]), st.integers(0, 2)), min_size=1, max_size=4).map(tuple),
    st.lists(st.sampled_from(["r1", "r2", ""]), max_size=3).map(tuple),
)
users = st.lists(st.sets(st.sampled_from("xy"), max_size=2), min_size=1, max_size=4)


def can_start(cluster: Racks, wanted: Sequence[set[str]]) -> bool:
    claims = sorted({name for own in wanted for name in own})
    for devices in product(range(len(cluster.channels)), repeat=len(claims)):
        if len(set(devices)) < len(claims):
            continue
        reached = {name: cluster.channels[number] for name, number in zip(claims, devices, strict=True)}
        for places in product(range(len(cluster.nodes)), repeat=len(wanted)):
            fits = all(places.count(number) <= cards for number, (_, cards) in enumerate(cluster.nodes))
            if fits and all(
                reached[name] in ("", cluster.nodes[at][0])
                for at, own in zip(places, wanted, strict=True)
                for name in own
            ):
                return True
    return False


@given(racks, users)
def test_a_gang_starts_exactly_if_some_choice_of_channels_and_nodes_lets_it(
    cluster: Racks, wanted: list[set[str]]
) -> None:
    asked = [sharing(rank, *(channel_claim(name) for name in sorted(own))) for rank, own in enumerate(wanted)]
    answer = cluster.decide(*asked, minimum=len(asked))
    assert isinstance(answer, GangPlan) == can_start(cluster, wanted), answer
    if isinstance(answer, GangPlan):
        devices: dict[str, set[str]] = {}
        for own, placement in zip(wanted, answer.placements, strict=True):
            of = cluster.nodes[int(placement.node[1:]) - 1][0]
            for name, allocation in zip(sorted(own), placement.allocations[1:], strict=True):
                (result,) = allocation.results
                devices.setdefault(name, set()).add(result.device.pool)
                assert cluster.channels[int(result.device.pool[1:]) - 1] in ("", of)
        assert all(len(held) == 1 for held in devices.values())
        assert len(set().union(*devices.values())) == len(devices)
