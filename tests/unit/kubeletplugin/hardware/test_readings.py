"""Readings have three values: answered, not there, and not read."""

from collections.abc import Sequence

import pytest

from driver.errors import TransientFault
from kubeletplugin.hardware import CardGone, Readings
from kubeletplugin.hardware.readings import ask_each, together


def test_each_measure_has_an_answer_of_its_own() -> None:
    def fails() -> float:
        raise TransientFault("busy")

    asked = ask_each({"utilization": lambda: 0.0, "memoryUsed": lambda: None, "power": fails})
    assert asked == Readings({"utilization": 0.0}, frozenset({"power"}))


def test_a_card_that_is_gone_has_no_readings() -> None:
    def gone() -> float:
        raise CardGone("card x is not there")

    with pytest.raises(CardGone):
        ask_each({"temperature": gone})


WHOLE = Readings({"utilization": 0.2, "memoryUsed": 10, "temperature": 40, "power": 90})
HALF = Readings({"utilization": 0.6, "memoryUsed": 5, "temperature": 60, "power": 60})


@pytest.mark.parametrize(
    ("parts", "of_card"),
    [
        ([WHOLE], WHOLE),
        ([WHOLE, HALF], Readings({"utilization": 0.4, "memoryUsed": 15, "temperature": 60, "power": 150})),
        ([WHOLE, Readings({"temperature": 30})], Readings({"temperature": 40})),
        (
            [WHOLE, Readings({"power": 1}, frozenset({"temperature"}))],
            Readings({"power": 91}, frozenset({"temperature"})),
        ),
    ],
    ids=["one chip", "two chips", "one that lacks some", "one of which one was not read"],
)
def test_a_card_of_several_chips_measures_what_all_of_them_do(parts: Sequence[Readings], of_card: Readings) -> None:
    assert together(parts) == of_card
