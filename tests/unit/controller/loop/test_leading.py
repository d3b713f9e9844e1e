"""Only the leader writes, and a new leader has seen everything before its first write."""

from typing import Any

import pytest

from controller.worker.writes_in_flight import WritesInFlight
from controller.writing import WriteSequence
from driver.kube.api import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, ApiCall, Unavailable
from driver.kube.reflector import Upserted
from tests.unit.controller.loop.replica import LEASE_SECONDS, LONGEST_WRITE_SECONDS, world_of_two
from tests.unit.controller.loop.world import ControllerWorld


def is_ready(world: ControllerWorld) -> bool:
    return world.controller.ready


def test_nothing_is_decided_before_every_kind_has_been_listed() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")
    for reflector in world.controller.reflectors[:-1]:
        reflector.step()
        assert not world.controller.step()
    assert not is_ready(world)
    assert world.controller.next_due() is None
    world.controller.reflectors[-1].step()
    assert is_ready(world)
    assert world.controller.step()


def test_a_standby_decides_nothing_but_knows_everything() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.controller.follow()
    world.settle(10)
    assert is_ready(world)
    assert world.devices("a") == []
    world.controller.lead(1)
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]


def test_a_standby_takes_over_without_listing_anything_but_the_claims() -> None:
    world, old, new = world_of_two(cards=1)
    old.election.step()
    old.work()
    new.election.step()
    new.work()
    old.election.release()
    world.clock.advance(1)
    new.election.step()
    world.add_claim("a")
    world.add_pod("p", "a")
    new.network.listed.clear()
    new.work()
    assert world.devices("a") == ["n1/gpu-0"]
    assert RESOURCE_CLAIMS in new.network.listed
    assert not {PODS, NODES, RESOURCE_SLICES, DEVICE_CLASSES} & set(new.network.listed)


def test_a_deposed_leader_stops_before_its_next_write_and_the_new_one_sees_what_it_did() -> None:
    world, old, new = world_of_two(cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    assert old.election.step()
    old.follow_election()
    old.observe()
    world.add_claim("b")
    world.add_pod("q", "b")
    assert not new.election.step()
    world.clock.advance(LEASE_SECONDS + 1)
    assert new.election.step()
    new.elect(LONGEST_WRITE_SECONDS + 3)
    new.work()
    assert world.devices("a") == ["n1/gpu-0"]
    before = world.claim("a")
    old.controller.step()
    while old.writes.step():
        pass
    assert world.claim("a") == before
    world.check()


def allocates(call: ApiCall) -> bool:
    return call.resource == RESOURCE_CLAIMS and call.subresource == "status"


def test_a_write_of_a_leader_that_died_takes_effect_before_the_next_leader_decides() -> None:
    world, old, new = world_of_two(cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    old.election.step()
    new.election.step()
    old.network.loses = allocates
    old.work()
    (arrive,) = old.network.late
    world.remove_pod("p")
    world.add_claim("b")
    world.add_pod("q", "b")
    new.elect(LEASE_SECONDS + 1)
    assert new.election.leading
    new.work_on(LEASE_SECONDS * 2 / 3 + LONGEST_WRITE_SECONDS - LEASE_SECONDS - 3)
    assert world.devices("b") == [], "a write of the old leader may still arrive"
    arrive()
    new.work_on(5)
    assert new.election.term is not None
    assert (world.devices("a"), world.devices("b")) == (["n1/gpu-0"], [])


def test_a_new_leader_knows_what_was_written_although_its_watch_of_claims_lags_behind() -> None:
    world, old, new = world_of_two(cards=1)
    world.add_claim("a")
    world.add_claim("b")
    world.add_pod("p", "a")
    new.observe()
    old.election.step()
    old.work()
    old.election.release()
    world.clock.advance(1)
    new.election.step()
    world.api.delete(PODS, "p", "default", grace_period_seconds=0)
    world.add_pod("q", "b")
    for reflector in new.controller.reflectors:
        if reflector.resource == PODS:
            reflector.step()
    new.work(watching=False)
    assert (world.devices("a"), world.devices("b")) == (["n1/gpu-0"], [])


def test_a_lease_that_lapses_during_a_write_and_is_renewed_leaves_a_leader_that_works() -> None:
    world, leader, _ = world_of_two()
    leader.election.step()
    leader.work()
    world.add_claim("a")
    world.add_pod("p", "a")
    leader.observe()
    world.clock.advance(10.5)
    while leader.controller.step():
        """The pod is decided before anybody notices that the lease has lapsed."""
    assert leader.writes.step()
    assert world.devices("a") == []
    assert leader.election.step()
    leader.work_on(LONGEST_WRITE_SECONDS + 6)
    assert world.devices("a") == ["n1/gpu-0"]
    assert world.gates("p") == []


def test_what_comes_of_an_earlier_term_is_not_taken_for_a_write_of_the_next() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.latency = lambda sequence, result: 5 if result is not None and sequence.subject[0] == "pod" else 0
    world.settle(1)
    assert world.gates("p") == [], "every write is made, and the last answer is on its way"
    world.terms.term = 2
    world.controller.lead(2)
    world.settle(10)
    assert world.devices("a") == ["n1/gpu-0"]
    assert not world.controller.in_doubt


def test_what_was_decided_before_a_stop_is_not_written_in_a_later_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Lease was lost and won again while the process stood still between a decision and its submission."""
    world = ControllerWorld(nodes=1, cards=1)
    world.settle(2)
    for name in "ab":
        world.add_claim(name)
    world.add_pod("p", "a")
    submit = WritesInFlight.submit
    stopped: list[WriteSequence] = []

    def stop_first(self: WritesInFlight, sequence: WriteSequence, *more: Any) -> Any:
        if not stopped:
            stopped.append(sequence)
            world.terms.term = 2
        return submit(self, sequence, *more)

    monkeypatch.setattr(WritesInFlight, "submit", stop_first)
    while not stopped:
        world.observe()
        assert world.controller.step() or world.writes.step()
    while world.writes.step():
        pass
    assert world.devices("a") == []
    assert not any(call.startswith("patch") for call in world.meddler.calls)
    world.controller.lead(2)
    world.settle(5)
    assert world.devices("a") == ["n1/gpu-0"], "it is decided anew"


def test_a_new_start_counts_what_the_last_one_gave_out() -> None:
    world = ControllerWorld(cards=2)
    for name in "ab":
        world.add_claim(name)
    world.add_pod("p", "a")
    world.settle()
    counted = world.controller.state.devices.ledger.usage_snapshot()
    world.start()
    world.add_pod("q", "b")
    world.observe()
    assert world.controller.state.devices.ledger.usage_snapshot() == counted
    world.settle()
    assert world.devices("b") == ["n1/gpu-1"]


def test_what_is_in_use_is_shown_by_claim_also_while_the_answer_to_its_write_is_lost() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")

    def lose(what: str, _: Any) -> None:
        if what == "patch resourceclaims/status":
            raise Unavailable("no answer")

    world.meddler.before = lose
    world.settle(1)
    assert world.devices("a") == []
    assert world.controller.state.devices_in_use() == {"n1/lode.dev/gpu-0/": "default/a"}
    assert world.controller.in_doubt
    world.meddler.before = None
    world.settle(10)
    assert world.controller.state.devices_in_use() == {"n1/lode.dev/gpu-0/": "default/a"}
    assert not world.controller.in_doubt


def test_an_unreadable_object_does_not_keep_others_from_being_served() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.observe()
    metadata = {"name": "x", "namespace": "default", "uid": "x", "resourceVersion": "9999"}
    broken = {"metadata": metadata, "spec": {"devices": {"requests": [{"exactly": {}}]}}}
    world.controller.handle(world.controller.state.decode(Upserted(RESOURCE_CLAIMS, broken)))
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]
