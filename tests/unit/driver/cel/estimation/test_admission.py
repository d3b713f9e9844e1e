"""Admission refuses expressions whose estimated cost is above the limit."""

import pytest

from driver.cel import SelectorError, compile_selector
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
