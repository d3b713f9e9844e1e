"""What the controller shows of the fleet: the leader only, from a copy, with exact times."""

import pytest

from controller.census import Detail, KnownCards, Snapshot, count, exposition
from controller.reconcile.decisions import Reason
from driver.kube.api import RESOURCE_QUOTAS
from driver.quantity import NANO
from tests.unit.controller.loop.world import NAMES, ControllerWorld


def shown(world: ControllerWorld) -> Snapshot:
    snapshot = world.controller.fleet_snapshot()
    assert snapshot is not None
    return snapshot


def held(world: ControllerWorld) -> dict[str, list[str]]:
    return {key: [one.device for one in holding.devices] for key, holding in shown(world).holdings.items()}


def card_seconds(world: ControllerWorld) -> float:
    return sum(shown(world).card_seconds.values())


def add(world: ControllerWorld, name: str) -> None:
    world.add_claim(name)
    world.add_pod(f"pod-{name}", name)


def test_only_a_controller_that_leads_shows_the_fleet() -> None:
    world = ControllerWorld()
    assert world.controller.fleet_snapshot() is None, "nothing is listed yet"
    world.settle()
    assert shown(world).pools
    world.controller.follow()
    assert world.controller.fleet_snapshot() is None


def test_nothing_is_followed_if_nobody_is_shown_it() -> None:
    world = ControllerWorld(fleetMetrics="none")
    add(world, "a")
    world.settle()
    assert not held(world)


def test_a_claim_is_shown_from_its_decision_until_it_is_free() -> None:
    world = ControllerWorld()
    world.settle()
    add(world, "a")
    world.observe()
    world.controller.step()
    while not held(world):
        assert world.controller.step()
    assert world.claim("a").get("status", {}).get("allocation") is None, "nothing is written yet"
    world.settle()
    assert held(world) == {"default/a": ["gpu-0"]}
    world.remove_pod("pod-a")
    world.settle()
    assert held(world) == {}


def test_time_counts_from_the_decision_and_anew_with_a_term() -> None:
    world = ControllerWorld()
    add(world, "a")
    world.settle()
    before = card_seconds(world)
    world.clock.advance(100)
    assert card_seconds(world) == pytest.approx(before + 100)
    world.controller.lead(1)
    world.settle()
    begun = card_seconds(world)
    assert begun < 100
    world.clock.advance(10)
    assert card_seconds(world) == pytest.approx(begun + 10)


def test_a_controller_that_starts_shows_what_is_held() -> None:
    world = ControllerWorld()
    add(world, "a")
    world.settle()
    world.start()
    world.settle()
    assert held(world) == {"default/a": ["gpu-0"]}


def test_pods_that_wait_are_shown_with_their_reason_and_when_they_began() -> None:
    world = ControllerWorld(cards=1)
    for name in "ab":
        add(world, name)
    world.settle(10)
    world.start()
    world.clock.advance(100)
    world.settle(1)
    (waiting,) = shown(world).waiting
    assert (waiting.namespace, waiting.reason) == ("default", Reason.UNALLOCATABLE)
    assert waiting.since, "its condition tells it to every leader"
    assert waiting.seconds < 50, "this run has not seen more of it"


@pytest.mark.parametrize(("systems", "copied"), [((), {}), (("hami",), {"lode.dev/cores": (100, 400)})])
def test_quotas_are_copied_for_those_who_ask_for_them_by_name(
    systems: tuple[str, ...], copied: dict[str, tuple[int, int]]
) -> None:
    world = ControllerWorld(peerMetrics=systems)
    limit = {"metadata": {"name": "cards", "namespace": "default"}, "spec": {"hard": {"lode.dev/cores": "400"}}}
    world.api.create(RESOURCE_QUOTAS, limit)
    add(world, "a")
    world.settle()
    assert {use.name: (use.used // NANO, use.limit // NANO) for use in shown(world).quotas} == copied


def test_a_copy_stays_as_it_was() -> None:
    world = ControllerWorld()
    world.settle()
    before = shown(world)

    def text() -> str:
        return exposition(Detail.CLAIMS, count(before, KnownCards(NAMES), lambda _: 0.0))

    was = text()
    add(world, "a")
    world.settle()
    assert text() == was != exposition(Detail.CLAIMS, count(shown(world), KnownCards(NAMES), lambda _: 0.0))


def test_the_time_from_a_pod_to_its_devices_is_measured() -> None:
    world = ControllerWorld(cards=1)
    add(world, "a")
    world.settle()
    world.clock.advance(1000)
    add(world, "b")
    world.settle(600)
    world.remove_pod("pod-a")
    world.settle()
    samples = world.metrics.registry.get_sample_value
    assert samples("lode_pod_to_allocation_seconds_count") == 2
    assert samples("lode_pod_to_allocation_seconds_bucket", {"le": "60.0"}) == 1
    assert samples("lode_pod_to_allocation_seconds_bucket", {"le": "900.0"}) == 2


def test_the_age_of_a_watch_grows_until_the_api_tells_something() -> None:
    world = ControllerWorld()
    world.settle()
    age = "lode_controller_watch_age_seconds"
    before = world.metrics.registry.get_sample_value(age, {"resource": "nodes"})
    world.clock.advance(100)
    assert before is not None
    assert world.metrics.registry.get_sample_value(age, {"resource": "nodes"}) == before + 100
    world.observe()
    assert world.metrics.registry.get_sample_value(age, {"resource": "nodes"}) == 0, "a bookmark"
