"""Two claims that hold one device are noticed: metric, log and Events; the younger gives it back if it can."""

from structlog.testing import capture_logs

from driver.clock import rfc3339
from driver.kube.api import RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.unit.controller.loop.world import GATE, ControllerWorld


def allocate_again(world: ControllerWorld, claim: str, taken: str, pod: str) -> None:
    """What another program does: give the claim what another one holds, for the pod."""
    raw = world.claim(claim)
    allocation = {**world.claim(taken)["status"]["allocation"], "allocationTimestamp": rfc3339(world.clock.now())}
    reserved = {"resource": "pods", "name": pod, "uid": world.pod(pod)["metadata"]["uid"]}
    raw["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    raw = world.api.update(RESOURCE_CLAIMS, raw)
    raw["status"] = {"allocation": allocation, "reservedFor": [reserved]}
    world.api.update(RESOURCE_CLAIMS, raw, "status")


def doubled(bound: bool = False) -> ControllerWorld:
    """The claim ``b`` of the pod ``q`` has just been given what the claim ``a`` of the bound pod ``p`` holds."""
    world = ControllerWorld()
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


def alarms(world: ControllerWorld) -> float | None:
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


def with_shares(slots: int) -> ControllerWorld:
    """A node with one card of 8Gi that is shared, and pods that hold as many shares of 4Gi as there are slots."""
    world = ControllerWorld(cards=0)
    world.add_class("share.lode.dev", 'device.driver == "lode.dev"')
    offer(world, "8Gi")
    for number in range(slots):
        requests = [{"name": "r", "exactly": {"deviceClassName": "share.lode.dev", "count": 1, "capacity": {}}}]
        requests[0]["exactly"]["capacity"] = {"requests": {"memory": "4Gi"}}  # type: ignore[index]
        world.add_claim(f"c{number}", requests=requests)
        world.add_pod(f"p{number}", f"c{number}")
        world.settle(10)
        assert world.devices(f"c{number}") == ["n1/share-0"]
    return world


def offer(world: ControllerWorld, memory: str) -> None:
    """Publish the shared card of the node with this much memory."""
    part = world.api.get(RESOURCE_SLICES, "n1-lode.dev")
    share = {"name": "share-0", "allowMultipleAllocations": True, "attributes": {"kind": {"string": "share"}}}
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    part["spec"]["devices"] = [{**share, "capacity": {"memory": {"value": memory, "requestPolicy": policy}}}]
    world.api.update(RESOURCE_SLICES, part)


def test_a_card_that_shrinks_under_its_shares_is_noticed_although_no_claim_changes() -> None:
    world = with_shares(2)
    for pod in ("p0", "p1"):
        world.bind(pod, "n1")
    world.settle(60)
    offer(world, "16Gi")
    world.settle(10)
    assert alarms(world) == 0
    offer(world, "6Gi")
    world.settle(10)
    assert "is also held by ResourceClaims: default/c0" in world.events("c1", "DoubleUse")[0]
    assert "capacity memory" in world.events("c0", "DoubleUse")[0]
    assert alarms(world) == 1
    offer(world, "8Gi")
    world.settle(10)
    assert alarms(world) == 0


def test_a_pod_that_is_not_bound_gives_back_what_a_card_that_shrinks_has_no_room_for() -> None:
    world = with_shares(2)
    world.bind("p0", "n1")
    world.settle(60)
    offer(world, "6Gi")
    world.settle(0.5)
    assert not world.claim("c1")["status"].get("reservedFor"), "kube-scheduler may be binding the pod: the first step"
    world.refuse("p1")
    world.settle(10)
    assert (world.devices("c0"), world.devices("c1")) == (["n1/share-0"], [])
    assert alarms(world) == 0
