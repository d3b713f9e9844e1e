"""What every backend must do whose library is asked measure by measure. Derive from it as from ``HardwareContract``."""

from typing import Protocol

from kubeletplugin.hardware import Card, Readings
from kubeletplugin.hardware.readings import MEASURES, Measure
from tests.unit.kubeletplugin.hardware.contract import HardwareBench


class AskedMeasures(HardwareBench, Protocol):
    """A node whose hardware is asked measure by measure."""

    def mute(self, card: Card, measure: Measure, code: int) -> None:
        """The library answers with this code when it is asked for the measure; 0: as ever."""
        ...

    def codes(self) -> tuple[int, int]:
        """The library's codes for "not supported", and for a fault that passes."""
        ...


class MeasuringContract:
    """Tests of cards whose library is asked measure by measure."""

    def test_a_measure_that_cannot_be_read_is_not_zero_and_the_others_are_read(self, bench: AskedMeasures) -> None:
        hardware, (_, passing) = bench.start(), bench.codes()
        card = hardware.cards()[-1]
        measured = bench.work(card)
        for measure in MEASURES:
            bench.mute(card, measure, passing)
            for _ in range(2):  # for a while
                answer = hardware.readings(card)
                assert answer.unread == {measure}
                assert answer.values == {name: value for name, value in measured.values.items() if name != measure}
            bench.mute(card, measure, 0)
            assert hardware.readings(card) == measured

    def test_a_measure_that_the_card_does_not_have_is_not_zero_and_no_fault(self, bench: AskedMeasures) -> None:
        hardware, (lacking, _) = bench.start(), bench.codes()
        card = hardware.cards()[-1]
        measured = bench.work(card)
        for number, measure in enumerate(MEASURES):
            bench.mute(card, measure, lacking)
            left = {name: measured.values[name] for name in MEASURES[number + 1 :]}
            assert hardware.readings(card) == Readings(left)
