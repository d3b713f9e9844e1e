"""An object that cannot be decoded is known by its name, told where its author may look, and nobody else's trouble."""

from typing import Any

import pytest

from controller.state import Decoded
from controller.state.kinds import version_of
from driver.kube.api import DEVICE_TAINT_RULES, NODES, PODS, RESOURCE_CLAIMS, Object, Resource, Undecoded
from driver.kube.objects import object_key
from driver.kube.reflector import Removed, Upserted
from tests.unit.controller.loop.world import ControllerWorld


class Hostile(ControllerWorld):
    """A world in which objects arrive that no API server in memory would take."""

    def arrives(self, resource: Resource, obj: Object, version: int = 10**6) -> None:
        obj["metadata"]["resourceVersion"] = str(version)
        self.controller.handle(self.controller.state.decode(Upserted(resource, obj)))

    def goes(self, resource: Resource, obj: Object) -> None:
        obj["metadata"]["resourceVersion"] = str(10**7)
        self.controller.handle(self.controller.state.decode(Removed(resource, obj)))

    def counted(self, resource: Resource) -> float:
        name = "lode_controller_unreadable_objects"
        return self.metrics.registry.get_sample_value(name, {"resource": resource.plural})  # type: ignore[return-value]


def named(name: str, namespace: str = "") -> Object:
    return {"metadata": {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}}


def broken_claim(name: str, *devices: str, **result: Any) -> Object:
    common = {"request": "gpu", "driver": "lode.dev", "pool": "n1/lode.dev", **result}
    results = [{**common, "device": device} for device in devices]
    status = {"status": {"allocation": {"devices": {"results": results}}}} if devices else {}
    return {**named(name, "default"), "spec": {"devices": {"requests": [{"exactly": {}}]}}, **status}


BROKEN = {
    "Pod": (PODS, named("x", "default")),
    "ResourceClaim": (RESOURCE_CLAIMS, broken_claim("x")),
    "Node": (NODES, named("x") | {"status": 5}),
    "not even JSON": (RESOURCE_CLAIMS, Undecoded(named("x", "default")["metadata"], "not a JSON object")),
}


@pytest.mark.parametrize(("resource", "obj"), BROKEN.values(), ids=BROKEN)
def test_an_unreadable_object_is_counted_told_once_and_forgotten(resource: Resource, obj: Object) -> None:
    world = Hostile()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(1)
    for version in (10**6, 10**6 + 1):
        world.arrives(resource, obj, version)
        world.settle(1)
    assert world.counted(resource) == 1
    told = world.events("x", "Unreadable")
    assert len(told) == (1 if resource.namespaced else 0)
    assert all("cannot be decoded" in message for message in told)
    world.add_claim("b")
    world.add_pod("q", "b")
    world.settle(1)
    assert (world.devices("a"), world.devices("b")) == (["n1/gpu-0"], ["n1/gpu-1"])
    world.goes(resource, obj)
    assert world.counted(resource) == 0


def test_a_new_leader_tells_what_it_found_unreadable_before() -> None:
    world = Hostile()
    world.settle(1)
    world.controller.follow()
    world.arrives(RESOURCE_CLAIMS, broken_claim("x"))
    world.settle(1)
    assert world.events("x", "Unreadable") == []
    world.controller.lead(1)
    world.settle(1)
    assert len(world.events("x", "Unreadable")) == 1


@pytest.mark.parametrize("result", [{}, {"tolerations": 5}, {"consumedCapacity": {"memory": "much"}}])
def test_what_an_unreadable_claim_holds_is_in_use(result: dict[str, Any]) -> None:
    world = Hostile()
    world.settle(1)
    world.arrives(RESOURCE_CLAIMS, broken_claim("x", "gpu-0", **result))
    world.add_claim("a", count=2)
    world.add_pod("p", "a")
    world.add_claim("b")
    world.add_pod("q", "b")
    world.settle(60)
    assert (world.devices("a"), world.devices("b")) == ([], ["n1/gpu-1"])


def test_what_a_claim_held_goes_on_counting_when_its_status_cannot_be_read_any_more() -> None:
    world = Hostile(cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(1)
    stored = world.claim("a")
    stored["status"]["allocation"] = {"devices": {"results": [5]}}
    world.arrives(RESOURCE_CLAIMS, stored)
    assert world.counted(RESOURCE_CLAIMS) == 1
    assert list(world.controller.state.devices_in_use()) == ["n1/lode.dev/gpu-0/"]


def test_a_pod_with_an_unreadable_claim_waits_with_the_reason_and_is_served_when_it_is_mended() -> None:
    world = Hostile()
    mended = world.add_claim("x")
    world.settle(1)
    broken = broken_claim("x")
    broken["metadata"]["uid"] = mended["metadata"]["uid"]
    world.arrives(RESOURCE_CLAIMS, broken, int(mended["metadata"]["resourceVersion"]) + 1)
    world.add_pod("p", "x")
    world.settle(1)
    assert world.condition("p")[:2] == ("False", "Unreadable")
    assert "ResourceClaim default/x: cannot be decoded" in world.condition("p")[2]
    world.api.patch(RESOURCE_CLAIMS, "x", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    world.settle(1)
    assert (world.devices("x"), world.counted(RESOURCE_CLAIMS)) == (["n1/gpu-0"], 0)


def test_a_taint_rule_that_cannot_be_decoded_stops_decisions_until_it_is_gone() -> None:
    world = Hostile()
    world.settle(1)
    rule = {**named("drain"), "spec": {"taint": 5}}
    world.arrives(DEVICE_TAINT_RULES, rule)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(60)
    assert world.devices("a") == []
    assert "DeviceTaintRule drain" in world.controller.unready
    world.goes(DEVICE_TAINT_RULES, rule)
    world.settle(1)
    assert (world.devices("a"), world.controller.unready) == (["n1/gpu-0"], "")


@pytest.mark.parametrize("error", [RecursionError("too deep"), ZeroDivisionError(), AssertionError(), IndexError()])
def test_whatever_taking_in_an_object_raises_harms_no_other(error: Exception) -> None:
    class Value:
        def __getattr__(self, name: str) -> Any:
            raise error

    world = Hostile()
    obj = named("x", "default")
    delta = Decoded(PODS, object_key(obj), "x", version_of({"resourceVersion": "1000000"}), Value())
    world.settle(1)
    world.controller.handle(delta)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle(1)
    assert (world.counted(PODS), world.devices("a")) == (1, ["n1/gpu-0"])


@pytest.mark.parametrize("error", [RecursionError("too deep"), ZeroDivisionError(), AssertionError(), IndexError()])
def test_whatever_decoding_an_object_raises_is_its_problem(error: Exception) -> None:
    class Spec(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            raise error

    decoded = ControllerWorld().controller.state.decode(
        Upserted(RESOURCE_CLAIMS, {**named("x", "default"), "spec": Spec()})
    )
    assert isinstance(decoded, Decoded)
    assert decoded.problem == repr(error)
