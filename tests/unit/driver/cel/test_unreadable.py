"""An attribute whose value cannot be read fails what reads it, and nothing else: as in Kubernetes 1.38."""

from typing import Any

import pytest

from driver.cel import SelectorFault, compile_selector
from driver.wire import device_from, device_to

DRIVER = "gpu.example.com"
BEYOND = "1.0.18446744073709551616"
"""A number that needs 65 bits."""
UNREADABLE: tuple[dict[str, Any], ...] = (
    {"version": BEYOND},
    {"version": f"1.0.0-{2**64}"},
    {"version": "580.65.06"},
    {"versions": ["1.0.0", BEYOND]},
    {},
    {"ints": []},
    {"quantity": "1Gi"},
    {"int": "four"},
    {"string": 4},
)
A = f'device.attributes["{DRIVER}"]'

UNHARMED = (
    ("true", True),
    (f'{A}.type == "H100"', True),
    (f"{A}.size() == 2", True),
    (f'{A}.all(name, name in ["bad", "type"])', True),
    (f'"bad" in {A}', False),
    (f'"type" in {A}', True),
    (f'"bad" in {A} && {A}.bad == 1', False),
    (f'{A}.bad == 1 || {A}.type == "H100"', True),
    (f'{A}.bad == 1 && {A}.type == "A100"', False),
    (f'{A}.exists(name, name == "type" && {A}[name] == "H100")', True),
)
FAILING = (
    f"{A}.bad == 1",
    f'{A}["bad"] == 1',
    f"has({A}.bad)",
    f"{A}.?bad.orValue(1) == 1",
    f'{A}[?"bad"].hasValue()',
    f"cel.bind(a, {A}, a.bad == a.bad)",
    f"{A} == {A}",
    "device.attributes == device.attributes",
    f'{A}.exists(name, value, value == "H100")',
    f'"%s".format([{A}]) == ""',
)


def broken(value: dict[str, Any]) -> Any:
    return {"name": "d", "attributes": {"type": {"string": "H100"}, "bad": value}}


@pytest.mark.parametrize("value", UNREADABLE, ids=str)
@pytest.mark.parametrize(("expression", "outcome"), UNHARMED)
def test_a_selector_that_does_not_read_the_value_is_not_harmed(expression: str, outcome: bool, value: Any) -> None:
    assert compile_selector(expression).matches(device_from(broken(value), DRIVER), DRIVER) is outcome


@pytest.mark.parametrize("value", UNREADABLE, ids=str)
@pytest.mark.parametrize("expression", FAILING)
def test_a_selector_that_reads_it_fails_and_says_what_to_do(expression: str, value: Any) -> None:
    with pytest.raises(SelectorFault) as fault:
        compile_selector(expression).matches(device_from(broken(value), DRIVER), DRIVER)
    assert f"attribute {DRIVER}/bad cannot be read" in str(fault.value)
    assert f'test first that "bad" in device.attributes["{DRIVER}"]' in str(fault.value)


def test_the_fault_has_the_version_that_cannot_be_read() -> None:
    with pytest.raises(SelectorFault, match=BEYOND):
        compile_selector(f"{A}.bad == 1").matches(device_from(broken({"version": BEYOND}), DRIVER), DRIVER)


@pytest.mark.parametrize("names", [("x", f"{DRIVER}/x"), (f"{DRIVER}/x", "x")])
def test_of_two_spellings_of_an_attribute_the_one_with_the_domain_counts(names: tuple[str, str]) -> None:
    values = {"x": 1, f"{DRIVER}/x": 2}
    device = device_from({"name": "d", "attributes": {name: {"int": values[name]} for name in names}}, DRIVER)
    assert compile_selector(f"{A}.x == 2").matches(device, DRIVER)


def test_of_a_scalar_and_a_list_in_one_attribute_the_scalar_counts() -> None:
    device = device_from({"name": "d", "attributes": {"x": {"strings": ["b"], "string": "a"}}}, DRIVER)
    assert compile_selector(f'{A}.x == "a"').matches(device, DRIVER)


def test_the_domain_of_an_attribute_ends_at_the_first_slash() -> None:
    device = device_from({"name": "d", "attributes": {"a/b/c": {"int": 1}}}, DRIVER)
    assert compile_selector('device.attributes["a"]["b/c"] == 1').matches(device, DRIVER)


def test_what_cannot_be_read_is_not_written_as_something_else() -> None:
    assert device_to(device_from(broken({"version": BEYOND}), DRIVER), DRIVER)["attributes"]["bad"] == {}
