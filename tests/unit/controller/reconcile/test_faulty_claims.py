"""What is said about claims that are wrong as written."""

from controller.reconcile import (
    Wait,
    decide,
)
from driver.kube.api import DEVICE_CLASSES
from tests.unit.controller.scene import NAMES, NOW, Scene, device_class


def test_every_fault_of_every_claim_is_told_at_once() -> None:
    scene = Scene()
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "nonsense": 1}
    scene.claim("a", ("typo",))
    scene.claim("b", config=[{"opaque": {"driver": NAMES.driver, "parameters": parameters}}])
    scene.pod("p", "a", "b", "c")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Wait)
    for said in ("no DeviceClass is named typo", "nonsense: unknown field", "ResourceClaim default/c does not exist"):
        assert said in decision.message
    assert set(decision.claims) == {"default/a", "default/b"}


def test_faulty_parameters_of_a_class_name_the_class() -> None:
    scene = Scene()
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "nonsense": 1}
    config = [{"opaque": {"driver": NAMES.driver, "parameters": parameters}}]
    scene.put(DEVICE_CLASSES, device_class("bad.lode.dev", 'device.driver == "lode.dev"', config=config))
    scene.claim("a", ("bad.lode.dev",))
    scene.pod("p", "a")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Wait)
    assert decision.message.startswith("DeviceClass bad.lode.dev: spec.config[0].opaque.parameters.nonsense")


def test_a_malformed_selector_is_told_of_each_claim_that_has_it() -> None:
    scene = Scene()
    selectors = [{"cel": {"expression": "device.attributes["}}]
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev", "selectors": selectors}}]
    for name, of in (("p", "a"), ("q", "b")):
        scene.claim(of, requests=requests)
        scene.pod(name, of)
        decision = decide(scene.state, f"default/{name}", NOW)
        assert isinstance(decision, Wait)
        assert (decision.reason, decision.claims) == ("InvalidClaim", (f"default/{of}",))
        assert f"default/{of}" in decision.message
