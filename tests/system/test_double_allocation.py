"""The double allocation of Volcano issue 3824, and similar ones, cannot happen.

Every step of every test also checks that no exclusive card is allocated to two claims.
"""

from collections.abc import Sequence
from itertools import permutations

import pytest

from driver.kube.api import PODS, RESOURCE_CLAIMS
from tests.simulation.faults import FaultProfile, NetworkFaults
from tests.system.objects import NAMESPACE
from tests.system.scenario import LEASE_SECONDS, Scenario

CARDS = {f"gpu-{index}" for index in range(8)}


def assert_all_eight(scenario: Scenario, names: Sequence[str]) -> None:
    held = [scenario.devices(name) for name in names]
    assert sum(len(devices) for devices in held) == 8
    assert set().union(*held) == CARDS
    assert scenario.running(*names)


BATCHES = {"a": "gpu-2", "b": "gpu-2", "c": "gpu-4"}


@pytest.mark.parametrize("order", list(permutations(BATCHES)), ids="".join)
def test_batches_of_2_2_and_4_share_8_cards_in_every_order(order: tuple[str, ...]) -> None:
    scenario = Scenario()
    for name in order:
        scenario.create(name, BATCHES[name])
        scenario.settle()
    assert_all_eight(scenario, order)


@pytest.mark.parametrize("seed", range(3))
def test_batches_created_at_once_share_8_cards(seed: int) -> None:
    scenario = Scenario(seed)
    for name, template in BATCHES.items():
        scenario.create(name, template)
    scenario.settle()
    assert_all_eight(scenario, list(BATCHES))


def test_one_pod_too_many_waits_with_a_reason_and_gets_a_card_that_was_freed() -> None:
    scenario = Scenario()
    for name, template in BATCHES.items():
        scenario.create(name, template)
        scenario.settle()
    scenario.create("d", "gpu-1")
    scenario.settle()
    assert scenario.devices("d") == set()
    assert not scenario.running("d")
    assert "n1" in scenario.why_pending("d") or "node" in scenario.why_pending("d")
    assert "gpu.lode.dev" in scenario.why_pending("d") or "device" in scenario.why_pending("d")
    freed = scenario.devices("b")
    scenario.delete("b")
    scenario.settle()
    assert len(scenario.devices("d")) == 1
    assert scenario.devices("d") <= freed
    assert scenario.running("a", "c", "d")


@pytest.mark.parametrize("gap", [0, 0.01, 1, 3, 10])
def test_four_pods_of_one_card_have_four_cards_at_any_pace(gap: float) -> None:
    scenario = Scenario(profile="a100x4", count=4)
    for index in range(4):
        scenario.create(f"p{index}", "gpu-1")
        scenario.cluster.advance(gap)
    scenario.create("one-too-many", "gpu-1")
    scenario.settle()
    held = [scenario.devices(f"p{index}") for index in range(4)]
    assert sorted(held, key=sorted) == [{f"gpu-{index}"} for index in range(4)]
    assert scenario.devices("one-too-many") == set()


@pytest.mark.parametrize("seed", range(4))
def test_a_controller_that_dies_at_any_call_hands_out_nothing_twice(seed: int) -> None:
    scenario = Scenario(seed)
    scenario.cluster.faults = FaultProfile(crash=0.05)
    for name, template in BATCHES.items():
        scenario.create(name, template)
        scenario.cluster.run(20)
    scenario.cluster.faults = FaultProfile()
    scenario.settle()
    assert_all_eight(scenario, list(BATCHES))


@pytest.mark.parametrize("seed", range(4))
def test_two_controllers_with_leaders_that_stall_hand_out_nothing_twice(seed: int) -> None:
    scenario = Scenario(seed, controllers=2)
    scenario.cluster.faults = FaultProfile(interleave=0.3, skip_watch=0.3)
    for name, template in BATCHES.items():
        scenario.create(name, template)
        scenario.cluster.run(5)
        leader = next(slot for slot in scenario.cluster.slots.values() if getattr(slot.program, "leads", False))
        scenario.cluster.slots.stall(leader.name, 150)
        scenario.cluster.advance(200)
    scenario.cluster.faults = FaultProfile()
    scenario.settle()
    assert_all_eight(scenario, list(BATCHES))


@pytest.mark.parametrize("seed", range(6))
def test_leases_that_lapse_while_writes_hang_hand_out_nothing_twice(seed: int) -> None:
    """Each leader in turn is cut off while its writes are under way; they arrive late, or never."""
    scenario = Scenario(seed, controllers=2)
    faults = FaultProfile(interleave=0.2, skip_watch=0.3, network=NetworkFaults(slow=0.3, hang=0.5))
    for index in range(8):
        scenario.cluster.faults = faults
        scenario.create(f"p{index}", "gpu-1")
        scenario.cluster.run(25)
        leader = next((slot for slot in scenario.cluster.slots.values() if getattr(slot.program, "leads", False)), None)
        if leader is not None:
            scenario.cluster.slots.stall(leader.name, 150)
        scenario.cluster.advance(LEASE_SECONDS + 30)
    scenario.cluster.faults = FaultProfile()
    scenario.settle()
    held = [scenario.devices(f"p{index}") for index in range(8)]
    assert set().union(*held) == CARDS


@pytest.mark.parametrize("seed", range(4))
def test_watches_that_lag_hand_out_nothing_twice(seed: int) -> None:
    scenario = Scenario(seed)
    scenario.cluster.faults = FaultProfile(skip_watch=0.9)
    for name, template in BATCHES.items():
        scenario.create(name, template)
    scenario.settle()
    assert_all_eight(scenario, list(BATCHES))


ENDS = ["succeeded", "failed", "deleted", "force-deleted", "claim deleted", "plugin died first", "node rebooted"]


@pytest.mark.parametrize("end", ENDS)
def test_a_card_comes_back_once_and_not_before_its_containers_are_gone(end: str) -> None:
    """Every step also checks that running containers of one node never hold a device of different claims."""
    scenario = Scenario()
    cluster = scenario.cluster
    scenario.create("first", "gpu-8", grace=60)
    scenario.settle()
    scenario.create("next", "gpu-8")
    scenario.settle()
    assert scenario.devices("next") == set()
    first = cluster.user.get(PODS, "first", NAMESPACE)
    match end:
        case "succeeded" | "failed":
            cluster.end_containers(first, end.capitalize())
        case "force-deleted":
            cluster.user.delete(PODS, "first", NAMESPACE, grace_period_seconds=0)
        case "plugin died first":
            cluster.slots.kill("plugin-n1", 100)
            scenario.delete("first")
        case "node rebooted":
            scenario.delete("first")
            cluster.reboot("n1")
        case "claim deleted":
            claim = scenario.claim("first")
            cluster.user.delete(RESOURCE_CLAIMS, claim.name, NAMESPACE)
            scenario.settle()
            assert scenario.devices("first") == CARDS
            scenario.delete("first")
        case _:
            scenario.delete("first")
    scenario.settle()
    assert scenario.devices("next") == CARDS
    assert scenario.running("next")
