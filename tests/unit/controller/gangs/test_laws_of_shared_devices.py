"""Against trying everything, where nodes share devices, and where the parts of a node share its CPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from controller.cluster import Cluster
from controller.gangs import GangPlan, Member, SearchOptions, choose
from controller.refusal import Refusal
from driver.model import Device, NodeScope, Slice
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, want
from tests.unit.controller.gangs.cases import CLUSTER, GangCase, Host, add, attribute, gang, member, state

KINDS = ("", "a", "b")
"""What a member asks for; "" for any."""


@dataclass(frozen=True)
class SharingNodes:
    """Nodes with cards of kinds, and cards of a pool that all nodes reach."""

    nodes: tuple[tuple[tuple[str, ...], int], ...]
    """Cards and CPUs."""
    shared: tuple[str, ...]


@dataclass(frozen=True)
class Asking:
    kind: str
    count: int


cards = st.one_of(st.just(()), st.lists(st.sampled_from(KINDS[1:]), max_size=2).map(tuple))
clusters = st.builds(
    SharingNodes,
    st.lists(st.tuples(cards, st.sampled_from([1, 1, 2])), min_size=1, max_size=3).map(tuple),
    st.lists(st.sampled_from(KINDS[1:]), min_size=1, max_size=4).map(tuple),
)
members_asking = st.lists(st.builds(Asking, st.sampled_from(KINDS), st.integers(1, 2)), min_size=1, max_size=4)


def fits(cluster: SharingNodes, wanted: Sequence[Asking]) -> bool:
    for places in product(range(len(cluster.nodes)), repeat=len(wanted)):
        if all(places.count(number) <= cpus for number, (_, cpus) in enumerate(cluster.nodes)):
            free = [*(list(own) for own, _ in cluster.nodes), list(cluster.shared)]
            if _served(free, [*zip(places, wanted, strict=True)]):
                return True
    return False


def _served(free: list[list[str]], wanted: list[tuple[int, Asking]]) -> bool:
    """Whether there are cards for all, each of its own node or of those that are shared."""
    if not wanted:
        return True
    (place, asking), rest = wanted[0], wanted[1:]
    if asking.count > 1:
        rest = [(place, Asking(asking.kind, asking.count - 1)), *rest]
    for pool in (free[place], free[-1]):
        for kind in {kind for kind in pool if asking.kind in ("", kind)}:
            pool.remove(kind)
            found = _served(free, rest)
            pool.append(kind)
            if found:
                return True
    return False


def members_of(wanted: Sequence[Asking]) -> Iterator[Member]:
    for rank, one in enumerate(wanted):
        selectors = [f'device.attributes["{DRIVER}"].sort == "{one.kind}"'] if one.kind else []
        yield member(rank, claim(want("gpu", *selectors, count=one.count), name=f"w{rank}"))


def sorted_devices(kinds: Sequence[str]) -> Iterator[Device]:
    return (device(f"gpu-{number}", {"sort": kind}) for number, kind in enumerate(kinds))


@example(SharingNodes((((), 1), ((), 1)), ("a", "b")), [Asking("", 1), Asking("a", 1)], 0)
@example(SharingNodes((((), 2), ((), 1)), ("a", "a", "b", "b")), [Asking("", 2), Asking("a", 1), Asking("a", 1)], 0)
@given(clusters, members_asking, st.integers(0, 100))
def test_a_gang_is_placed_exactly_if_it_can_be_where_nodes_share_devices(
    cluster: SharingNodes, wanted: list[Asking], seed: int
) -> None:
    answers = []
    for shuffle in (None, Random(seed)):
        hosts = [Host(f"n{number}", {"ib": "a"}, 0, cpus) for number, (_, cpus) in enumerate(cluster.nodes)]
        made, nodes, asked = GangCase(hosts, gang(members_of(wanted), CLUSTER)).built(shuffle)
        for number, (own, cpus) in enumerate(cluster.nodes):
            if own:
                add(Host(f"n{number}", {"ib": "a"}, 0, cpus, devices=tuple(sorted_devices(own))), made, nodes)
        scope = NodeScope(all_nodes=True)
        made.ledger.upsert_slice(Slice("fabric", DRIVER, "fabric", 1, 1, scope, tuple(sorted_devices(cluster.shared))))
        before = state(made, nodes)
        answers.append(choose(asked, Cluster.unlimited(made, nodes), SearchOptions(20_000)))
        assert state(made, nodes) == before
    answer = answers[0]
    assert answers == [answer, answer]
    if not fits(cluster, wanted):
        assert isinstance(answer, Refusal)
        assert answer.why.decided
        return
    assert isinstance(answer, GangPlan), answer
    held = [result.device for one in answer.placements for found in one.allocations for result in found.results]
    assert len(set(held)) == len(held) == sum(one.count for one in wanted)
    for number, (_, cpus) in enumerate(cluster.nodes):
        assert sum(one.node == f"n{number}" for one in answer.placements) <= cpus


parts = st.lists(
    st.tuples(st.lists(st.sampled_from("xyz"), max_size=5).map(tuple), st.integers(1, 4)), min_size=1, max_size=3
)


@given(parts, st.integers(1, 3), st.integers(1, 2), st.integers(1, 2))
def test_groups_on_parts_of_a_node_get_no_more_cpus_than_the_node_has(
    nodes: list[tuple[tuple[str, ...], int]], groups: int, size: int, cpus: int
) -> None:
    hosts = [
        Host(
            f"n{number}",
            cards=0,
            cpus=of_node,
            devices=tuple(device(f"gpu-{card}", {"domain": domain}) for card, domain in enumerate(own)),
        )
        for number, (own, of_node) in enumerate(nodes)
    ]
    members = [member(rank, cpus=cpus) for rank in range(groups * size)]
    answer = GangCase(hosts, gang(members, attribute("domain", group_size=size))).decide()
    if isinstance(answer, Refusal):
        assert answer.why.decided
        assert not _groups_fit(nodes, groups, size, cpus)
        return
    for number, (_, of_node) in enumerate(nodes):
        assert sum(one.node == f"n{number}" for one in answer.placements) * cpus <= of_node


def _groups_fit(nodes: list[tuple[tuple[str, ...], int]], groups: int, size: int, cpus: int) -> bool:
    """Whether each group finds cards of one domain; of equal members it only matters how many are on which part."""
    choices = [(domain, places) for domain in "xyz" for places in product(range(len(nodes)), repeat=size)]
    for chosen in product(choices, repeat=groups):
        used = [(place, domain) for domain, places in chosen for place in places]
        if all(
            sum(place == number for place, _ in used) * cpus <= of_node
            and all(used.count((number, domain)) <= own.count(domain) for domain in "xyz")
            for number, (own, of_node) in enumerate(nodes)
        ):
            return True
    return False
