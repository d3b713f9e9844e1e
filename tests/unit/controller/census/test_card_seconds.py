"""The time for which cards are held is exact, whenever somebody asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.allocation import CARD
from controller.census.snapshot import FORGET_SECONDS, CardSeconds, CountedUse
from tests.unit.controller.census.fleets import SmallFleet, card, claim, pool

USE = CountedUse("team", "h100", "gpu")


def test_a_card_counts_from_the_moment_it_is_held_until_it_is_free() -> None:
    seconds = CardSeconds()
    seconds.change(USE, CARD, 10)
    assert seconds.totals(15) == {USE: 5}
    seconds.change(USE, -CARD, 20)
    assert seconds.totals(100) == {USE: 10}


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 4)), max_size=20))
def test_the_sum_is_that_of_the_parts_however_they_overlap(held: list[tuple[int, int]]) -> None:
    seconds = CardSeconds()
    changes = sorted(
        (at, sign * CARD // 4) for begin, length in held for at, sign in ((begin, 1), (begin + length, -1))
    )
    for at, parts in changes:
        seconds.change(USE, parts, at)
    assert seconds.totals(1000).get(USE, 0) == pytest.approx(sum(length for _, length in held) / 4)


def test_a_new_term_counts_from_nothing_and_forgets_nobody_who_holds() -> None:
    seconds = CardSeconds()
    seconds.change(USE, CARD, 0)
    seconds.change(CountedUse("gone", "h100", "gpu"), CARD, 0)
    seconds.change(CountedUse("gone", "h100", "gpu"), -CARD, 5)
    seconds.restart(50)
    assert seconds.totals(60) == {USE: 10}


def test_a_namespace_that_holds_nothing_any_more_is_forgotten_in_the_end() -> None:
    seconds = CardSeconds()
    seconds.change(USE, CARD, 0)
    seconds.change(USE, -CARD, 1)
    assert seconds.totals(FORGET_SECONDS) == {USE: 1}
    assert seconds.totals(FORGET_SECONDS + 2) == {}


def test_a_share_counts_the_larger_one_of_its_memory_and_cores() -> None:
    fleet = SmallFleet(pool("n1", [card("gpu-0-share", "gpu-share")]))
    fleet.put(claim("memory", "n1", "gpu-0-share", memory="40Gi", cores="10", slots="1"), 0)
    fleet.put(claim("cores", "n1", "gpu-0-share", memory="8Gi", cores="25", slots="1", namespace="other"), 0)
    totals = fleet.snapshot(100).card_seconds
    assert {use.namespace: seconds for use, seconds in totals.items()} == {"team": 50, "other": 25}


def test_what_is_published_late_counts_as_its_type_from_then_on() -> None:
    fleet = SmallFleet()
    fleet.put(claim("a", "n1", "gpu-0"), 0)
    fleet.publish(pool("n1", [card("gpu-0")]))
    fleet.put(claim("a", "n1", "gpu-0"), 10)
    assert fleet.snapshot(15).card_seconds == {CountedUse("team", "", "unknown"): 10, USE: 5}


def test_devices_that_are_published_no_longer_are_held_as_before() -> None:
    fleet = SmallFleet(pool("n1", [card("gpu-0")]))
    fleet.put(claim("a", "n1", "gpu-0"), 0)
    fleet.fleet.ledger.remove_slice("n1-lode.dev")
    fleet.put(claim("a", "n1", "gpu-0"), 10)
    assert fleet.snapshot(20).card_seconds == {USE: 20}
    fleet.remove("team/a", 30)
    assert fleet.snapshot(40).card_seconds == {USE: 30}
    assert not fleet.snapshot(40).holdings
