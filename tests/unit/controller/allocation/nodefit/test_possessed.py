"""A refusal says what the devices have of that which the selector reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.limits import MAX_EVENT_MESSAGE
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, pool, refused, want

A, C = f'device.attributes["{DRIVER}"]', f'device.capacity["{DRIVER}"]'
CARDS = [
    device("gpu-0", {"type": "A100", "uuid": "GPU-1", "good": True}, capacity={"memory": "40Gi"}),
    device("gpu-1", {"type": "T4", "uuid": "GPU-2", "good": True}, capacity={"memory": "16Gi"}),
]
SAID = {
    f'{A}.type == "H100"': 'excluded by selector 0 (they have type "A100" or "T4")',
    f'{C}.memory.compareTo(quantity("80Gi")) >= 0': "excluded by selector 0 (they have memory 16Gi to 40Gi)",
    f'{A}.type in ["H100"] && {A}.good': 'excluded by selector 0 (they have type "A100" or "T4", good true)',
    f'{A}[?"rail"].orValue("") == "r"': "excluded by selector 0",
    f"has({A}.nvlink)": "excluded by selector 0 (they have no nvlink)",
    f'{A}.uuid == "GPU-9"': "excluded by selector 0",
    f'{A}.exists(a, a == "x")': "excluded by selector 0",
}


@pytest.mark.parametrize("expression", SAID)
def test_what_the_devices_have_is_said(expression: str) -> None:
    (shortage,) = refused(fleet(*pool(*CARDS)).allocate(NODE, {}, [claim(want("gpu", expression))])).shortages
    (exclusion,) = shortage.exclusions
    assert exclusion.cause.startswith(SAID[expression])


def test_of_many_values_some_are_named_and_the_others_counted() -> None:
    cards = [device(f"gpu-{i}", {"type": f"T{i}"}) for i in range(40)]
    reasons = refused(fleet(*pool(*cards)).allocate(NODE, {}, [claim(want("gpu", f'{A}.type == "x"'))])).sentences
    assert '(they have type "T0" or "T1" or "T2" and 37 more)' in reasons[0]


@given(st.lists(st.text(max_size=64), min_size=1, max_size=100))
def test_whatever_devices_have_the_reason_is_short(values: list[str]) -> None:
    cards = [device(f"gpu-{i}", {"type": value}) for i, value in enumerate(values)]
    answer = fleet(*pool(*cards)).allocate(NODE, {}, [claim(want("gpu", f'{A}.type == "x" && false'))])
    (reason,) = refused(answer).sentences
    assert len(reason) < MAX_EVENT_MESSAGE / 2
