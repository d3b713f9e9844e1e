"""Nobody is evicted for a pod that also wants devices of other drivers which nobody has, or has left."""

import pytest

from driver.kube.api import RESOURCE_CLAIMS
from tests.unit.controller.loop.preemptingworld import HIGH, PreemptingWorld
from tests.unit.controller.loop.test_gangs_preempting import COMPLETE, gang_of

NIC, DRIVER = "nic.example.com", "net.example.com"


def full_world(nodes: int = 2) -> PreemptingWorld:
    """Nodes with one card each, which pods of low priority hold; a class of another driver."""
    world = PreemptingWorld(nodes=nodes, cards=1)
    world.add_class(NIC, f"device.driver == '{DRIVER}'")
    for number in range(nodes):
        world.running(f"low-{number}")
    return world


def wanting_both(world: PreemptingWorld, name: str = "important", nics: int = 1) -> None:
    world.add_claim(f"{name}-nic", nics, device_class=NIC)
    world.add_claim(name)
    world.add_pod(name, name, f"{name}-nic", priority=HIGH)


def test_nobody_is_evicted_for_devices_that_no_slice_has_and_others_of_the_shape_are_served() -> None:
    world = full_world()
    wanting_both(world)
    world.settle(100)
    assert world.evicted() == []
    world.wanting("plain", HIGH)
    world.settle(5)
    assert len(world.evicted()) == 1
    assert world.condition("plain")[1] == "Preempting"


def test_once_a_slice_has_them_others_are_evicted() -> None:
    world = full_world()
    wanting_both(world)
    world.settle(100)
    world.publish("n2", 1, driver=DRIVER)
    world.settle(70)
    assert world.evicted() == ["low-1"]


def test_a_pod_is_placed_without_evictions_although_no_slice_has_them() -> None:
    world = full_world(nodes=1)
    world.add_node("n2", 1)
    wanting_both(world)
    world.settle()
    assert world.devices("important") == ["n2/gpu-0"]
    assert world.evicted() == []


@pytest.mark.parametrize("nics", [1, 2])
def test_nobody_is_evicted_where_too_few_are_left(nics: int) -> None:
    world = full_world(nodes=1)
    world.publish("n1", nics, driver=DRIVER)
    held = world.add_claim("held", nics, device_class=NIC)
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": f"n1/{DRIVER}", "device": f"gpu-{number}"}
        for number in range(nics)
    ]
    held["status"] = {"allocation": {"devices": {"results": results}}}
    world.api.update(RESOURCE_CLAIMS, held, "status")
    world.settle()
    wanting_both(world)
    world.settle(100)
    assert world.evicted() == []


def test_nobody_is_evicted_for_a_gang_of_which_one_member_wants_what_no_slice_has() -> None:
    world = full_world()
    for number in range(2):
        name = f"gang-{number}"
        world.add_claim(name, config=[gang_of("gang", 2)])
        world.add_claim(f"{name}-nic", device_class=NIC)
        world.add_pod(name, name, *([f"{name}-nic"] if number else []), priority=HIGH)
    world.settle(COMPLETE + 100)
    assert world.evicted() == []
    for node in ("n1", "n2"):
        world.publish(node, 1, driver=DRIVER)
    world.settle(70)
    assert sorted(world.evicted()) == ["low-0", "low-1"]
