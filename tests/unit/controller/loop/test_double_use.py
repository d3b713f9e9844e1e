"""Two claims that hold one device are noticed: metric, log and Events; the younger gives it back if it can."""

from structlog.testing import capture_logs

from driver.clock import rfc3339
from driver.kube.api import RESOURCE_CLAIMS
from tests.unit.controller.loop.world import GATE, World


def allocate_again(world: World, claim: str, taken: str, pod: str) -> None:
    """What another program does: give the claim what another one holds, for the pod."""
    raw = world.claim(claim)
    allocation = {**world.claim(taken)["status"]["allocation"], "allocationTimestamp": rfc3339(world.clock.now())}
    reserved = {"resource": "pods", "name": pod, "uid": world.pod(pod)["metadata"]["uid"]}
    raw["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    raw = world.api.update(RESOURCE_CLAIMS, raw)
    raw["status"] = {"allocation": allocation, "reservedFor": [reserved]}
    world.api.update(RESOURCE_CLAIMS, raw, "status")


def doubled(bound: bool = False) -> World:
    """The claim ``b`` of the pod ``q`` has just been given what the claim ``a`` of the bound pod ``p`` holds."""
    world = World()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    world.bind("p", "n1")
    world.clock.advance(10)
    world.add_claim("b")
    world.add_pod("q", "b", gates=() if bound else (GATE,))
    if bound:
        world.bind("q", "n1")
    allocate_again(world, "b", "a", "q")
    return world


def alarms(world: World) -> float | None:
    return world.metrics.registry.get_sample_value("lode_controller_double_uses")


def test_the_younger_claim_gets_another_device() -> None:
    world = doubled()
    with capture_logs() as lines:
        world.settle(60)
    told = [line for line in lines if line["event"] in ("double use", "double use ended")]
    assert [(line["event"], line["claim"]) for line in told] == [
        ("double use", "default/b"),
        ("double use ended", "default/b"),
    ]
    assert "is also held by ResourceClaims: default/a" in world.events("b", "DoubleUse")[0]
    assert "is also held by ResourceClaims: default/b" in world.events("a", "DoubleUse")[0]
    assert (world.devices("a"), world.devices("b")) == (["n1/gpu-0"], ["n1/gpu-1"])
    assert world.gates("q") == []
    assert alarms(world) == 0


def test_what_a_bound_pod_uses_is_only_alarmed_until_one_of_the_claims_ends() -> None:
    world = doubled(bound=True)
    world.settle(60)
    assert (world.devices("a"), world.devices("b")) == (["n1/gpu-0"], ["n1/gpu-0"])
    assert alarms(world) == 1
    world.remove_pod("p")
    world.settle(60)
    assert alarms(world) == 0
