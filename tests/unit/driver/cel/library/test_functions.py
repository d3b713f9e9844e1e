"""What the functions of selectors mean, where that is not what one would expect. Each line holds on every device."""

import pytest

from driver.cel import SelectorFault, compile_selector
from driver.cel.language.environment import FUNCTIONS as DECLARED
from driver.cel.library.functions import FUNCTIONS
from driver.model import Device

BUILT_IN = {"_&&_", "_||_", "_?_:_", "_==_", "_!=_", "_[_]", "_[?_]", "or", "orValue"}
"""What the evaluator does itself, because not all of its operands are always evaluated."""

TRUE = (
    # Texts
    '"aaa".lastIndexOf("a", 2) == 2 && "aaa".lastIndexOf("aaa", 3) == -1',
    '"abc".split("", 2) == ["a", "bc"] && "".split("").size() == 0',
    '"aXbX".findAll("X|$") == ["X", "X"] && "ab".findAll("z*") == ["", "", ""]',
    r'strings.quote("a\n\"é") == "\"a\\n\\\"é\""',
    'string(1e6) == "1e+06" && string(123456.7) == "123456.7" && string(-0.0) == "-0"',
    'double("0x1p4") == 16.0 && double("1_000.5") == 1000.5',
    # Formats
    '"%s %s %s".format([1.5, [1.5], {"b": 1, "a": null}]) == "1.5 [1.500000] {\\"a\\":null, \\"b\\":1}"',
    '"%.1f|%f|%.0f".format([1234567.25, 0.5, 2.5]) == "1,234,567.2|0.500000|2"',
    '"%e|%.3e".format([1234.5, -0.0012]) == "1.234500×10⁰³|-1.200000×10⁻³"'.replace("⁻³", "⁻⁰³"),
    '"%f|%e".format(["-Infinity", "NaN"]) == "-∞|   NaN"',
    '"%b %o %x %X %x".format([-5, 8, -255, 255u, "hé"]) == "-101 10 -ff FF 68c3a9"',
    '"%s".format([[duration("90s"), timestamp(0)].map(x, dyn(x))]) != "" || true',
    '"%s".format([[duration("90s")]]) == "[duration(\\"90s\\")]"',
    # Durations and timestamps
    'duration("1h30m") == duration("90m") && string(duration("1.5h")) == "5400s" && duration("-.5s") < duration("0")',
    'duration("1h").getMinutes() == 60 && duration("1.5s").getMilliseconds() == 1500',
    'timestamp("2024-02-29T12:00:00+02:00") == timestamp("2024-02-29T10:00:00Z")',
    'string(timestamp("2024-02-29T12:00:00+02:00") + duration("24h")) == "2024-03-01T12:00:00+02:00"',
    'timestamp("2024-01-01T1:00:00,25Z").getMilliseconds() == 250',
    'timestamp("2024-01-01T00:00:00Z").getHours("+05:30") == 5 && timestamp(0).getHours("America/New_York") == 19',
    'timestamp("2024-07-01T00:00:00Z").getDayOfWeek() == 1 && timestamp("2024-12-31T00:00:00Z").getDayOfYear() == 365',
    'timestamp("0001-01-01T00:00:00Z").getFullYear("-01:00") == 0',
    'timestamp("2024-01-02T00:00:00Z") - timestamp("2024-01-01T00:00:00Z") == duration("24h")',
    '[duration("1s"), duration("2s")].sum() == duration("3s") && [timestamp(1), timestamp(0)].min() == timestamp(0)',
    # Addresses
    'ip("::fffe:0:1").family() == 6 && !isIP("::ffff:1.2.3.4") && !isIP("fe80::1%eth0") && !isIP("01.2.3.4")',
    'ip.isCanonical("2001:db8::1") && !ip.isCanonical("2001:DB8::1") && string(ip("1::0:1")) == "1::1"',
    'ip("10.0.0.1").isGlobalUnicast()',
    '!ip("255.255.255.255").isGlobalUnicast() && ip("ff12::1").isLinkLocalMulticast()',
    'cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("10.1.2.3/8") != cidr("10.0.0.0/8")',
    'cidr("10.0.0.0/8").containsIP("10.9.9.9") && cidr("10.0.0.0/8").containsCIDR(cidr("10.1.0.0/16"))',
    '!isCIDR("10.0.0.0/08") && !isCIDR("10.0.0.0/33") && cidr("::/0").prefixLength() == 0',
    # URLs
    'url("https://u:p@[::1]:80/a%2Fb?x=1&x=2#f").getHost() == "[::1]:80"',
    'url("http://[::1]:80").getHostname() == "::1" && url("http://[::1]:80").getPort() == "80"',
    'url("http://h/a b").getEscapedPath() == "/a%20b" && url("http://h/a%2Fb").getEscapedPath() == "/a%2Fb"',
    'url("/p?a=1&b&a=2&c=%zz").getQuery() == {"a": ["1", "2"], "b": [""]}',
    '!isURL("http://a:b:c/") && isURL("ftp://a:b:1/") && !isURL("a/b") && isURL("mailto:x") && !isURL("http://[1.2.3.4]/")',
    'url("HTTP://h") == url("http://h") && url("http://h:080").getPort() == "080"',
    # Named formats
    'format.named("dns1123Label").value().validate("a.b").value() == ["must not contain dots"]',
    '!format.dns1123LabelPrefix().validate("abc-").hasValue() && format.dns1123Label().validate("abc-").hasValue()',
    '!format.date().validate("0000-02-29").hasValue() && format.date().validate("2023-02-29").hasValue()',
    '!format.datetime().validate("2024-01-01t23:59:59z").hasValue() && format.byte().validate("").hasValue()',
    'format.named("nosuch") == optional.none() && format.uuid() == format.named("uuid").value()',
    # Quantities and versions
    'quantity("1000m") == quantity("1") && !quantity("1000m").isInteger() && quantity("1k").asInteger() == 1000',
    'isQuantity("Ki") && !isQuantity("Ei") && isQuantity("1e1001") && !isQuantity("1e99999999999999999999")',
    'quantity("16Ei").compareTo(quantity("9223372036854775807")) == 0',
    'quantity("1e4200").isGreaterThan(quantity("1e4100"))',
    'sign(quantity("-1n")) == -1 && quantity("0.0000000001") == quantity("1n")',
    'semver("v1.02", true) == semver("1.2.0") && !isSemver("1.2")',
    'semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10")) && semver("1.0.0+a") == semver("1.0.0+b")',
    # Types, maps and equality
    "type(1) == int && type(timestamp(0)) == google.protobuf.Timestamp && type(type(1)) == type",
    "dyn(1) == 1.0 && dyn(1u) == 1 && 9007199254740993 <= 9007199254740992.0",
    '!(dyn([1]) in {"a": 1}) && !(dyn(b"a") in {}) && dyn(timestamp(0)) in {timestamp(0): 1}',
    '!(quantity("1") == dyn(null)) && !(dyn("x") == ip("::1")) && ip("::1") != dyn("x")',
    "[1, 2].transformMap(i, v, v * 2) == {0: 2, 1: 4}",
    "dyn(optional.of(optional.of(true)))",
)

FAULTS = (
    ('dyn(ip("::1")) == dyn("x")', "no such overload"),
    ('string(dyn(quantity("1"))) == "1"', "no such overload"),
    ('timestamp("9999-12-31T23:59:59Z") + duration("1s") == timestamp(0)', "years 1 to 9999"),
    ('duration("9223372036s") + duration("9223372036s") == duration("0s")', "integer overflow"),
    ('timestamp(0).getHours("Nowhere/Else") == 0', "unknown time zone 'Nowhere/Else'"),
    ('ip("10.0.0.256") == ip("::1")', "10.0.0.256"),
    ('url("no url").getHost() == ""', "neither an absolute URL nor an absolute path"),
    ('"%d".format([dyn("x")]) == ""', "%d in a format takes int, uint; not string"),
    ('dyn(1).allowed() || dyn(1).path("/x").check("get").allowed()', "no such overload"),
    ('quantity("1e4100").add(quantity("1")).isInteger()', "too many digits"),
    ("0.0 / 0.0 < 1.0", "NaN"),
    ("dyn({1: 2}).sortBy(x, x) == []", "no such overload"),
    ("{semver('1.0.0'): 1}.size() == 1", "cannot be a key of a map: kubernetes.Semver"),
)


@pytest.mark.parametrize("expression", TRUE)
def test_it_holds(expression: str) -> None:
    assert compile_selector(expression).matches(Device("d"), "lode.dev")


@pytest.mark.parametrize(("expression", "why"), FAULTS)
def test_a_fault_names_what_is_wrong(expression: str, why: str) -> None:
    with pytest.raises(SelectorFault) as fault:
        compile_selector(expression).matches(Device("d"), "lode.dev")
    assert why in str(fault.value)


def test_every_declared_function_can_be_called() -> None:
    assert {name for name in DECLARED if name not in FUNCTIONS} == BUILT_IN
    assert set(FUNCTIONS) <= set(DECLARED)
