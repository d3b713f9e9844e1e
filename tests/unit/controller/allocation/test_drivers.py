"""Whose devices selectors can select is told from their text, and never wrongly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import Drivers
from controller.allocation.selectors import CompiledSelectors
from driver.cel import SelectorFault, compile_selector
from driver.model import Device
from tests.recorded_selectors import WITH_COSTS, recorded

OURS, OTHERS, BOTH, NONE = Drivers.OURS, Drivers.OTHERS, Drivers.BOTH, Drivers.NONE
US = "lode.dev"
SELECTORS, ANOTHERS = CompiledSelectors(US), CompiledSelectors("another.example.com")

TABLE: list[tuple[Drivers, tuple[str, ...]]] = [
    (BOTH, ()),
    (OURS, ('device.driver == "lode.dev"',)),
    (OURS, ("'lode.dev' == device.driver && device.attributes['lode.dev'].kind == 'gpu'",)),
    (OURS, ('device.attributes["lode.dev"].kind == "gpu" && device.driver == "lode.dev"',)),
    (OURS, ('device.driver in ["lode.dev"]',)),
    (OURS, ('!(device.driver != "lode.dev")',)),
    (OURS, ('cel.bind(d, device.driver, d == "lode.dev")',)),
    (OURS, ('device.driver == "lode.dev" ? has(device.attributes["a"].b) : false',)),
    (OURS, ('device.attributes["a"].b', 'device.driver == "lode.dev"')),
    (OTHERS, ('device.driver == "nic.example.com"',)),
    (OTHERS, ('device.driver != "lode.dev"',)),
    (OTHERS, ('device.driver.startsWith("nic.")',)),
    (OTHERS, ('device.driver == "nic.example.com" && device.attributes["lode.dev"].kind == "lode.dev"',)),
    (BOTH, ('device.driver == "lode.dev" || device.driver == "nic.example.com"',)),
    (BOTH, ('device.driver in ["lode.dev", "nic.example.com"]',)),
    (BOTH, ('device.attributes["lode.dev"].kind == "gpu"',)),
    (BOTH, ("device.driver.startsWith('lode')",)),
    (BOTH, ('cel.bind(device, {"driver": "x"}, device.driver == "lode.dev")',)),
    (BOTH, ("this does not compile",)),
    (OURS, ("this does not compile", 'device.driver == "lode.dev"')),
    (NONE, ('device.driver == "lode.dev"', 'device.driver == "nic.example.com"')),
    (NONE, ("false",)),
]


@pytest.mark.parametrize(("drivers", "selectors"), TABLE)
def test_what_the_text_tells(drivers: Drivers, selectors: tuple[str, ...]) -> None:
    assert SELECTORS.drivers(selectors) is drivers


ATOMS = st.sampled_from(
    (
        'device.driver == "lode.dev"',
        'device.driver != "lode.dev"',
        '"b.dev" == device.driver',
        'device.driver in ["lode.dev", "b.dev"]',
        'device.driver in ["lode.dev"]',
        'device.driver.endsWith(".dev")',
        "device.attributes[device.driver].flag",
        'device.attributes["b.dev"].flag',
        "true",
        "false",
        "device.driver.size() > 5",
    )
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map("!({})".format),
        st.tuples(inner, inner).map(lambda both: "({}) && ({})".format(*both)),
        st.tuples(inner, inner).map(lambda both: "({}) || ({})".format(*both)),
        st.tuples(inner, inner).map(lambda both: "({}) == ({})".format(*both)),
        st.tuples(inner, inner, inner).map(lambda three: "({}) ? ({}) : ({})".format(*three)),
        st.tuples(inner, inner).map(lambda both: "cel.bind(x, {}, x || ({}))".format(*both)),
    ),
    max_leaves=6,
)
DRIVERS = st.sampled_from((US, "b.dev", "c.dev", "nic.example.com"))


def matches(expression: str, device: Device, driver: str) -> bool:
    try:
        return compile_selector(expression).matches(device, driver)
    except SelectorFault:
        return False


ATTRIBUTES = st.dictionaries(st.sampled_from((f"{US}/flag", "b.dev/flag")), st.booleans())


@given(st.lists(EXPRESSIONS, max_size=2), DRIVERS, ATTRIBUTES)
def test_a_driver_that_is_ruled_out_has_no_device_that_matches(
    selectors: list[str], driver: str, attributes: dict[str, bool]
) -> None:
    if all(matches(selector, Device("d", attributes), driver) for selector in selectors):
        assert SELECTORS.drivers(selectors) in ({OURS, BOTH} if driver == US else {OTHERS, BOTH})


@pytest.mark.parametrize("file", [*WITH_COSTS, "libraries"])
def test_a_device_that_kubernetes_found_to_match_is_of_a_driver_that_is_not_ruled_out(file: str) -> None:
    for case in recorded(file):
        if case.outcome == "True":
            driver = case.device["driver"]
            assert CompiledSelectors(driver).drivers([case.expression]) in (OURS, BOTH), case.name
            assert ANOTHERS.drivers([case.expression]) in (OTHERS, BOTH), case.name


WITH_NET = CompiledSelectors(US, "nic.example.com")


@pytest.mark.parametrize(
    ("drivers", "selectors"),
    [
        (OURS, ('device.driver == "lode.dev"',)),
        (OURS, ('device.driver == "nic.example.com"',)),
        (OURS, ('device.driver in ["lode.dev", "nic.example.com"]',)),
        (OURS, ('device.driver == "lode.dev" || device.driver == "nic.example.com"',)),
        (BOTH, ()),
        (BOTH, ('device.driver in ["nic.example.com", "other.example.com"]',)),
        (BOTH, ('device.driver != "lode.dev"',)),
        (OTHERS, ('device.driver == "other.example.com"',)),
        (OTHERS, ('device.driver != "lode.dev"', 'device.driver != "nic.example.com"')),
        (NONE, ('device.driver == "lode.dev"', 'device.driver == "nic.example.com"')),
    ],
)
def test_of_several_drivers_that_are_allocated_each_is_one_of_ours(
    drivers: Drivers, selectors: tuple[str, ...]
) -> None:
    assert WITH_NET.drivers(selectors) is drivers


def test_each_driver_by_itself_may_be_selected_or_not() -> None:
    of_class, of_request = 'device.driver != "other.example.com"', 'device.driver in ["lode.dev", "other.example.com"]'
    wanted = WITH_NET.filter((of_class,), (of_request,))
    drivers = (US, "nic.example.com", "third.example.com")
    assert [WITH_NET.may_select(wanted, driver) for driver in drivers] == [True, False, True]
    only_net = WITH_NET.filter((), ('device.driver == "nic.example.com"',))
    assert [WITH_NET.may_select(only_net, driver) for driver in drivers] == [False, True, False]
