"""The series of the fleet cost the controller little, however many ask for them."""

import threading
from concurrent.futures import TimeoutError as NoAnswer

from controller.census import Snapshot
from controller.fleetseries import LEAST_SECONDS, FleetSeries
from simulation.clock import VirtualClock
from tests.unit.controller.census.fleets import NAMES, SmallFleet, card, pool


class Asked:
    """A controller that answers with a fleet; counts the questions."""

    def __init__(self, answer: Snapshot | Exception | None, takes: float = 0.0):
        self.clock = VirtualClock()
        self.answer = answer
        self.times = 0
        self._takes = takes

    def __call__(self) -> Snapshot | None:
        self.times += 1
        self.clock.advance(self._takes)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def series(self, detail: str = "cards") -> FleetSeries:
        return FleetSeries(self, NAMES, detail, self.clock)


FLEET = SmallFleet(pool("n1", [card("gpu-0")])).snapshot()


def test_the_series_are_text_for_prometheus() -> None:
    assert b'lode_card_info{node="n1",card="gpu-0"' in Asked(FLEET).series().text()


def test_nobody_is_asked_if_nothing_is_shown() -> None:
    asked = Asked(FLEET)
    assert asked.series("none").text() == b""
    assert asked.times == 0


def test_a_controller_that_does_not_lead_or_answer_shows_nothing() -> None:
    assert Asked(None).series().text() == b""
    assert Asked(NoAnswer()).series().text() == b""


def test_an_answer_is_given_again_for_ten_times_what_it_took() -> None:
    for takes, kept in ((0.0, LEAST_SECONDS), (2.0, 20.0)):
        asked = Asked(FLEET, takes)
        series = asked.series()
        first = series.text()
        asked.clock.advance(kept - 0.5)
        assert (series.text(), asked.times) == (first, 1)
        asked.clock.advance(1)
        series.text()
        assert asked.times == 2


def test_those_who_ask_together_get_one_answer() -> None:
    asked, begun, go = Asked(FLEET), threading.Event(), threading.Event()

    def slowly() -> Snapshot | None:
        begun.set()
        go.wait(10)
        return asked()

    series = FleetSeries(slowly, NAMES, "cards", asked.clock)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(series.text())) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    go.set()
    for thread in threads:
        thread.join(10)
    assert len(set(found)) == 1
    assert asked.times == 1
