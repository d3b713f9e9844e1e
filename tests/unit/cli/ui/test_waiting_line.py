"""Whoever asks again comes after those who wait, and nobody waits for ever."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from cli.ui.access import NoTurn, WaitingLine

PATIENCE_SECONDS = 30.0


class Crowd:
    """Those who ask. A turn lasts until ``go_on`` is called for it.

    Attributes:
        came: whose turn it was, in order.
    """

    def __init__(self, pool: ThreadPoolExecutor, at_once: int = 1, most: int = 16, longest: float = PATIENCE_SECONDS):
        self.line = WaitingLine(at_once, most, longest)
        self.came: list[str] = []
        self._pool = pool

    def joins(self, who: str) -> tuple[Event, Future[None]]:
        """Somebody comes; returns when they are in the line."""
        length, told = len(self.line) + 1, Event()
        asked = self._pool.submit(self._ask, who, told)
        eventually(lambda: len(self.line) == length)
        return told, asked

    def _ask(self, who: str, told: Event) -> None:
        with self.line.turn(who):
            self.came.append(who)
            assert told.wait(PATIENCE_SECONDS)


def eventually(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


def test_whoever_asks_again_comes_after_those_who_wait(pool: ThreadPoolExecutor) -> None:
    crowd = Crowd(pool)
    asked = [crowd.joins(who) for who in ("anna", "bob", "carl")]
    asked[0][0].set()
    asked[0][1].result(PATIENCE_SECONDS)
    asked.append(crowd.joins("anna"))
    for told, done in asked[1:]:
        told.set()
        done.result(PATIENCE_SECONDS)
    assert crowd.came == ["anna", "bob", "carl", "anna"]


def test_nobody_is_in_the_line_twice(pool: ThreadPoolExecutor) -> None:
    crowd = Crowd(pool)
    told, done = crowd.joins("anna")
    with pytest.raises(NoTurn, match="another question of yours is being answered"), crowd.line.turn("anna"):
        pass
    told.set()
    done.result(PATIENCE_SECONDS)
    with crowd.line.turn("anna"):
        assert len(crowd.line) == 1


def test_a_line_that_is_too_long_is_told_so(pool: ThreadPoolExecutor) -> None:
    crowd = Crowd(pool, most=2)
    asked = [crowd.joins(who) for who in ("anna", "bob")]
    with pytest.raises(NoTurn, match="2 others ask before you; ask again in a minute"), crowd.line.turn("carl"):
        pass
    for told, _ in asked:
        told.set()


def test_whoever_has_waited_too_long_is_told_so_and_leaves_their_place(pool: ThreadPoolExecutor) -> None:
    crowd = Crowd(pool, longest=0.05)
    told, done = crowd.joins("anna")
    with pytest.raises(NoTurn, match="others have asked for"), crowd.line.turn("bob"):
        pass
    assert len(crowd.line) == 1
    told.set()
    done.result(PATIENCE_SECONDS)


def test_several_may_have_their_turn_at_once(pool: ThreadPoolExecutor) -> None:
    crowd = Crowd(pool, at_once=2)
    asked = [crowd.joins(who) for who in ("anna", "bob", "carl")]
    eventually(lambda: crowd.came == ["anna", "bob"])
    asked[1][0].set()
    eventually(lambda: crowd.came == ["anna", "bob", "carl"])
    for told, _ in asked:
        told.set()


def test_a_turn_that_fails_ends() -> None:
    line = WaitingLine(1, 16, PATIENCE_SECONDS)
    with pytest.raises(ValueError, match="it broke"), line.turn("anna"):
        raise ValueError("it broke")
    assert len(line) == 0
