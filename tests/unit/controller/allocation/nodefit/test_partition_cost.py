"""binpack keeps large partitions of a card in one piece, on the cards this driver publishes."""

import random
from collections.abc import Sequence

import pytest

from controller.allocation import Fleet
from controller.allocation.devices.pools import Pool
from controller.allocation.nodefit.partition_cost import PartitionCosts
from controller.cluster import Cluster
from controller.placement import Placed, place
from driver.kinds import EVERY_OFFER
from driver.model import (
    Allocation,
    Claim,
    ClaimSpec,
    DeviceClass,
    NodeScope,
    OpaqueConfig,
    Request,
    Result,
    Slice,
    Want,
)
from driver.names import Names
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.partitions import Scheme
from kubeletplugin.hardware.simulated.schemes import SCHEMES
from kubeletplugin.inventory import Fabric, build_inventory
from tests.unit.controller.allocation.small_fleets import NODE, demand, most_placed, names, nodes

POLICIES = ("firstFit", "binpack", "spread")
LARGE = 40
"""Partitions of at least this much of a card's compute, in per cent, are large."""


def slices(scheme: Scheme, cards: int, node: str) -> list[Slice]:
    vendor, pool = "nvidia" if scheme.kind == "mig" else "huawei", f"{node}/lode.dev"
    made = [
        Card(i, f"u{i}", vendor, "T", "M", "A", 65536, f"0000:{i:02x}:00.0", f"r{i}", "1", scheme=scheme)  # type: ignore[arg-type]
        for i in range(cards)
    ]
    offered = build_inventory(made, Fabric(), EVERY_OFFER, 8, Names())
    return [
        Slice(f"{pool}-0", "lode.dev", pool, 1, 2, NodeScope(node), (), offered.counter_sets),
        Slice(f"{pool}-1", "lode.dev", pool, 1, 2, NodeScope(node), offered.devices),
    ]


def fleet_of(scheme: Scheme, cards: int, nodes: int = 1) -> Fleet:
    built = Fleet()
    built.upsert_class(DeviceClass("any"))
    for number in range(nodes):
        node = f"n{number + 1}"
        built.ledger.upsert_node(node, {})
        for part in slices(scheme, cards, node):
            built.ledger.upsert_slice(part)
    return built


def asking(profile: str, policy: str, count: int = 1) -> Claim:
    want = Want("any", selectors=(f'device.attributes["lode.dev"].profile == "{profile}"',), count=count)
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "policy": policy}
    return Claim("ns", "c", "c", ClaimSpec((Request("r", (want,)),), (), (OpaqueConfig("lode.dev", parameters),)))


def taken(built: Fleet, *profiles: str, policy: str = "binpack") -> str:
    """Take partitions one after the other; where the last one is."""
    found: list[str] = []
    for number, profile in enumerate(profiles):
        answer = built.allocate(NODE, {}, [asking(profile, policy)])
        found = names(answer)[0]
        assert isinstance(answer, tuple)
        built.ledger.assume(f"{profile}-{number}-{len(built.ledger.usage_snapshot())}", answer[0])
    return found[0]


# scheme, cards, partitions taken one after the other under binpack, and where the last one goes
EDGES = (
    ("mig-h100-80gb", 2, ("1g.10gb",), "gpu-0-mig-1g-10gb-6"),
    ("mig-h100-80gb", 2, ("1g.10gb", "1g.10gb"), "gpu-0-mig-1g-10gb-5"),
    ("mig-h100-80gb", 2, ("1g.10gb", "2g.20gb"), "gpu-0-mig-2g-20gb-4"),
    ("mig-h100-80gb", 2, ("1g.10gb", "3g.40gb"), "gpu-0-mig-3g-40gb-0"),
    ("mig-h100-80gb", 2, ("1g.10gb", "3g.40gb", "1g.10gb"), "gpu-0-mig-1g-10gb-5"),
    ("mig-h100-80gb", 2, ("1g.10gb", "7g.80gb"), "gpu-1-mig-7g-80gb-0"),
    ("mig-a100-40gb", 2, ("4g.20gb", "3g.20gb", "1g.5gb"), "gpu-1-mig-1g-5gb-6"),
    ("vnpu-310p", 2, ("vir01", "vir01"), "npu-0-vir01-1"),
    ("vnpu-310p", 2, ("vir04", "vir04_3c"), "npu-0-vir04-3c-0"),
    ("vnpu-310p", 2, ("vir04_3c_ndvpp", "vir04_4c_dvpp"), "npu-0-vir04-4c-dvpp-0"),
    ("vnpu-910b3", 2, ("vir05_1c_16g", "vir10_3c_32g", "vir05_1c_16g"), "npu-0-vir05-1c-16g-1"),
)


@pytest.mark.parametrize(("scheme", "cards", "profiles", "where"), EDGES)
def test_a_partition_goes_where_it_costs_least(scheme: str, cards: int, profiles: Sequence[str], where: str) -> None:
    assert taken(fleet_of(SCHEMES[scheme], cards), *profiles) == where


def test_cards_that_are_cut_already_are_cut_on_and_under_spread_untouched_ones_first() -> None:
    scheme = SCHEMES["mig-h100-80gb"]
    for policy, cards in (("binpack", "00000001"), ("spread", "01230123")):
        built = fleet_of(scheme, 4)
        chosen = [taken(built, "1g.10gb", policy=policy).split("-")[1] for _ in range(8)]
        assert "".join(chosen) == cards


def test_partitions_of_one_request_are_chosen_as_if_one_after_the_other() -> None:
    built = fleet_of(SCHEMES["mig-h100-80gb"], 2)
    one_by_one = fleet_of(SCHEMES["mig-h100-80gb"], 2)
    single = [taken(one_by_one, "2g.20gb") for _ in range(4)]
    assert names(built.allocate(NODE, {}, [asking("2g.20gb", "binpack", 4)])) == [single]


def test_a_later_request_of_the_pod_knows_what_an_earlier_one_took() -> None:
    built = fleet_of(SCHEMES["mig-h100-80gb"], 2)
    both = [asking("1g.10gb", "binpack"), asking("3g.40gb", "binpack")]
    assert names(built.allocate(NODE, {}, both)) == [["gpu-0-mig-1g-10gb-6"], ["gpu-0-mig-3g-40gb-0"]]


def test_the_node_where_a_partition_costs_least_comes_first() -> None:
    built = fleet_of(SCHEMES["mig-h100-80gb"], 1, nodes=3)
    chosen = []
    for number in range(10):
        answer = place(built, [asking("1g.10gb", "binpack")])
        assert isinstance(answer, Placed)
        built.ledger.assume(str(number), answer.allocations[0])
        chosen.append(answer.node)
    assert chosen == ["n1"] * 7 + ["n2"] * 3


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_a_partition_costs_is_what_could_be_had_before_and_not_after(scheme: str) -> None:
    """Counted one by one: of every kind, how many more could be had before."""
    built = fleet_of(SCHEMES[scheme], 1)
    profiles = list(dict.fromkeys(partition.profile for partition in SCHEMES[scheme].partitions))

    def rooms() -> dict[str, int]:
        return {profile: sum(most_placed(built, [asking(profile, "firstFit")]).values()) for profile in profiles}

    before = rooms()
    pool = _pool(built)
    by_name = {device.spec.name: device for device in pool.devices}
    for profile in profiles:
        with Cluster.unlimited(built, nodes("n1")).what_if() as trial:
            answer = trial.schedule(demand([asking(profile, "firstFit")]))
            assert isinstance(answer, Placed)
            taken = by_name[answer.allocations[0].results[0].device.device]
            after = rooms()
        lost, filled = PartitionCosts().cards_of(pool).cost(taken, pool.total)
        assert all(count > 0 for _, count in lost)
        assert lost == tuple(sorted(lost, reverse=True))
        assert lost[0] == (1_000_000, 1), "the whole card, or its share"
        assert 0 < filled <= 1_000_000
        assert sum(count for _, count in lost) - 1 >= max(before[name] - after[name] for name in profiles)


def _pool(built: Fleet) -> Pool:
    built.ledger.free_counters()
    (pool,) = built._index.pools.values()
    return pool


# Cards cut at random


def cut_at_random(scheme: Scheme, rng: random.Random) -> Fleet:
    """Three cards from which partitions were taken wherever it happened to be."""
    built, cores = fleet_of(scheme, 3), {partition.profile: partition.cores for partition in scheme.partitions}
    pool = _pool(built)
    for number in range(rng.randrange(2, 9)):
        profiles = [str(device.spec.attributes["lode.dev/profile"]) for device in pool.devices]
        small = [i for i, profile in enumerate(profiles) if pool.available >> i & 1 and 0 < cores.get(profile, 0) < 60]
        if small:
            built.ledger.assume(f"held-{number}", Allocation((Result("r", pool.devices[rng.choice(small)].id),)))
    return built


@pytest.mark.parametrize("name", ["mig-a100-40gb", "mig-h100-80gb", "vnpu-310p", "vnpu-910b3"])
def test_binpack_leaves_room_for_more_large_partitions_than_first_fit(name: str) -> None:
    """Of random states, after one more partition: how many large ones could still be had, the largest first."""
    cores = {partition.profile: partition.cores for partition in SCHEMES[name].partitions}
    large = sorted((profile for profile in cores if cores[profile] >= LARGE), key=lambda profile: -cores[profile])
    total = dict.fromkeys(POLICIES, 0)
    better = worse = 0
    for seed in range(60):
        rng = random.Random(seed)
        built = cut_at_random(SCHEMES[name], rng)
        profile = rng.choice(list(cores))
        rooms: dict[str, list[int]] = {}
        for policy in POLICIES:
            with Cluster.unlimited(built, nodes("n1")).what_if() as trial:
                if isinstance(trial.schedule(demand([asking(profile, policy)])), Placed):
                    rooms[policy] = [sum(most_placed(built, [asking(one, "firstFit")]).values()) for one in large]
        if rooms:
            total = {policy: total[policy] + sum(rooms[policy]) for policy in POLICIES}
            better += rooms["binpack"] > rooms["firstFit"]
            worse += rooms["binpack"] < rooms["firstFit"]
    assert max(total["spread"], total["firstFit"]) < total["binpack"]
    assert better > 4 * worse
