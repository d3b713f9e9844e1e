"""Gangs that wait for room: they are not starved, and what is held back for them does not lie idle."""

from typing import Any

import pytest

from controller.loop import gangsync
from driver.kube.api import NODES, RESOURCE_CLAIMS
from tests.unit.controller.loop.busy import HOLD_AFTER
from tests.unit.controller.loop.gangworld import GangWorld


def test_a_gang_that_waits_keeps_no_single_pod_of_its_shape_waiting() -> None:
    world = GangWorld(a=1)
    world.add_claim("busy", 2)
    world.add_pod("busy", "busy")
    world.settle(5)
    pods = world.add_gang("train", 4)
    world.clock.advance(5)
    world.add_claim("small")
    world.add_pod("small", "small")
    world.settle(5)
    world.remove_pod("busy")
    world.settle(5)
    assert world.devices("small"), "the gang, which came first, cannot use the card"
    world.check_gang(*pods, minimum=4)


def test_a_stream_of_small_pods_does_not_starve_a_gang() -> None:
    world = GangWorld(a=2, settings={"hold": {"afterSeconds": 60}})
    for number in range(4):
        world.add_claim(f"old-{number}")
        world.add_pod(f"old-{number}", f"old-{number}")
    world.settle(5)
    pods = world.add_gang("train", 4)
    world.settle(90)
    for number in range(4):
        world.add_claim(f"new-{number}")
        world.add_pod(f"new-{number}", f"new-{number}")
        world.settle(5)
        world.remove_pod(f"old-{number}")
        world.settle(5)
    assert len(world.let_go(*pods)) == 4
    assert [world.devices(f"new-{number}") for number in range(4)] == [[]] * 4


def test_nothing_is_held_back_for_a_gang_that_could_never_start() -> None:
    world = GangWorld(a=1, settings={"hold": {"afterSeconds": 60}})
    world.add_gang("train", 4)
    world.settle(90)
    world.add_claim("small")
    world.add_pod("small", "small")
    world.settle(5)
    assert world.devices("small")


def test_nodes_are_held_back_no_longer_than_the_gang_exists() -> None:
    world = GangWorld(a=2, settings={"hold": {"afterSeconds": 60}})
    world.add_claim("busy")
    world.add_pod("busy", "busy")
    world.settle(5)
    pods = world.add_gang("train", 4)
    world.settle(90)
    world.add_claim("small")
    world.add_pod("small", "small")
    world.settle(5)
    assert not world.devices("small")
    assert "held back for gang default/train" in world.condition("small")[2]
    for pod in pods:
        world.remove_pod(pod)
    world.settle(5)
    assert world.devices("small")


# Searches that end before everything was tried


@pytest.mark.parametrize(("sizes", "fits"), [((6, 5, 5), True), ((7, 5, 4), False)])
def test_a_gang_that_is_not_decided_is_tried_until_it_is(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], fits: bool
) -> None:
    """6, 5 and 5 cards fit on nodes with 10 and 6, but not the way that is tried first. 7, 5 and 4 do not."""
    monkeypatch.setattr(gangsync, "STEPS", 0)
    world = packing(10, 6)
    pods = [world.add_gang("train", 1, len(sizes), number, size)[0] for number, size in enumerate(sizes)]
    while not world.condition(pods[0])[2]:
        world.settle(0.1)
    assert world.let_go(*pods) == []
    assert f"whether {len(sizes)} members fit in a is not decided yet" in world.condition(pods[0])[2]
    world.settle(700)
    world.check_gang(*pods, minimum=len(sizes))
    assert world.let_go(*pods) == (pods if fits else [])
    if not fits:
        assert "members fit in a (they do not fit together)" in world.condition(pods[0])[2]


def test_a_gang_is_decided_although_one_decision_has_far_too_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """To place it takes about two thousand steps."""
    monkeypatch.setattr(gangsync, "STEPS", 10)
    world = packing(18, 16, 16, 15, 15)
    sizes = (5, 7, 6, 7, 3, 5, 7, 7, 8, 3, 8, 6, 4, 4)
    pods = [world.add_gang("train", 1, len(sizes), number, size)[0] for number, size in enumerate(sizes)]
    world.settle(300)
    assert world.let_go(*pods) == []
    world.settle(3600)
    assert world.let_go(*pods) == pods


def packing(*cards: int) -> GangWorld:
    """One fabric, of nodes with so many cards, and a node with one card in another one."""
    world = GangWorld()
    for number, some in enumerate(cards, start=1):
        world.add_node(f"a{number}", some)
        world.label(f"a{number}", "a")
    world.add_node("b1", 1)
    world.label("b1", "b")
    return world


# How long, and for whom


class Greedy(GangWorld):
    """On each of four nodes a service uses one of four cards for ever. A gang wants all 16 cards."""

    def __init__(self, **hold: Any):
        super().__init__(cards=4, settings={"hold": {"afterSeconds": HOLD_AFTER, **hold}}, a=4)
        for number in range(1, 5):
            self.api.patch(NODES, f"a{number}", {"metadata": {"labels": {"host": f"a{number}"}}})
            self.service(f"old-{number}", nodeSelector={"host": f"a{number}"})
        self.settle(5)
        self.bind_all()
        self.gang = self.add_gang("greedy", 4, size=4, cpu="100m")
        self.settle(HOLD_AFTER + 5)

    def service(self, name: str, **spec: Any) -> str:
        self.add_claim(name)
        self.add_pod(name, name, cpu="100m", **spec)
        return name

    def held(self) -> list[str]:
        return sorted(node for held in self.controller.held_domains for node in held.nodes)


def test_a_gang_that_cannot_start_keeps_idle_cards_from_others_for_a_bounded_time() -> None:
    world = Greedy(forSeconds=1000, pauseSeconds=500)
    assert world.held() == ["a1", "a2", "a3", "a4"]
    new = [world.service(f"new-{number}") for number in range(8)]
    world.settle(900)
    assert world.let_go(*new) == []
    world.settle(100)
    assert world.let_go(*new) == new
    world.check_gang(*world.gang, minimum=4)


def test_after_the_pause_others_have_their_hold_and_then_the_gang_again() -> None:
    world = Greedy(forSeconds=1000, pauseSeconds=500)
    world.settle(1000)
    assert world.held() == [], "others are served"
    world.settle(600)
    assert world.held() == [], "the namespace waits for two pauses"
    world.settle(500)
    assert len(world.held()) == 4


def test_nothing_is_held_back_if_that_is_turned_off() -> None:
    assert Greedy(enabled=False).held() == []


def test_a_gang_without_devices_holds_nothing_back() -> None:
    world = GangWorld(a=2, settings={"hold": {"afterSeconds": HOLD_AFTER}})
    for number in (1, 2):
        world.add_pod(f"web-{number}", gates=(), cpu="6")
        world.bind(f"web-{number}", f"a{number}")
    gang = [f"hog-{number}" for number in range(2)]
    for name in gang:
        world.add_pod(name, cpu="6", labels={"lode.dev/gang": "hog"}, annotations={})
    world.settle(HOLD_AFTER + 30)
    assert list(world.controller.held_domains) == []
    world.add_claim("small")
    world.add_pod("small", "small", cpu="100m")
    world.settle(5)
    assert world.devices("small")


def test_only_the_nodes_of_members_with_devices_are_held_back() -> None:
    world = GangWorld(a=1, b=1, settings={"hold": {"afterSeconds": HOLD_AFTER}})
    world.add_claim("busy")
    world.add_pod("busy", "busy", cpu="6", nodeSelector={"fabric": "a"})
    world.settle(5)
    world.bind("busy", "a1")
    group: dict[str, Any] = {
        "labels": {"kueue.x-k8s.io/pod-group-name": "train", "lode.dev/gang": ""},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    world.add_claim("train-0", 2)
    world.add_pod("train-0", "train-0", cpu="6", nodeSelector={"fabric": "a"}, **group)
    world.add_pod("train-1", cpu="1", nodeSelector={"fabric": "b"}, **group)
    world.settle(HOLD_AFTER + 30)
    (held,) = world.controller.held_domains
    assert [sorted(held.nodes), sorted(held.nodes_without_devices)] == [["a1"], ["b1"]]


# How old a gang is


def late_gang(*, anchor: bool) -> tuple[GangWorld, tuple[str, ...]]:
    """A card on each of two nodes is in use, a pod for one waits, and later a gang comes of which one pod is older."""
    world = GangWorld(a=1)
    for number in range(2):
        world.add_claim(f"busy-{number}")
        world.add_pod(f"busy-{number}", f"busy-{number}", cpu="100m")
    world.settle(2)
    world.bind_all()
    if anchor:
        world.add_pod("train-9", gates=(), labels={"lode.dev/gang": "train"}, nodeName="a1", cpu="1m")
    else:
        world.add_gang("train", 1, minimum=2)
    world.settle(20)
    world.add_claim("waits")
    world.add_pod("waits", "waits", cpu="100m")
    world.settle(5)
    return world, world.add_gang("train", 1, minimum=2, first=1)


def test_a_gang_is_as_old_as_the_member_that_completes_its_minimum() -> None:
    world, _ = late_gang(anchor=False)
    world.settle(5)
    for number in range(2):
        world.remove_pod(f"busy-{number}")
    world.settle(5)
    assert world.devices("waits"), "the first member of the gang kept no place for it"


def test_a_bound_member_without_devices_gives_a_gang_no_precedence() -> None:
    world, _ = late_gang(anchor=True)
    world.settle(5)
    world.remove_pod("busy-0")
    world.settle(5)
    assert world.devices("waits")


def test_a_gang_that_becomes_incomplete_does_not_escape_the_pause() -> None:
    world = Greedy(forSeconds=1000, pauseSeconds=500)
    world.settle(800)
    world.remove_pod(world.gang[3])
    world.settle(5)
    assert world.held() == []
    world.api.delete(RESOURCE_CLAIMS, world.gang[3], "default")
    world.add_gang("greedy", 1, size=4, minimum=4, first=3, cpu="100m")
    world.settle(2 * HOLD_AFTER)
    assert world.held() == [], "four fifths of two pauses"
    world.settle(800)
    assert len(world.held()) == 4
