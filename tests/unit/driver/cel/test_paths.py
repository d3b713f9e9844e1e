"""What an expression reads of a device, and that nothing else decides its outcome."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.cel import SelectorFault, compile_selector, value_at, view
from driver.cel.values.runtime import DeviceView as Prepared
from driver.model import Capacity, Device, Version
from driver.quantity import Quantity

DRIVER = "lode.dev"
A, C = 'device.attributes["lode.dev"]', 'device.capacity["lode.dev"]'
TYPE, INDEX, MEMORY = ("attributes", "lode.dev/type"), ("attributes", "lode.dev/index"), ("capacity", "lode.dev/memory")

READS = {
    "true": (),
    "device.driver == 'x'": (("driver",),),
    "device.allowMultipleAllocations": (("allowMultipleAllocations",),),
    f'{A}.type == "H100"': (TYPE,),
    f'{A}["type"] == "H100" || {A}.type == "A100"': (TYPE,),
    f'{A}.?type.orValue("") == "H100"': (TYPE,),
    f'{A}[?"type"].hasValue()': (TYPE,),
    'device.attributes[?"lode.dev"].?type.orValue("") == "H100"': (TYPE,),
    'device.?attributes["lode.dev"].type.orValue("") == "H100"': (TYPE,),
    f"has({A}.type)": (TYPE,),
    f'"type" in {A}': (TYPE,),
    'has(device.attributes.x) && device.attributes[?"y"].hasValue()': None,
    "has(device.attributes.x)": (),
    f'has({A}.type) && {C}.memory.isGreaterThan(quantity("40Gi"))': (TYPE, MEMORY),
    f'cel.bind(a, {A}, a.type == "H100" && a.index > 1)': (TYPE, INDEX),
    f"cel.bind(a, {A}, cel.bind(a, 1, a == 1))": (),
    "cel.bind(d, device, d.driver == 'x')": (("driver",),),
    "cel.bind(device, 1, .device.driver == 'x' && device == 1)": (("driver",),),
    'device.attributes[?"lode.dev"].optMap(a, a.index == 1).orValue(false)': (INDEX,),
    f'["H100", "A100"].exists(kind, {A}.type == kind)': (TYPE,),
    f"{A}.type[0] == 1": (TYPE,),
    f"cel.bind(a, {A}, size(a) == 1)": None,
    f'["type", "index"].all(name, name in {A})': None,
    "device.attributes.exists(d, d == 'lode.dev')": None,
    "'lode.dev' in device.attributes": None,
    "device == device": None,
}


@pytest.mark.parametrize(("expression", "paths"), READS.items())
def test_constant_paths_are_known_however_they_are_written(expression: str, paths: object) -> None:
    assert compile_selector(expression).paths == paths


def _scalars() -> st.SearchStrategy[object]:
    versions = st.sampled_from(["1.0.0", "1.0.0+b", "1.0.1"]).map(Version)
    return st.sampled_from(["H100", "1", 0, 1, True, False]) | versions


_amounts = st.sampled_from(["40Gi", "42949672960", "40", "40000m", "1e3"]).map(
    lambda text: Capacity(Quantity.parse(text))
)
_devices = st.builds(
    Device,
    st.just("d"),
    st.dictionaries(
        st.sampled_from(["lode.dev/type", "lode.dev/index", "lode.dev/uuid", "x.dev/type"]),
        _scalars() | st.lists(_scalars(), min_size=1, max_size=2).map(tuple),
    ),
    st.dictionaries(st.sampled_from(["memory", "x.dev/memory"]), _amounts),
    allow_multiple=st.booleans(),
)
DECIDED = (
    f'{A}.type == "H100"',
    f"{A}.?index.orValue(0) == 1 && device.driver == 'lode.dev'",
    f'has({A}.type) && {C}.memory.isInteger() && {C}.memory.compareTo(quantity("40")) > 0',
    f"{A}.index in [1, 3] || device.allowMultipleAllocations",
    f"{A}.index == true || type({A}.index) == string",
    f'cel.bind(a, {A}, a.type == "H100" || "index" in a)',
)


@given(st.sampled_from(DECIDED), _devices, _devices)
def test_devices_alike_at_all_paths_get_the_same_outcome(expression: str, one: Device, two: Device) -> None:
    paths = compile_selector(expression).paths
    assert paths is not None
    read = {path[1] for path in paths if path[0] == "attributes"}
    two = replace(two, attributes={**two.attributes, **{k: v for k, v in one.attributes.items() if k in read}})
    if all(value_at(path, one, DRIVER) == value_at(path, two, DRIVER) for path in paths):
        assert _outcome(expression, one) == _outcome(expression, two)


@given(_devices)
def test_a_device_may_be_prepared_once_for_many_selectors(device: Device) -> None:
    prepared = view(device, DRIVER)
    for expression in DECIDED:
        assert _outcome(expression, prepared) == _outcome(expression, device)


def _outcome(expression: str, device: Device | Prepared) -> object:
    selector = compile_selector(expression)
    try:
        return selector.matches(device, DRIVER) if isinstance(device, Device) else selector.evaluate(device)
    except SelectorFault as fault:
        return type(fault)


def test_a_missing_attribute_is_told_apart_by_whether_its_domain_has_any() -> None:
    empty, other, misspelt = (
        Device("d", attributes, {}) for attributes in ({}, {"x.io/type": "a"}, {"lode.dev/typ": "a"})
    )
    assert value_at(TYPE, empty, DRIVER) == value_at(TYPE, other, DRIVER) != value_at(TYPE, misspelt, DRIVER)
    selector = compile_selector(f'{A}.type == "a"')
    for device, said in ((empty, "nothing in this domain"), (misspelt, "typ")):
        with pytest.raises(SelectorFault, match=said):
            selector.matches(device, DRIVER)
