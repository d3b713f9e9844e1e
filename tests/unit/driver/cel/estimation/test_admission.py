"""Admission refuses expressions whose estimated cost is above the limit."""

import pytest

from driver.cel import BOTH, V1_37, V1_38, SelectorError, compile_selector
from driver.cel.estimation import check_admission

TEN = "[1,2,3,4,5,6,7,8,9,10]"


def test_admission_refuses_what_may_cost_too_much_and_the_scheduler_does_not_ask() -> None:
    expression = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, {TEN}.all(f, true)))))) || true"
    compile_selector(expression)
    with pytest.raises(SelectorError, match=r"estimated cost exceeds the limit of 1000000: \d+") as error:
        check_admission(expression)
    assert not error.value.unsupported
    with pytest.raises(SelectorError, match="without bound"):
        check_admission("type(1) == int")


URL = 'url(device.attributes["lode.dev"].address)'
ONLY_BOUNDED_IN_1_38 = ("type(1) == int", f'{URL}.getHost().matches("a+")', f'"/a".startsWith({URL}.getEscapedPath())')


@pytest.mark.parametrize("expression", ONLY_BOUNDED_IN_1_38)
def test_an_estimate_that_one_version_refuses_is_refused(expression: str) -> None:
    check_admission(expression, V1_38)
    for release in (V1_37, BOTH):
        with pytest.raises(SelectorError, match="without bound"):
            check_admission(expression, release)


def test_the_functions_that_new_expressions_may_use_are_those_of_the_version() -> None:
    includes = 'device.attributes["lode.dev"].links.includes("a")'
    check_admission(includes, V1_38)
    for release in (V1_37, BOTH):
        with pytest.raises(SelectorError, match=r"includes\(\) is not in all versions of Kubernetes"):
            check_admission(includes, release)
