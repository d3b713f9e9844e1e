"""Only the leader writes, and a new leader has seen everything before its first write."""

from typing import Any

from controller.election import Election, Fence
from controller.loop import Controller
from controller.state.decoding import Decoder
from driver.kube.api import NAMESPACES, RESOURCE_CLAIMS, Unavailable
from driver.kube.reflector import Upserted
from driver.observe import Metrics, logger
from tests.unit.controller.loop.world import World


def replica(world: World, name: str) -> tuple[Controller, Election]:
    election = Election(world.api, world.clock, "lode-system", "lode-controller", name, 15)
    fence = Fence(world.api, election)
    controller = Controller(fence, world.clock, world.settings, Metrics(), logger(name), name)
    controller.pause()
    return controller, election


def is_ready(world: World) -> bool:
    return world.controller.ready


def drive(controller: Controller) -> None:
    for _ in range(200):
        for reflector in controller.reflectors:
            reflector.step()
        if not controller.step():
            return


def test_nothing_is_decided_before_every_kind_has_been_listed() -> None:
    world = World()
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


def test_a_paused_controller_does_nothing() -> None:
    world = World()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.controller.pause()
    world.settle(10)
    assert world.devices("a") == []
    world.controller.resume()
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]


def test_a_deposed_leader_stops_before_its_next_write_and_the_new_one_sees_what_it_did() -> None:
    world = World(cards=1)
    world.api.create(NAMESPACES, {"metadata": {"name": "lode-system"}})
    world.add_claim("a")
    world.add_pod("p", "a")
    (old, lease), (new, other) = replica(world, "old"), replica(world, "new")
    assert lease.step()
    old.resume()
    for reflector in old.reflectors:
        reflector.step()
    world.add_claim("b")
    world.add_pod("q", "b")
    assert not other.step()
    world.clock.advance(16)
    assert other.step()
    new.resume()
    drive(new)
    assert world.devices("a") == ["n1/gpu-0"]
    before = world.claim("a")
    assert not old.step()
    assert world.claim("a") == before
    world.check()


def test_what_an_old_reflector_still_says_is_not_heard_after_a_new_start() -> None:
    world = World()
    stale = world.controller.reflectors
    world.controller.resume()
    for reflector in stale:
        reflector.step()
    assert not is_ready(world)


def test_a_new_start_counts_what_the_last_one_gave_out() -> None:
    world = World(cards=2)
    for name in "ab":
        world.add_claim(name)
    world.add_pod("p", "a")
    world.settle()
    counted = world.controller.usage_snapshot()
    world.start()
    world.add_pod("q", "b")
    world.observe()
    assert world.controller.usage_snapshot() == counted
    world.settle()
    assert world.devices("b") == ["n1/gpu-1"]


def test_what_is_in_use_is_shown_by_claim_and_so_is_a_write_whose_answer_was_lost() -> None:
    world = World()
    claim = world.add_claim("a")
    world.add_pod("p", "a")

    def lose(what: str, _: Any) -> None:
        if what in ("update resourceclaims/status", "get resourceclaims"):
            raise Unavailable("no answer")

    world.meddler.before = lose
    world.settle(1)
    assert world.controller.in_use() == {"n1/lode.dev/gpu-0/": claim["metadata"]["uid"]}
    world.meddler.before = None
    world.settle(10)
    assert world.controller.in_use() == {"n1/lode.dev/gpu-0/": "default/a"}


def test_an_unreadable_object_does_not_keep_others_from_being_served() -> None:
    world = World()
    world.add_claim("a")
    world.add_pod("p", "a")
    world.observe()
    metadata = {"name": "x", "namespace": "default", "uid": "x", "resourceVersion": "9999"}
    broken = {"metadata": metadata, "spec": {"devices": {"requests": [{"exactly": {}}]}}}
    world.controller.handle(Decoder(world.settings.names, "").delta(Upserted(RESOURCE_CLAIMS, broken)))
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]
