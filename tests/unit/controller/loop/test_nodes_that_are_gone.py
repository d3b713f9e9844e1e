"""Devices that are held behind our gate on a node that was deleted are taken back at once."""

from typing import Any

from driver.kube.api import NODES, RESOURCE_SLICES, Forbidden, Unavailable
from tests.unit.controller.loop.gangworld import GangWorld
from tests.unit.controller.loop.world import GATE, ControllerWorld, Killed, expect_kill


def delete_node(world: ControllerWorld, node: str) -> None:
    """What an autoscaler does, and then the garbage collector."""
    world.api.delete(NODES, node)
    world.api.delete(RESOURCE_SLICES, f"{node}-lode.dev")


def is_allocated(world: ControllerWorld, claim: str) -> bool:
    return bool((world.claim(claim).get("status") or {}).get("allocation"))


def before_the_gate_is_removed(error: BaseException) -> Any:
    def meddle(what: str, _: object) -> None:
        if what == "patch pods":
            raise error

    return meddle


def test_what_a_member_holds_on_a_node_that_is_gone_is_taken_back_while_its_gang_cannot_start() -> None:
    world = GangWorld(a=2, cards=1)
    members = world.add_gang("train", 2)

    def meddle(what: str, patch: Any) -> None:
        # Once n1 has its member, the other one gets no answer.
        if what == "patch resourceclaims/status" and any(world.nodes_of(*members)):
            raise Unavailable("the API server does not answer")

    world.meddler.before = meddle
    world.settle(2)
    [held] = [member for member in members if world.devices(member)]
    node = world.node_of(held)
    delete_node(world, node)
    world.meddler.before = None
    world.settle(20)
    assert not is_allocated(world, held)
    assert world.gates(held) == [GATE]


def test_a_run_that_starts_after_the_node_is_gone_takes_the_devices_back() -> None:
    world = ControllerWorld(nodes=2, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.meddler.before = before_the_gate_is_removed(Killed())
    with expect_kill():
        world.settle(1)
    [device] = world.devices("a")
    delete_node(world, device.split("/")[0])
    world.start()
    world.settle(0.5)
    [other] = world.devices("a")
    assert other != device
    assert world.gates("p") == []


def test_a_pod_whose_gate_cannot_be_removed_loses_its_devices_as_soon_as_the_node_is_gone() -> None:
    world = ControllerWorld(nodes=1, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.meddler.before = before_the_gate_is_removed(Forbidden("a webhook", status=403, reason="Forbidden"))
    world.settle(0)
    delete_node(world, "n1")
    world.settle(0.5)
    assert not is_allocated(world, "a")
    world.meddler.before = None
    world.add_node("n2", cards=1)
    world.settle(60)
    assert world.devices("a") == ["n2/gpu-0"]
