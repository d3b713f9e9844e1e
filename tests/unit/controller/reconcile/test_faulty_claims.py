"""What is said about claims that are wrong as written."""

from typing import Any

import pytest

from controller.reconcile import decide
from controller.reconcile.decisions import PlacePod, Wait
from driver.kube.api import DEVICE_CLASSES
from tests.unit.controller.filled_state import NAMES, NOW, FilledState, device_class


def test_every_fault_of_every_claim_is_told_at_once() -> None:
    scene = FilledState()
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
    scene = FilledState()
    parameters = {"apiVersion": "lode.dev/v1alpha1", "kind": "GpuConfig", "nonsense": 1}
    config = [{"opaque": {"driver": NAMES.driver, "parameters": parameters}}]
    scene.put(DEVICE_CLASSES, device_class("bad.lode.dev", 'device.driver == "lode.dev"', config=config))
    scene.claim("a", ("bad.lode.dev",))
    scene.pod("p", "a")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Wait)
    assert decision.message.startswith("DeviceClass bad.lode.dev: spec.config[0].opaque.parameters.nonsense")


def test_an_entry_whose_claim_cannot_be_named_is_told_at_once_with_the_remedy() -> None:
    scene = FilledState()
    scene.pod("p", generated={"e" * 63: ""}, age=0)
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Wait)
    assert decision.reason == "ClaimMissing"
    assert decision.report
    assert "shorten the name of the entry" in decision.message


def test_a_malformed_selector_is_told_of_each_claim_that_has_it() -> None:
    scene = FilledState()
    selectors = [{"cel": {"expression": "device.attributes["}}]
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.lode.dev", "selectors": selectors}}]
    for name, of in (("p", "a"), ("q", "b")):
        scene.claim(of, requests=requests)
        scene.pod(name, of)
        decision = decide(scene.state, f"default/{name}", NOW)
        assert isinstance(decision, Wait)
        assert (decision.reason, decision.claims) == ("InvalidClaim", (f"default/{of}",))
        assert f"default/{of}" in decision.message


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = {
    "deep": (nested(17), "nested deeper than 16 levels"),
    "as deep as strict decoders go": (nested(900), "nested deeper than 16 levels"),
    "out of range": (float("inf"), "a number is out of range"),
}


@pytest.mark.parametrize(("value", "said"), HOSTILE.values(), ids=HOSTILE)
def test_parameters_that_cannot_be_read_are_a_fault_of_the_claim(value: Any, said: str) -> None:
    scene = FilledState()
    scene.claim("a", config=[{"opaque": {"driver": NAMES.driver, "parameters": {"a": value}}}])
    scene.pod("p", "a")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.claims) == ("InvalidParameters", ("default/a",))
    assert f"ResourceClaim default/a: spec.devices.config[0].opaque.parameters: {said}" in decision.message


@pytest.mark.parametrize(("value", "said"), HOSTILE.values(), ids=HOSTILE)
def test_parameters_for_another_driver_are_never_looked_at_and_not_handed_on(value: Any, said: str) -> None:
    scene = FilledState()
    bad = {"opaque": {"driver": "other.example.com", "parameters": {"a": value}}}
    good = {"opaque": {"driver": "other.example.com", "parameters": {"a": 1}}}
    scene.claim("a", config=[bad, good])
    scene.pod("p", "a")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, PlacePod), said
    [(_, allocation)] = decision.allocations
    assert [dict(entry.parameters) for entry in allocation.config] == [{"a": 1}]
