"""A pod whose claim holds a bad device waits at the gate, and is woken when it can go on. Nothing is polled."""

from collections.abc import Callable
from typing import Any

import pytest

from driver.kube.api import DEVICE_TAINT_RULES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from tests.unit.controller.loop.gangworld import gang_config
from tests.unit.controller.loop.world import ControllerWorld

RULE: Object = {
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {"device": "gpu-0"}, "taint": {"key": "example.com/hot", "effect": "NoSchedule"}},
}


def taint(world: ControllerWorld) -> None:
    world.api.create(DEVICE_TAINT_RULES, RULE)


def untaint(world: ControllerWorld) -> None:
    world.api.delete(DEVICE_TAINT_RULES, "r")


def publish(world: ControllerWorld, *devices: str) -> None:
    part = world.api.get(RESOURCE_SLICES, "n1-lode.dev")
    part["spec"]["pool"]["generation"] += 1
    part["spec"]["devices"] = [{"name": name, "attributes": {"kind": {"string": "gpu"}}} for name in devices]
    world.api.update(RESOURCE_SLICES, part)


def lose(world: ControllerWorld) -> None:
    publish(world, "gpu-1")


def find(world: ControllerWorld) -> None:
    publish(world, "gpu-0", "gpu-1")


def stop_plugin(world: ControllerWorld) -> None:
    world.api.delete(RESOURCE_SLICES, "n1-lode.dev")


def start_plugin(world: ControllerWorld) -> None:
    world.publish("n1", 2)


BAD = [(taint, untaint), (lose, find), (stop_plugin, start_plugin)]
Act = Callable[[ControllerWorld], Any]


def serving(cards: int = 2) -> ControllerWorld:
    """``old`` runs with n1/gpu-0 by the claim ``serve``."""
    world = ControllerWorld(nodes=1, cards=cards)
    world.add_claim("serve")
    world.add_pod("old", "serve")
    world.settle(1)
    world.bind("old", "n1")
    world.settle(1)
    assert world.devices("serve") == ["n1/gpu-0"]
    return world


@pytest.mark.parametrize(("spoil", "mend"), BAD)
def test_it_is_let_go_as_soon_as_the_device_can_be_used_again(spoil: Act, mend: Act) -> None:
    world = serving()
    spoil(world)
    world.settle(1)
    world.add_pod("new", "serve")
    world.settle(3600)
    assert world.condition("new")[:2] == ("False", "DeviceUnusable")
    assert "ResourceClaim default/serve: device n1/lode.dev/gpu-0 " in world.condition("new")[2]
    assert world.events("new", "DeviceUnusable") == world.events("serve", "DeviceUnusable") != []
    due = world.controller.next_due()
    assert due is None or due > world.clock.monotonic() + 60
    mend(world)
    world.settle()
    assert world.gates("new") == []
    assert world.devices("serve") == ["n1/gpu-0"]


@pytest.mark.parametrize("spoil", [taint, lose])
def test_it_gets_another_device_as_soon_as_the_claim_is_free(spoil: Act) -> None:
    world = serving()
    spoil(world)
    world.add_pod("new", "serve")
    world.settle(600)
    assert world.gates("new")
    world.remove_pod("old")
    world.settle()
    assert world.gates("new") == []
    assert world.devices("serve") == ["n1/gpu-1"]


@pytest.mark.parametrize("spoil", [taint, lose])
def test_a_claim_that_nobody_uses_moves_when_a_pod_comes(spoil: Act) -> None:
    world = serving()
    allocated = world.claim("serve")["status"]
    world.remove_pod("old")
    world.api.update(RESOURCE_CLAIMS, {**world.claim("serve"), "status": {**allocated, "reservedFor": []}}, "status")
    spoil(world)
    world.add_pod("new", "serve")
    world.settle(1)
    assert world.gates("new") == []
    assert world.devices("serve") == ["n1/gpu-1"]
    world.check()


@pytest.mark.parametrize("spoil", [taint, lose])
def test_a_controller_that_died_before_the_gate_was_removed_does_not_use_the_device(spoil: Act) -> None:
    world = ControllerWorld(nodes=1, cards=2)
    world.add_claim("serve")
    world.add_pod("new", "serve")
    held = serving().claim("serve")["status"]
    held["reservedFor"] = [{"resource": "pods", "name": "new", "uid": world.pod("new")["metadata"]["uid"]}]
    claim = world.claim("serve")
    claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    claim = world.api.update(RESOURCE_CLAIMS, claim)
    world.api.update(RESOURCE_CLAIMS, {**claim, "status": held}, "status")
    spoil(world)
    world.settle(1)
    assert world.gates("new") == []
    assert world.devices("serve") == ["n1/gpu-1"]


def test_slices_that_are_replaced_one_after_the_other_move_nothing() -> None:
    world = serving()
    part = world.api.get(RESOURCE_SLICES, "n1-lode.dev")
    part["spec"]["pool"] |= {"generation": 2, "resourceSliceCount": 2}
    part["spec"]["devices"] = part["spec"]["devices"][1:]
    world.api.update(RESOURCE_SLICES, part)
    world.add_pod("new", "serve")
    world.settle(60)
    assert world.gates("new")
    second = {"driver": "lode.dev", "nodeName": "n1", "pool": part["spec"]["pool"]}
    devices = [{"name": "gpu-0", "attributes": {"kind": {"string": "gpu"}}}]
    world.api.create(RESOURCE_SLICES, {"metadata": {"name": "second"}, "spec": {**second, "devices": devices}})
    world.settle()
    assert world.gates("new") == []
    assert world.devices("serve") == ["n1/gpu-0"]


def test_a_gang_that_shares_the_claim_waits_and_is_woken_too() -> None:
    world = serving(cards=4)
    world.api.patch(NODES, "n1", {"metadata": {"labels": {"fabric": "a"}}})
    taint(world)
    world.settle(1)
    for name in ("w0", "w1"):
        world.add_claim(name, config=[gang_config("ring", 2)])
        world.add_pod(name, name, "serve")
    world.settle(3600)
    assert world.condition("w0")[:2] == ("False", "DeviceUnusable")
    assert "has the taint example.com/hot:NoSchedule" in world.condition("w0")[2]
    assert world.devices("w0") == world.devices("w1") == []
    untaint(world)
    world.settle(1)
    assert world.gates("w0") == world.gates("w1") == []


def test_pods_of_a_deployment_are_not_let_go_one_after_the_other_on_a_cordoned_card() -> None:
    world = serving()
    taint(world)
    world.settle(1)
    for number in range(20):
        world.add_pod(f"next-{number}", "serve")
        world.settle(5)
        assert world.gates(f"next-{number}")
        world.api.delete(PODS, f"next-{number}", "default", grace_period_seconds=0)
    assert world.devices("serve") == ["n1/gpu-0"]
