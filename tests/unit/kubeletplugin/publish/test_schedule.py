"""When a step is due, whatever was requested and whatever failed."""

from kubeletplugin.publish.schedule import FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, Schedule, Trigger
from tests.simulation.clock import VirtualClock


def made() -> tuple[VirtualClock, Schedule, list[None]]:
    clock, wakes = VirtualClock(), list[None]()
    return clock, Schedule(clock, lambda: wakes.append(None)), wakes


def test_the_first_step_is_due_at_once_and_the_next_only_when_requested() -> None:
    clock, schedule, wakes = made()
    assert schedule.start() is Trigger.CHANGE
    assert (schedule.start(), schedule.next_due()) == (None, None)
    schedule.request(Trigger.CHANGE, 2)
    assert len(wakes) == 1
    clock.advance(1.9)
    assert schedule.start() is None
    clock.advance(0.1)
    assert schedule.start() is Trigger.CHANGE


def test_the_earliest_request_and_the_largest_trigger_count() -> None:
    clock, schedule, _ = made()
    schedule.start()
    schedule.again(5)
    schedule.request(Trigger.CHANGE, 1)
    schedule.again(3)
    assert schedule.next_due() == clock.monotonic() + 1
    clock.advance(1)
    assert schedule.start() is Trigger.CHANGE
    schedule.again(0)
    assert schedule.start() is Trigger.POLL


def test_after_failures_nothing_is_due_before_a_growing_pause_has_passed() -> None:
    clock, schedule, _ = made()
    pauses = []
    for _attempt in range(10):
        schedule.start()
        pauses.append(schedule.failed())
        schedule.request(Trigger.CHANGE)
        assert schedule.next_due() == clock.monotonic() + pauses[-1]
        clock.advance(pauses[-1])
    assert pauses[:3] == [FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS, 4 * FIRST_RETRY_SECONDS]
    assert pauses[-1] == LONGEST_RETRY_SECONDS
    assert schedule.start() is Trigger.CHANGE
    schedule.succeeded()
    schedule.request(Trigger.CHANGE)
    assert schedule.start() is Trigger.CHANGE
    assert schedule.failed() == FIRST_RETRY_SECONDS


def test_a_registration_ends_the_back_off() -> None:
    _, schedule, wakes = made()
    schedule.start()
    schedule.failed()
    schedule.registered()
    assert len(wakes) == 1
    assert schedule.start() is Trigger.REGISTRATION


def test_a_change_is_not_forgotten_if_the_step_fails() -> None:
    clock, schedule, _ = made()
    schedule.start()
    schedule.request(Trigger.CHANGE)
    assert schedule.start() is Trigger.CHANGE
    clock.advance(schedule.failed())
    assert schedule.start() is Trigger.CHANGE


def test_after_a_registration_a_request_is_not_kept_waiting_by_an_earlier_failure() -> None:
    clock, schedule, _ = made()
    for _attempt in range(5):
        schedule.start()
        pause = schedule.failed()
        clock.advance(pause)
    schedule.start()
    schedule.failed()
    schedule.registered()
    assert schedule.start() is Trigger.REGISTRATION
    schedule.request(Trigger.CHANGE, 0.2)
    assert schedule.next_due() == clock.monotonic() + 0.2


def test_plugins_of_different_nodes_that_fail_together_try_again_at_different_times() -> None:
    pauses = []
    for number in range(100):
        schedule = Schedule(VirtualClock(), lambda: None, f"node-{number}")
        schedule.start()
        pauses.append(schedule.failed())
    assert len(set(pauses)) > 90
    assert FIRST_RETRY_SECONDS / 2 <= min(pauses) < max(pauses) <= FIRST_RETRY_SECONDS
