"""Selectors that 1.38 does not take, or that select other devices there, are found on the devices of the cluster."""

from typing import Any

import pytest

from cli.doctor.upgrade import object_rules
from cli.doctor.upgrade.object_rules import Published, SelectorRules, of_claim, of_class, of_template
from driver.kube.api import Object
from tests.contract.objects import resource_slice
from tests.contract.of_137 import asking, device

A = 'device.attributes["gpu.example"]'
DIFFERS = f"{A}.serial.all(x, false)"
UNREADABLE = "type(dyn([1]).transformMapEntry(k, v, {})) == int"
SAME = f'{A}.model == "a"'


def rules(*devices: Object) -> SelectorRules:
    made = SelectorRules()
    made.add(resource_slice("s", *devices, driver="gpu.example"))
    return made


def of(expression: str, selectors: SelectorRules) -> list[tuple[str, str, str]]:
    listed = [{"cel": {"expression": expression}}]
    found = of_class({"metadata": {"name": "c"}, "spec": {"selectors": listed}}, selectors)
    return [(one.status, one.field, one.value) for one in found]


def texts(**attributes: str) -> Object:
    return device(attributes={name: {"string": text} for name, text in attributes.items()})


def test_a_device_for_which_versions_differ_is_named() -> None:
    found = of(DIFFERS, rules(texts(model="a", serial="x"), {**texts(model="a", serial=""), "name": "gpu-1"}))
    where = "spec.selectors[0].cel.expression"
    assert found == [("warning", where, "device gpu-1 of gpu.example: an error in 1.37, true in 1.38")]


@pytest.mark.parametrize(("expression", "devices"), [(DIFFERS, ["x"]), (SAME, ["x", ""]), (DIFFERS, [])])
def test_what_differs_for_no_device_is_no_concern(expression: str, devices: list[str]) -> None:
    assert of(expression, rules(*(texts(model="a", serial=serial) for serial in devices))) == []


def test_what_138_cannot_read_is_found_in_classes_claims_and_templates() -> None:
    (concern,) = of(UNREADABLE, rules())
    assert concern[:2] == ("failed", "spec.selectors[0].cel.expression")
    spec = asking()
    spec["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": UNREADABLE}}]
    named: Any = {"name": "c", "namespace": "team"}
    claims = [*of_claim({"metadata": named, "spec": spec}, Published(), rules())]
    templates = [*of_template({"metadata": named, "spec": {"spec": spec}}, Published(), rules())]
    assert [one.status for one in (*claims, *templates)] == ["failed", "failed"]


def test_of_devices_that_look_alike_one_is_tried() -> None:
    selectors = rules(*(texts(serial=f"{i}") for i in range(50)), texts(serial=""))
    assert len(selectors._devices) == 2


def test_a_device_that_makes_no_sense_hides_no_other() -> None:
    senseless = [{"name": 1}, device(attributes="text"), device(capacity={"memory": {"value": "many"}})]
    assert of(DIFFERS, rules(*senseless, texts(serial="")))


def test_more_work_than_the_bound_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_rules, "MOST_EXPRESSIONS", 2)
    selectors = rules(texts(serial=""))
    for i in range(5):
        of(f"{A}.serial == '{i}'", selectors)
    of(f"{A}.serial == '0'", selectors)
    assert selectors.left_out == 3


def test_who_needs_many_steps_is_not_tried() -> None:
    loops = (
        f"{DIFFERS} && [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, {'[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(b, ' * 4}true)))))"
    )
    selectors = rules(texts(serial=""))
    assert of(loops, selectors) == []
    assert selectors._steps < 5_000_000


def test_reading_long_expressions_counts_as_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_rules, "_MOST_STEPS", 100_000)
    selectors = rules()
    for i in range(5):
        of(f"[{'1,' * 800}].size() == {i}", selectors)
    assert selectors.left_out == 3
