"""The double allocation that started this project (Volcano 3824), and its relatives, cannot happen.

Every step of every test also checks that no exclusive card is in two live claims.
"""

from collections.abc import Sequence
from itertools import permutations

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS
from simulation.weather import Weather
from tests.system.objects import NAMESPACE
from tests.system.town import Town

CARDS = {f"gpu-{index}" for index in range(8)}


def assert_all_eight(town: Town, names: Sequence[str]) -> None:
    held = [town.devices(name) for name in names]
    assert sum(len(devices) for devices in held) == 8
    assert set().union(*held) == CARDS
    assert town.running(*names)


BATCHES = {"a": "gpu-2", "b": "gpu-2", "c": "gpu-4"}


@pytest.mark.parametrize("order", list(permutations(BATCHES)), ids="".join)
def test_batches_of_2_2_and_4_share_8_cards_in_every_order(order: tuple[str, ...]) -> None:
    town = Town()
    for name in order:
        town.create(name, BATCHES[name])
        town.rest()
    assert_all_eight(town, order)


@pytest.mark.parametrize("seed", range(3))
def test_batches_created_at_once_share_8_cards(seed: int) -> None:
    town = Town(seed)
    for name, ask in BATCHES.items():
        town.create(name, ask)
    town.rest()
    assert_all_eight(town, list(BATCHES))


def test_one_pod_too_many_waits_with_a_reason_and_gets_a_card_that_was_freed() -> None:
    town = Town()
    for name, ask in BATCHES.items():
        town.create(name, ask)
        town.rest()
    town.create("d", "gpu-1")
    town.rest()
    assert town.devices("d") == set()
    assert not town.running("d")
    assert "n1" in town.why_pending("d") or "node" in town.why_pending("d")
    assert "gpu.lode.dev" in town.why_pending("d") or "device" in town.why_pending("d")
    freed = town.devices("b")
    town.delete("b")
    town.rest()
    assert len(town.devices("d")) == 1
    assert town.devices("d") <= freed
    assert town.running("a", "c", "d")


@pytest.mark.parametrize("gap", [0, 0.01, 1, 3, 10])
def test_four_pods_of_one_card_have_four_cards_at_any_pace(gap: float) -> None:
    town = Town(profile="a100x4", count=4)
    for index in range(4):
        town.create(f"p{index}", "gpu-1")
        town.cluster.advance(gap)
    town.create("one-too-many", "gpu-1")
    town.rest()
    held = [town.devices(f"p{index}") for index in range(4)]
    assert sorted(held, key=sorted) == [{f"gpu-{index}"} for index in range(4)]
    assert town.devices("one-too-many") == set()


@pytest.mark.parametrize("seed", range(4))
def test_a_controller_that_dies_at_any_call_hands_out_nothing_twice(seed: int) -> None:
    town = Town(seed)
    town.cluster.weather = Weather(crash=0.05)
    for name, ask in BATCHES.items():
        town.create(name, ask)
        town.cluster.run(20)
    town.cluster.weather = Weather()
    town.rest()
    assert_all_eight(town, list(BATCHES))


@pytest.mark.parametrize("seed", range(4))
def test_two_controllers_with_leaders_that_stall_hand_out_nothing_twice(seed: int) -> None:
    town = Town(seed, controllers=2)
    town.cluster.weather = Weather(overtaken=0.3, unseen=0.3)
    for name, ask in BATCHES.items():
        town.create(name, ask)
        town.cluster.run(5)
        leader = next(part for part in town.cluster.parts.values() if getattr(part.program, "leads", False))
        town.cluster.stall(leader.name, 150)
        town.cluster.advance(200)
    town.cluster.weather = Weather()
    town.rest()
    assert_all_eight(town, list(BATCHES))


@pytest.mark.parametrize("seed", range(4))
def test_watches_that_lag_hand_out_nothing_twice(seed: int) -> None:
    town = Town(seed)
    town.cluster.weather = Weather(unseen=0.9)
    for name, ask in BATCHES.items():
        town.create(name, ask)
    town.rest()
    assert_all_eight(town, list(BATCHES))


ENDS = ["succeeded", "failed", "deleted", "force-deleted", "claim deleted", "plugin died first", "node rebooted"]


@pytest.mark.parametrize("end", ENDS)
def test_a_card_comes_back_once_and_not_before_its_containers_are_gone(end: str) -> None:
    """Also after every step: different claims never meet in running containers of one machine."""
    town = Town()
    cluster = town.cluster
    town.create("first", "gpu-8", grace=60)
    town.rest()
    town.create("next", "gpu-8")
    town.rest()
    assert town.devices("next") == set()
    first = cluster.user.get(PODS, "first", NAMESPACE)
    match end:
        case "succeeded" | "failed":
            cluster.end(first, end.capitalize())
        case "force-deleted":
            cluster.user.delete(PODS, "first", NAMESPACE, grace_period_seconds=0)
        case "plugin died first":
            cluster.kill("plugin-n1", 100)
            town.delete("first")
        case "node rebooted":
            town.delete("first")
            cluster.reboot("n1")
        case "claim deleted":
            claim = town.claim("first")
            cluster.user.delete(RESOURCE_CLAIMS, claim.name, NAMESPACE)
            town.rest()
            assert town.devices("first") == CARDS
            town.delete("first")
        case _:
            town.delete("first")
    town.rest()
    assert town.devices("next") == CARDS
    assert town.running("next")
