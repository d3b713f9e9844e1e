"""The series of the fleet cost the controller little, however many ask for them."""

import threading
from concurrent.futures import TimeoutError as NoAnswer
from functools import partial

import pytest

from controller.census import Census, Detail, Snapshot, exposition, peer_exposition
from controller.fleetseries import LEAST_SECONDS, FleetSeries, series_by_path
from driver.settings import Settings
from tests.simulation.clock import VirtualClock
from tests.unit.controller.census.fleets import NAMES, SmallFleet, card, pool

WRITES = {"/metrics": partial(exposition, Detail.CARDS), "/metrics/hami": partial(peer_exposition, "hami")}


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

    def series(self) -> FleetSeries:
        return FleetSeries(self, WRITES, NAMES, self.clock)


FLEET = SmallFleet(pool("n1", [card("gpu-0")])).snapshot()


def test_the_series_are_text_for_prometheus() -> None:
    assert b'lode_card_info{node="n1",card="gpu-0"' in Asked(FLEET).series().text("/metrics")


@pytest.mark.parametrize(
    ("chosen", "paths"),
    [
        ({}, {"/metrics"}),
        ({"peerMetrics": ["hami", "volcano"]}, {"/metrics", "/metrics/hami", "/metrics/volcano"}),
        ({"fleetMetrics": "none", "peerMetrics": ["hami"]}, set()),
    ],
)
def test_names_of_others_have_paths_of_their_own_and_nothing_is_served_that_is_not_chosen(
    chosen: dict[str, object], paths: set[str]
) -> None:
    asked = Asked(FLEET)
    served = series_by_path(asked, Settings.model_validate({"controller": chosen}), asked.clock)
    assert served.keys() == paths
    for path, text in served.items():
        prefix = {"/metrics": b"lode_", "/metrics/hami": b"hami_", "/metrics/volcano": b"volcano_"}[path]
        lines = [line for line in text().splitlines() if not line.startswith(b"#")]
        assert lines
        assert all(line.startswith(prefix) for line in lines)


def test_a_controller_that_does_not_lead_or_answer_shows_nothing() -> None:
    assert Asked(None).series().text("/metrics") == b""
    assert Asked(NoAnswer()).series().text("/metrics") == b""


def test_an_answer_is_given_again_for_ten_times_what_it_took() -> None:
    for takes, kept in ((0.0, LEAST_SECONDS), (2.0, 20.0)):
        asked = Asked(FLEET, takes)
        series = asked.series()
        first = series.text("/metrics")
        asked.clock.advance(kept - 0.5)
        assert (series.text("/metrics"), asked.times) == (first, 1)
        asked.clock.advance(1)
        series.text("/metrics")
        assert asked.times == 2


def test_a_copy_is_asked_for_once_for_all_paths_and_what_each_took_counts() -> None:
    asked = Asked(FLEET, 1.0)
    written: list[Census] = []

    def slowly(census: Census, pause: object) -> str:
        asked.clock.advance(2)
        written.append(census)
        return "text"

    series = FleetSeries(asked, {"/a": slowly, "/b": slowly}, NAMES, asked.clock)
    for path in ("/a", "/b", "/a"):
        assert series.text(path) == b"text"
        asked.clock.advance(3)
    assert asked.times == 1
    assert len(written) == 2
    assert written[0] is written[1]
    asked.clock.advance(10 + 2 * 20 - 2 * 2 - 3 * 3 - 1)
    series.text("/b")
    assert (asked.times, len(written)) == (1, 2)
    asked.clock.advance(2)
    series.text("/a")
    assert (asked.times, len(written)) == (2, 3)


def test_those_who_ask_together_get_one_answer() -> None:
    asked, begun, go = Asked(FLEET), threading.Event(), threading.Event()

    def slowly() -> Snapshot | None:
        begun.set()
        go.wait(10)
        return asked()

    series = FleetSeries(slowly, WRITES, NAMES, asked.clock)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(series.text("/metrics"))) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    go.set()
    for thread in threads:
        thread.join(10)
    assert len(set(found)) == 1
    assert asked.times == 1
