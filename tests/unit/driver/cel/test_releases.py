"""What versions of Kubernetes do differently, and that the stricter rules of both allow only what each allows."""

from dataclasses import dataclass

import pytest

from driver.cel import (
    BOTH,
    RELEASES,
    V1_37,
    V1_38,
    KubernetesRelease,
    SelectorError,
    SelectorFault,
    admission,
    check_selector,
    compile_selector,
    scheduler,
)
from driver.cel.releases import stricter
from driver.model import Device, Version
from tests.recorded_selectors import recorded

DRIVER = "lode.dev"
CARD = Device(
    "gpu-0",
    {
        "lode.dev/type": "H100",
        "lode.dev/empty": "",
        "lode.dev/true": 1,
        "lode.dev/NaN": 1,
        "lode.dev/links": ("a", "b"),
        "v.io/v": Version("1.0.0"),
    },
)
A = 'device.attributes["lode.dev"]'
REFUSED, FAULT = "refused", "fault"
FILES = ("upstream", "more", "random", "typed", "libraries")


def outcome(expression: str, release: KubernetesRelease) -> object:
    try:
        return compile_selector(expression, scheduler(release)).matches(CARD, DRIVER)
    except SelectorError:
        return REFUSED
    except SelectorFault:
        return FAULT


@dataclass(frozen=True)
class Difference:
    """An expression, and its outcome by the rules of 1.37, of 1.38, and of both."""

    expression: str
    older: object
    newer: object
    both: object


DIFFERENCES = (
    Difference('cidr("10.0.0.0/8").isMask()', REFUSED, True, REFUSED),
    Difference('cidr("10.1.2.3/8").isMask()', REFUSED, False, REFUSED),
    Difference("type(dyn([1]).transformMapEntry(k, v, {})) == int", False, REFUSED, REFUSED),
    Difference('double("NaN") < 1.0', FAULT, False, FAULT),
    Difference('!(1 >= double("NaN"))', FAULT, True, FAULT),
    Difference('dyn("a") < dyn(double("NaN"))', FAULT, False, FAULT),
    Difference(f"{A}.empty.all(x, false)", FAULT, True, FAULT),
    Difference(f"{A}.empty.exists(x, true)", FAULT, False, FAULT),
    Difference(f"{A}.empty.map(x, x) == []", FAULT, True, FAULT),
    Difference('dyn(b"").all(x, false)', FAULT, True, FAULT),
    Difference(f"dyn(true) in {A}", False, True, FAULT),
    Difference(f'dyn(b"type") in {A}', False, True, FAULT),
    Difference(f'dyn(double("NaN")) in {A}', False, True, FAULT),
    Difference(f"{A}[?dyn(true)].hasValue()", False, True, FAULT),
    Difference(f"{A}[dyn(true)] == 1", FAULT, True, FAULT),
    # A version and a text do not compare. As elements of maps they count as equal in 1.37.
    Difference('device.attributes["v.io"] == dyn({"v": "2.0.0"})', True, FAULT, FAULT),
    Difference('device.attributes["v.io"] != dyn({"v": "2.0.0"})', False, True, FAULT),
    Difference('!(device.attributes["v.io"] in [dyn({"v": "2.0.0"})])', False, True, FAULT),
    Difference('dyn({"v": "2.0.0"}) == device.attributes["v.io"]', False, False, False),
    Difference(f"{A} == dyn({{true: 1}})", False, False, False),
    # A fault in one version may be hidden, where the other version's value cannot change the outcome either.
    Difference(f"{A}.empty.all(x, false) || true", True, True, True),
    Difference(f"{A}.empty.all(x, false) || false", FAULT, True, FAULT),
    Difference('double("NaN") < 1.0 && false', False, False, False),
    # No difference: what people write.
    Difference(f'{A}.links.exists(x, x == "a") && {A}.type != ""', True, True, True),
    Difference(f'dyn("true") in {A} && !(dyn(false) in {A}) && !(dyn(1) in {A})', True, True, True),
    Difference("type(1) == int && type([1]) == list", True, True, True),
    Difference(f"{A}.type.all(x, true)", FAULT, FAULT, FAULT),
)


@pytest.mark.parametrize("case", DIFFERENCES, ids=lambda case: case.expression)
def test_the_outcome_by_the_rules_of_each_version_and_of_both(case: Difference) -> None:
    found = [outcome(case.expression, release) for release in (V1_37, V1_38, BOTH)]
    assert found == [case.older, case.newer, case.both]


NEWEST = {"includes": f'{A}.links.includes("a")', "isMask": 'cidr("10.0.0.0/8").isMask()'}


@pytest.mark.parametrize(
    ("release", "accepted"), [(V1_37, set[str]()), (V1_38, {"includes"}), (BOTH, set[str]())], ids=str
)
def test_new_expressions_may_use_the_functions_of_the_version_before(
    release: KubernetesRelease, accepted: set[str]
) -> None:
    for name, expression in NEWEST.items():
        if name in accepted:
            check_selector(expression, admission(release))
        else:
            with pytest.raises(SelectorError, match=rf"{name}\(\) is not in all versions of Kubernetes"):
                check_selector(expression, admission(release))


def test_the_stricter_rules_are_those_of_both_whatever_their_order() -> None:
    assert (list(RELEASES), BOTH.parts, str(BOTH)) == (["1.37", "1.38"], (V1_37, V1_38), "1.37 and 1.38")
    reverse = stricter(V1_38, V1_37)
    differ = {"name", "parts"}
    for entry in set(KubernetesRelease.__slots__) - differ:
        assert getattr(reverse, entry) == getattr(BOTH, entry)


def test_what_both_select_each_selects_and_only_a_difference_is_stricter() -> None:
    """The argument for one evaluation by the rules of both, on every third of the recorded expressions."""
    expressions = dict.fromkeys(case.expression for file in FILES for case in recorded(file))
    differing = 0
    for expression in list(expressions)[::3]:
        older, newer, both = (outcome(expression, release) for release in (V1_37, V1_38, BOTH))
        differing += older != newer
        if older == newer:
            assert both == older, expression
        else:
            assert both in (REFUSED, FAULT), expression
    assert differing
