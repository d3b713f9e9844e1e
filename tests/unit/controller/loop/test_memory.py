"""What is remembered about a pod or claim belongs to that one, as long as it is true."""

from controller.reconcile.claims import ORPHAN_SECONDS
from driver.kube.api import PODS, RESOURCE_CLAIMS
from tests.unit.controller.loop.world import ControllerWorld


def reserve(world: ControllerWorld, claim: str, *uids: str) -> None:
    raw = world.claim(claim)
    raw["status"]["reservedFor"] = [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]
    world.api.update(RESOURCE_CLAIMS, raw, "status")


def test_the_time_without_a_consumer_counts_anew_after_every_use() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(1)
    world.api.delete(PODS, "p", "default", grace_period_seconds=0)
    reserve(world, "a")
    world.settle(ORPHAN_SECONDS - 2)
    reserve(world, "a", "somebody")
    world.settle(1)
    reserve(world, "a")
    world.settle(ORPHAN_SECONDS - 2)
    assert world.devices("a") == ["n1/gpu-0"]
    world.settle(3)
    assert world.devices("a") == []


def test_a_namesake_is_not_kept_from_the_node_that_refused_its_predecessor() -> None:
    world = ControllerWorld(nodes=2, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(1)
    world.refuse("p")
    world.settle(30)
    assert world.devices("a") == ["n2/gpu-0"]
    world.remove_pod("p")
    world.add_claim("b")
    world.add_pod("p", "b")
    world.settle(1)
    assert world.devices("b") == ["n1/gpu-0"]


def test_what_happens_to_a_namesake_is_remembered_as_its_own() -> None:
    world = ControllerWorld(nodes=2, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(1)
    world.remove_pod("p")
    world.add_claim("b")
    world.add_pod("p", "b")
    world.settle(1)
    world.refuse("p")
    world.settle(30)
    assert world.devices("b") == ["n2/gpu-0"]
