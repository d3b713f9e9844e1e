"""What selectors mean, statement by statement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.cel import (
    ADMISSION,
    BudgetExceeded,
    SelectorError,
    SelectorFault,
    compile_selector,
)
from driver.model import Capacity, Device, Version
from driver.quantity import Quantity

DRIVER = "lode.dev"
CARD = Device(
    "gpu-0",
    {
        "lode.dev/type": "H100",
        "lode.dev/index": 3,
        "lode.dev/healthy": True,
        "lode.dev/driverVersion": Version("550.54.15"),
        "lode.dev/links": ("a", "b"),
        "other.example.com/zone": "z1",
    },
    {"memory": Capacity(Quantity.parse("80Gi"))},
)
A = 'device.attributes["lode.dev"]'
C = 'device.capacity["lode.dev"]'

MATCHES = (
    'device.driver == "lode.dev"',
    f'{A}.type == "H100"',
    f'{A}["type"] in ["A100", "H100"]',
    f"{A}.index < 4 && {A}.index + 1 == 4",
    f"{A}.index < 3.5",
    f"{A}.healthy",
    f'{A}.driverVersion.compareTo(semver("535.0.0")) > 0',
    f'{A}.driverVersion.isGreaterThan(semver("550.54.14"))',
    f'{C}.memory.compareTo(quantity("40Gi")) >= 0',
    f'{C}.memory == quantity("80Gi") && !{C}.memory.isLessThan(quantity("80Gi"))',
    f"has({A}.type) && !has({A}.nothing)",
    f'{A}.?nothing.orValue("x") == "x"',
    f'{A}[?"type"].orValue("") == "H100"',
    f'{A}.type.startsWith("H") && {A}.type.endsWith("00") && {A}.type.contains("10")',
    f'{A}.type.lowerAscii().matches("^h[0-9]+$")',
    f'"a" in {A}.links && {A}.links.exists(link, link == "b") && {A}.links.includes("a")',
    f"{A}.type == 'H100' ? true : false",
    "device.attributes['unknown.example.com'].size() == 0",
    f'cel.bind(a, {A}, a.index == 3 && a.type == "H100")',
    "[1, 2, 3].map(x, x * 2).filter(x, x > 2) == [4, 6]",
    '{"a": 1}.all(k, k == "a") && {"a": 1}.exists(k, v, k == "a" && v == 1)',
    '"a,b".split(",").size() == 2 && "  x ".trim() == "x" && ["a", "b"].join("-") == "a-b"',
    "!device.allowMultipleAllocations",
    "7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1",
    r'"\u0041\x42" == "AB" && r"\n".size() == 2',
)
MISMATCHES = (
    'device.driver == "other"',
    f'{A}.type == "A100"',
    f'{A}.type != "H100"',
    f"false && {A}.nothing",
    f"{A}.nothing == 1 && false",
    'device.attributes["other.example.com"].zone == "z2"',
)
FAULTS = (
    (f"{A}.typ == 'H100'", "did you mean 'type'"),
    (f"{A}.nothing", "use has()"),
    ("device.attributes['lode.de'].type == 'H100'", "nothing in this domain"),
    (f"{A}.type > 1", "no such overload"),
    (f"{A}.index", "must be a bool, not: int"),
    (f"{A}.index / 0 == 1", "division by zero"),
    (f"{A}.index * 9223372036854775807 > 0", "integer overflow"),
    ("[1][5] == 1", "out of bounds"),
    (f'{A}.type == "H100" && {A}.nothing == 1', "no such key"),
    ('quantity("nonsense") == quantity("1")', "nonsense"),
)
REFUSED = (
    (f"{A}.type = 'H100'", "unexpected character '='"),
    ("device.driverr == 'x'", "did you mean 'driver'"),
    ("devcie.driver == 'x'", "unknown name 'devcie'"),
    ("device.driver > 1", "not defined for (string, int)"),
    ("device.driver", "must evaluate to bool, not string"),
    (f'{C}.memory > quantity("1Gi")', "use compareTo()"),
    ("1 == 1.0", "not defined for (int, double)"),
    ('"a".frobnicate()', "unknown function"),
    ('device.driver.startWith("x")', "did you mean 'startsWith'?"),
    ("semvr('1.2.3') == semver('1.2.3')", "did you mean 'semver'?"),
    ("[1].all(item, itm > 0)", "did you mean 'item'?"),
    ('duration("1 hour") > duration("0s")', "not a duration such as 1h30m"),
    ('timestamp("2026-02-30T00:00:00Z") > timestamp(0)', "a date, time or offset that does not exist"),
    ('"%d and %s".format([1]) == ""', "not enough arguments for the format: 1"),
    ('"%d".format(["x"]) == ""', "%d in a format takes int, uint; not string"),
    ('"%q".format(["x"]) == ""', "not a directive such as %s"),
    ('"a".find("(") == ""', "RE2"),
    ('dyn({"a": 1})[b"a"] == 1', "an index must be bool, double, int, string, uint, not: bytes"),
    ("cel.bind(t, int, t == int)", "a variable cannot hold a type"),
    ("[?device.driver].size() == 1", "expected an optional value, found string"),
    ("(true", "expected ')'"),
    ('"open', "no closing quote"),
    ("true &&", "expected a value, found the end"),
    ('"a".matches("(?=x)")', "RE2"),
    ("[1, 'a'].size() == 2", "all entries must have one type; expected int, found string"),
    ("9223372036854775808 > 0", "does not fit"),
    ("true || package", "reserved word"),
    ("", "expected a value"),
    ("device{} == 1", "unknown message type 'device'"),
)


@pytest.mark.parametrize("expression", MATCHES)
def test_it_matches(expression: str) -> None:
    assert compile_selector(expression).matches(CARD, DRIVER)


@pytest.mark.parametrize("expression", MISMATCHES)
def test_it_does_not_match(expression: str) -> None:
    assert not compile_selector(expression).matches(CARD, DRIVER)


@pytest.mark.parametrize(("expression", "why"), FAULTS)
def test_a_failure_on_a_device_is_neither_match_nor_mismatch_and_says_why(expression: str, why: str) -> None:
    with pytest.raises(SelectorFault) as fault:
        compile_selector(expression).matches(CARD, DRIVER)
    assert why in str(fault.value)


@pytest.mark.parametrize(("expression", "why"), REFUSED)
def test_what_is_no_selector_is_refused_before_it_runs(expression: str, why: str) -> None:
    with pytest.raises(SelectorError) as error:
        compile_selector(expression)
    assert why in str(error.value)
    assert not error.value.unsupported


def test_a_message_is_refused_as_what_kubernetes_would_construct() -> None:
    with pytest.raises(SelectorError, match=r"messages are not supported: google\.protobuf\.Int64Value") as error:
        compile_selector("google.protobuf.Int64Value{value: 1} == 1")
    assert error.value.unsupported


def test_an_error_points_at_what_is_wrong() -> None:
    with pytest.raises(SelectorError) as error:
        compile_selector("true &&\n  devcie.driver == 'x'")
    assert error.value.position == len("true &&\n  ")
    assert "line 2, column 3" in str(error.value)


def test_admission_refuses_what_only_the_scheduler_accepts() -> None:
    expression = f'{A}.links.exists(link, link == "a")'
    assert compile_selector(expression).matches(CARD, DRIVER)
    with pytest.raises(SelectorError):
        compile_selector(expression, ADMISSION)


TEN = "[1,2,3,4,5,6,7,8,9,10]"
HOSTILE = (
    f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, {TEN}.all(f, true))))))",
    "lists.range(1000000).all(x, true)",
    'lists.range(400000).map(x, "aaaaaaaaaa").join().size() > 0',
    'cel.bind(a, "0123456789".replace("", "0123456789"), cel.bind(b, a.replace("", a), '
    'cel.bind(c, b.replace("", b), c.replace("", c).size() > 0)))',
)


@pytest.mark.parametrize("expression", HOSTILE)
def test_a_hostile_expression_is_stopped(expression: str) -> None:
    with pytest.raises(BudgetExceeded):
        compile_selector(expression + " || true").matches(CARD, DRIVER)


DEEP = (
    "({})",
    "[{}][0]",
    "(true ? {} : false)",
    "false ? true : {}",
    "[1].exists(x, {})",
    "!(!({}))",
    "(true && ({} || false))",
    "cel.bind(x, 1, {})",
    '{{"a": {}}}.a',
    "optional.of(1).optMap(x, {}).value()",
    "dyn({})",
)


@pytest.mark.parametrize("around", DEEP)
def test_what_lies_inside_may_be_nested_as_deep_as_the_grammar_allows(around: str) -> None:
    levels = 100 if around in DEEP[1:] else 249
    expression = "true"
    for _ in range(levels):
        expression = around.format(expression)
    assert compile_selector(expression).matches(CARD, DRIVER)


def test_chains_of_and_and_or_are_as_long_as_an_expression_may_be() -> None:
    for operator, terms in (("&&", "true"), ("||", "false")):
        chain = operator.join([terms] * (10_000 // (len(terms) + 2)))
        assert compile_selector(chain).matches(CARD, DRIVER) is (operator == "&&")
    with pytest.raises(SelectorError, match="too long; the limit in bytes is 10240"):
        compile_selector("true" + " || true" * 2000, ADMISSION)


@given(st.text(alphabet="device.atributs[]()\"'!&|?:=<>0123 \\u,{}+-*/%xinhas", max_size=40))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        selector = compile_selector(text)
    except SelectorError:
        return
    try:
        selector.matches(CARD, DRIVER)
    except SelectorFault:
        return
