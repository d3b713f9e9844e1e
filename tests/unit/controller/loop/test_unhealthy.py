"""A pod is told by an Event that a device that it uses does not work any more."""

from typing import Any

from structlog.testing import capture_logs

from driver.kube.api import RESOURCE_SLICES
from tests.unit.controller.loop.world import ControllerWorld


def mark(world: ControllerWorld, *unhealthy: int, key: str = "lode.dev/unhealthy") -> None:
    """The plugin of ``n1`` publishes its cards anew; these have the taint, and no others."""
    slices = world.api.get(RESOURCE_SLICES, "n1-lode.dev")
    for number, device in enumerate(slices["spec"]["devices"]):
        device.pop("taints", None)
        if number in unhealthy:
            device["taints"] = [{"key": key, "effect": "NoSchedule"}]
    slices["spec"]["pool"]["generation"] += 1
    world.api.update(RESOURCE_SLICES, slices)
    world.settle(1)


def running(cards: int = 2, count: int = 1, **devices: Any) -> ControllerWorld:
    """The pod ``p`` runs with the first cards of ``n1``."""
    world = ControllerWorld(nodes=1, cards=cards)
    world.add_claim("c", count=count, **devices)
    world.add_pod("p", "c")
    world.settle(1)
    world.bind("p", "n1")
    return world


def test_a_pod_is_told_which_of_its_devices_is_unhealthy_and_what_to_do() -> None:
    world = running()
    with capture_logs() as lines:
        mark(world, 0)
    (message,) = world.events("p", "DeviceUnhealthy")
    assert message.startswith("ResourceClaim default/c: device is unhealthy: n1/lode.dev/gpu-0; ")
    assert message.endswith("delete it to have it placed on other devices")
    told = [line for line in lines if line["event"] == "devices in use are unhealthy"]
    assert [(line["claim"], line["devices"]) for line in told] == [("default/c", ("n1/lode.dev/gpu-0",))]
    assert world.condition("p")[0] == "True", "it keeps its devices"


def test_devices_that_others_use_or_nobody_are_not_told_of() -> None:
    world = running()
    mark(world, 1)
    assert world.events("p") == []


def test_other_taints_are_not_told_of() -> None:
    world = running()
    mark(world, 0, key="example.com/maintenance")
    assert world.events("p") == []


def test_it_is_told_once_however_often_slices_change() -> None:
    world = running()
    for unhealthy in ((0,), (0, 1), (0,)):
        mark(world, *unhealthy)
    world.settle(3600)
    assert world.event_count("p", "DeviceUnhealthy") == 1


def test_another_device_of_the_claim_is_news_and_so_is_another_time() -> None:
    world = running(count=2)
    mark(world, 0)
    mark(world, 0, 1)
    assert world.events("p", "DeviceUnhealthy")[0].startswith(
        "ResourceClaim default/c: devices are unhealthy: n1/lode.dev/gpu-0, n1/lode.dev/gpu-1; "
    )
    with capture_logs() as lines:
        mark(world)
    assert [line["claim"] for line in lines if line["event"] == "devices in use are healthy again"] == ["default/c"]
    mark(world, 1)
    assert world.event_count("p", "DeviceUnhealthy") == 3


def test_every_pod_that_shares_the_claim_is_told() -> None:
    world = running()
    world.add_pod("q", "c")
    world.settle(1)
    mark(world, 0)
    assert [len(world.events(pod, "DeviceUnhealthy")) for pod in "pq"] == [1, 1]


def test_a_pod_that_joins_is_told_and_the_others_are_not_told_again() -> None:
    tolerant = {"deviceClassName": "gpu.lode.dev", "tolerations": [{"operator": "Exists"}]}
    world = running(requests=[{"name": "gpu", "exactly": tolerant}])
    mark(world, 0)
    world.add_pod("q", "c")
    world.settle(5)
    assert [world.event_count(pod, "DeviceUnhealthy") for pod in "pq"] == [1, 1]
