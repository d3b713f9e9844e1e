"""At most one candidate leads at any moment, whatever their clocks say."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.election import Election, LeaseTerms
from driver.kube.api import LEASES, NAMESPACES, Api, ApiCall, Unavailable
from driver.kube.decorator import ApiDecorator
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock

T = TypeVar("T")


class SkewedClock:
    """A machine whose clock is wrong, and which may be paused."""

    def __init__(self, truth: VirtualClock, skew: float):
        self._truth = truth
        self._skew = skew

    def now(self) -> float:
        return self._truth.now() + self._skew

    def monotonic(self) -> float:
        return self._truth.monotonic() + self._skew

    def sleep(self, seconds: float) -> None:
        self._truth.sleep(seconds)


TERMS = LeaseTerms("lode-system", "lode-controller", 15, 10)


def candidate(api: Api, clock: VirtualClock, name: str, skew: float = 0) -> Election:
    return Election(api, SkewedClock(clock, skew), TERMS, name)


def world() -> tuple[MemoryApi, VirtualClock]:
    clock = VirtualClock()
    api = MemoryApi(clock)
    api.create(NAMESPACES, {"metadata": {"name": "lode-system"}})
    return api, clock


def test_the_first_candidate_leads_and_the_second_waits() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    assert one.step()
    for _ in range(20):
        clock.advance(3)
        assert one.step()
        assert not two.step()
        assert (one.silent_seconds, two.silent_seconds) == (0, 0)
    assert api.get(LEASES, "lode-controller", "lode-system")["spec"]["holderIdentity"] == "one"


def test_a_silent_leader_is_followed_after_the_lease_time_and_not_sooner() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    one.step()
    two.step()
    clock.advance(14)
    assert not two.step()
    assert not one.leading, "a leader gives up before others may take over"
    clock.advance(2)
    assert two.step()
    assert not one.step()
    assert api.get(LEASES, "lode-controller", "lode-system")["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("skew", [-3600.0, -20.0, 20.0, 3600.0])
def test_a_wrong_clock_gives_nobody_an_advantage(skew: float) -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two", skew)
    for _ in range(20):
        assert one.step()
        assert not two.step()
        clock.advance(3)


def test_a_released_lease_is_taken_at_once() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    one.step()
    assert not two.step()
    one.release()
    assert not one.leading
    clock.advance(1)
    assert two.step()


def test_release_without_leading_changes_nothing() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    one.step()
    two.release()
    assert one.step()


class Silent:
    """An API that does not answer."""

    def __getattr__(self, name: str) -> object:
        def fail(*_: object, **__: object) -> object:
            raise Unavailable("no answer")

        return fail


def test_a_leader_without_an_api_stops_leading_by_itself() -> None:
    api, clock = world()
    one = candidate(api, clock, "one")
    one.step()
    one._api = Silent()  # type: ignore[assignment]
    clock.advance(6)
    assert one.step(), "one failure is no reason to stop"
    assert one.silent_seconds == 6
    clock.advance(5)
    assert not one.leading
    assert not one.step()


class Slow(ApiDecorator):
    """An API whose calls take time, before and after they take effect."""

    def __init__(self, api: MemoryApi, clock: VirtualClock):
        super().__init__(api)
        self._clock = clock
        self.seconds = (0.0, 0.0)

    def around(self, call: ApiCall, proceed: Callable[[], T]) -> T:
        self._clock.advance(self.seconds[0])
        answer = proceed()
        self._clock.advance(self.seconds[1])
        return answer


def test_the_lease_counts_from_the_question() -> None:
    api, clock = world()
    slow = Slow(api, clock)
    one = Election(slow, clock, TERMS, "one")
    assert one.step()
    slow.seconds = (0, 6)
    assert not one.step(), "two calls took 12 s of the 10 s for which a renewal counts"
    assert one.term is None


def test_a_term_begins_when_no_earlier_write_can_take_effect_any_more() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    one.step()
    assert one.term == 1
    two.step()
    clock.advance(15)
    assert two.step()
    assert two.term is None
    clock.advance(4.9)
    assert two.step()
    assert two.term is None
    clock.advance(0.1)
    assert two.term == 1, "one sent nothing after 10 s, and what it sent then has ended by 20 s"


def test_who_takes_over_late_begins_at_once() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    one.step()
    two.step()
    clock.advance(20)
    assert two.step()
    assert two.term == 1


def test_a_lease_that_lapses_and_is_renewed_is_another_term() -> None:
    api, clock = world()
    one = candidate(api, clock, "one")
    one.step()
    clock.advance(10.5)
    assert one.term is None
    assert one.step()
    assert one.term is None, "what was sent before may still take effect"
    clock.advance(6)
    one.step()
    clock.advance(4)
    assert one.term == 2


def test_a_released_lease_begins_a_term_at_once() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    one.step()
    two.step()
    one.release()
    assert two.step()
    assert two.term == 1


def test_a_leader_whose_term_has_not_begun_does_not_release_the_lease() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    one.step()
    two.step()
    clock.advance(15)
    assert two.step()
    two.release()
    assert api.get(LEASES, "lode-controller", "lode-system")["spec"]["holderIdentity"] == "two"


def test_a_lease_deleted_under_its_holder_gives_nobody_a_term_before_the_holder_notices() -> None:
    api, clock = world()
    one, two = candidate(api, clock, "one"), candidate(api, clock, "two")
    one.step()
    two.step()
    api.delete(LEASES, "lode-controller", "lode-system")
    assert two.step()
    assert (one.term, two.term) == (1, None)
    for _ in range(8):
        clock.advance(3)
        two.step()
        assert two.term is None
    clock.advance(1)
    assert two.term == 1


Moves = st.lists(st.tuples(st.sampled_from(["one", "two", "three", "release"]), st.floats(0, 8)), max_size=60)


Latencies = st.lists(st.tuples(st.floats(0, 8), st.floats(0, 8)), min_size=1, max_size=8)


@settings(max_examples=100)
@given(Moves, st.floats(-100, 100), st.floats(-100, 100), Latencies)
def test_never_do_two_lead_and_no_term_begins_while_an_earlier_write_may_take_effect(
    moves: list[tuple[str, float]], skew: float, other: float, latencies: list[tuple[float, float]]
) -> None:
    memory, clock = world()
    api = Slow(memory, clock)
    candidates = {
        "one": candidate(api, clock, "one"),
        "two": candidate(api, clock, "two", skew),
        "three": candidate(api, clock, "three", other),
    }
    could_write: dict[str, float] = {}
    """When each candidate was last seen in a term that it did not end by releasing the lease."""
    for number, (who, pause) in enumerate(moves):
        clock.advance(pause)
        api.seconds = latencies[number % len(latencies)] if who != "release" else (0, 0)
        if who == "release":
            for name, one in candidates.items():
                if one.term is not None:
                    one.release()
                    could_write.pop(name, None)
        else:
            candidates[who].step()
        assert sum(one.leading for one in candidates.values()) <= 1
        for name, one in candidates.items():
            if one.term is not None:
                others = [at for other, at in could_write.items() if other != name]
                assert all(clock.monotonic() >= at + 10 for at in others)
                could_write[name] = clock.monotonic()
