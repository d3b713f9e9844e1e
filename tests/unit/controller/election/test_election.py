"""At most one candidate leads at any moment, whatever their clocks say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.election import Deposed, Election, Fence
from driver.kube.api import LEASES, NAMESPACES, NODES, Unavailable
from memoryapi import MemoryApi
from simulation.clock import VirtualClock


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


def candidate(api: MemoryApi, clock: VirtualClock, name: str, skew: float = 0) -> Election:
    return Election(api, SkewedClock(clock, skew), "lode-system", "lode-controller", name, 15)


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
    clock.advance(5)
    assert not one.leading
    assert not one.step()


def test_a_deposed_leader_cannot_write_but_read() -> None:
    api, clock = world()
    one = candidate(api, clock, "one")
    fence = Fence(api, one)
    with pytest.raises(Deposed):
        fence.create(NODES, {"metadata": {"name": "n"}})
    one.step()
    node = fence.create(NODES, {"metadata": {"name": "n"}})
    clock.advance(11)
    for write in (
        lambda: fence.create(NODES, {"metadata": {"name": "m"}}),
        lambda: fence.update(NODES, node),
        lambda: fence.patch(NODES, "n", {}),
        lambda: fence.delete(NODES, "n"),
    ):
        with pytest.raises(Deposed):
            write()
    assert fence.get(NODES, "n")["metadata"]["name"] == "n"
    assert [item["metadata"]["name"] for item in fence.list(NODES).items] == ["n"]


Moves = st.lists(st.tuples(st.sampled_from(["one", "two", "three", "release"]), st.floats(0, 8)), max_size=60)


@settings(max_examples=60)
@given(Moves, st.floats(-100, 100), st.floats(-100, 100))
def test_never_do_two_lead(moves: list[tuple[str, float]], skew: float, other: float) -> None:
    api, clock = world()
    candidates = {
        "one": candidate(api, clock, "one"),
        "two": candidate(api, clock, "two", skew),
        "three": candidate(api, clock, "three", other),
    }
    for who, pause in moves:
        clock.advance(pause)
        if who == "release":
            for one in candidates.values():
                if one.leading:
                    one.release()
        else:
            candidates[who].step()
        assert sum(one.leading for one in candidates.values()) <= 1
