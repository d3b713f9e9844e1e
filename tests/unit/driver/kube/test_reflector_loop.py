"""The pace at which an API is asked: at once while it answers, ever slower while it does not."""

from collections.abc import Callable
from typing import cast

import pytest
from structlog.testing import capture_logs

from driver.kube.api import NODES, Forbidden, Unavailable
from driver.kube.reflector import Reflector
from driver.kube.reflector_loop import LONGEST_PAUSE_SECONDS, ReflectorLoop
from driver.observe import logger
from tests.simulation.clock import VirtualClock


class Played:
    """A reflector whose steps take as long, or fail, as the test says."""

    resource = NODES

    def __init__(self, name: str = "") -> None:
        self.clock = VirtualClock()
        self.act: Callable[[], None] = self.watch
        self.following = ReflectorLoop(cast("Reflector", self), self.clock, logger("test"), name)

    def step(self) -> None:
        self.act()

    def watch(self) -> None:
        self.clock.sleep(300)

    def end_at_once(self) -> None:
        pass

    def fail(self) -> None:
        raise Unavailable("connection refused")

    def forbid(self) -> None:
        raise Forbidden("cannot list nodes", status=403)

    def fail_late(self) -> None:
        self.clock.sleep(10)
        self.fail()

    def rests(self, act: Callable[[], None], times: int) -> list[float]:
        self.act = act
        return [self.following.step() for _ in range(times)]


def test_watches_that_last_follow_one_another_without_a_rest() -> None:
    played = Played()
    assert played.rests(played.watch, 5) == [0] * 5


def test_a_list_and_a_watch_that_ends_at_once_cost_no_rest() -> None:
    played = Played()
    assert played.rests(played.end_at_once, 2) == [0, 0]
    assert played.rests(played.watch, 1) == [0]
    assert played.rests(played.end_at_once, 2) == [0, 0], "the series begins anew"


def test_an_api_that_ends_every_watch_at_once_is_asked_ever_more_seldom() -> None:
    played = Played()
    assert played.rests(played.end_at_once, 6) == [0, 0, 0.5, 1, 2, 4]


@pytest.mark.parametrize("how", ["fail", "fail_late"])
def test_an_api_that_fails_is_asked_ever_more_seldom_but_never_given_up(how: str) -> None:
    played = Played()
    rests = played.rests(getattr(played, how), 12)
    assert rests[:3] == [0.5, 1, 2]
    assert rests == sorted(rests)
    assert rests[-1] == LONGEST_PAUSE_SECONDS


def test_an_api_that_says_when_to_come_again_is_not_asked_before() -> None:
    played = Played()

    def overloaded() -> None:
        raise Unavailable("too many requests", status=429, retry_after=7)

    assert played.rests(overloaded, 6) == [7, 7, 7, 7, 8, 16]


def test_programs_of_different_names_that_fail_together_try_again_at_different_times() -> None:
    rests = [played.rests(played.fail, 1)[0] for played in map(Played, (f"node-{number}" for number in range(100)))]
    assert len(set(rests)) > 90
    assert 0.25 <= min(rests) < max(rests) <= 0.5


def test_an_api_that_answers_again_is_asked_at_once() -> None:
    played = Played()
    played.rests(played.fail_late, 5)
    assert played.rests(played.watch, 1) == [0]


def test_errors_of_one_kind_in_a_row_are_logged_once_and_so_is_their_end() -> None:
    played = Played()
    with capture_logs() as lines:
        played.rests(played.fail, 3)
        played.rests(played.forbid, 2)
        played.rests(played.watch, 2)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("cannot list or watch", "warning"),
        ("cannot list or watch", "warning"),
        ("listed or watched again", "info"),
    ]
