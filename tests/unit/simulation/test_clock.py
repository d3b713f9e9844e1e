import pytest

from driver.clock import Clock, rfc3339
from tests.simulation.clock import VirtualClock


def test_sleeping_moves_both_times_on_by_exactly_that_much() -> None:
    clock: Clock = VirtualClock(start=1000.0)
    clock.sleep(2.5)
    assert (clock.now(), clock.monotonic()) == (1002.5, 2.5)


def test_every_clock_starts_at_the_same_whole_second() -> None:
    assert rfc3339(VirtualClock().now()) == "2027-01-15T08:00:00Z"
    assert VirtualClock().now() == VirtualClock().now()


def test_time_never_goes_back() -> None:
    with pytest.raises(ValueError, match="negative"):
        VirtualClock().advance(-1)
