"""Pods are served by priority, then age, and a stream of small pods does not starve a large one."""

from typing import Any

import pytest

from driver.kube.api import NODES, PODS
from tests.unit.controller.loop.world import GATE, ControllerWorld


def waiting(*pods: tuple[str, int], nodes: int = 1, cards: int = 1, **settings: Any) -> ControllerWorld:
    """All cards are held by ``run0``, ``run1``, ...; then these pods come, one after the other, for a card each."""
    world = ControllerWorld(nodes=nodes, cards=cards, **settings)
    for number in range(nodes * cards):
        world.add_claim(f"c-run{number}")
        world.add_pod(f"run{number}", f"c-run{number}", cpu="100m")
    world.settle()
    for number in range(nodes * cards):
        world.bind(f"run{number}", world.devices(f"c-run{number}")[0].split("/")[0])
    for name, priority in pods:
        world.add_claim(f"c-{name}")
        world.add_pod(name, f"c-{name}", priority=priority, cpu="100m")
        world.settle(1)
        assert world.gates(name) == [GATE]
    return world


def served(world: ControllerWorld, *pods: str) -> list[str]:
    return [name for name in pods if world.devices(f"c-{name}")]


def test_a_freed_card_goes_to_the_highest_priority_then_to_the_oldest() -> None:
    world = waiting(("low", 0), ("old", 5), ("young", 5), ("urgent", 1_000_000), cards=4)
    for number, expected in enumerate((["urgent"], ["urgent", "old"], ["urgent", "old", "young"])):
        world.remove_pod(f"run{number}")
        world.settle()
        assert sorted(served(world, "urgent", "old", "young", "low")) == sorted(expected)


def test_of_pods_that_are_new_the_highest_priority_is_served_first() -> None:
    world = ControllerWorld(cards=1)
    for name, priority in (("low", 0), ("high", 1)):
        world.add_claim(f"c-{name}")
        world.add_pod(name, f"c-{name}", priority=priority)
    world.settle()
    assert served(world, "low", "high") == ["high"]


def test_only_as_many_pods_are_let_go_as_devices_were_freed_in_one_moment() -> None:
    world = waiting(*[(f"w{number}", 0) for number in range(5)], cards=3)
    for number in range(3):
        world.remove_pod(f"run{number}")
    world.settle()
    assert served(world, *[f"w{number}" for number in range(5)]) == ["w0", "w1", "w2"]


def test_a_pod_without_its_claim_keeps_no_place() -> None:
    """It is as old as its claim, also for a controller that starts later."""
    world = waiting(nodes=1, cards=1)
    world.add_pod("early", "c-early", cpu="100m")
    world.settle(5)
    world.add_claim("c-waits")
    world.add_pod("waits", "c-waits", cpu="100m")
    world.settle(5)
    world.add_claim("c-early")
    world.settle(5)
    world.start()
    world.settle(1)
    world.remove_pod("run0")
    world.settle(5)
    assert served(world, "early", "waits") == ["waits"]


QUEUE = "queue.example/admission"


def admit(world: ControllerWorld, name: str) -> None:
    """A queue removes its gate."""
    pod = world.pod(name)
    pod["spec"]["schedulingGates"] = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != QUEUE]
    world.api.update(PODS, pod)


def add_held(world: ControllerWorld, name: str) -> None:
    world.add_claim(f"c-{name}")
    world.add_pod(name, f"c-{name}", cpu="100m", gates=(GATE, QUEUE))
    world.settle(2)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pod_that_a_gate_of_others_holds_keeps_no_place(restarted: bool) -> None:
    """Who waits since before it could be served comes first, who comes later goes after it."""
    world = waiting(nodes=1, cards=1)
    add_held(world, "held")
    add_held(world, "opened")
    for name in ("before", "after"):
        world.add_claim(f"c-{name}")
        world.add_pod(name, f"c-{name}", cpu="100m")
        world.settle(2)
        if name == "before":
            admit(world, "opened")
            world.settle(2)
    if restarted:
        world.start()
        world.settle(1)
    previous = "run0"
    for expected in ("before", "opened", "after"):
        world.remove_pod(previous)
        world.settle(5)
        assert served(world, "held", "opened", "before", "after") == [expected]
        previous = expected
    world.remove_pod("after")
    world.settle(5)
    assert served(world, "held") == []
    admit(world, "held")
    world.settle(5)
    assert served(world, "held") == ["held"]


def test_of_pods_that_a_queue_admits_at_once_the_oldest_comes_first() -> None:
    world = waiting(nodes=1, cards=1)
    for name in ("z-first", "a-second"):
        add_held(world, name)
    for name in ("a-second", "z-first"):
        admit(world, name)
    world.settle(5)
    world.remove_pod("run0")
    world.settle(5)
    assert served(world, "z-first", "a-second") == ["z-first"]


class Stream:
    """Small pods, each with one card for ten seconds; one comes every second."""

    def __init__(self, world: ControllerWorld):
        self.world = world
        self.bound: dict[str, float] = {}
        self.number = 0

    def second(self) -> None:
        world = self.world
        for name, since in list(self.bound.items()):
            if world.clock.monotonic() - since >= 10:
                world.remove_pod(name)
                del self.bound[name]
        name = f"s{self.number}"
        self.number += 1
        world.add_claim(f"c-{name}")
        world.add_pod(name, f"c-{name}", cpu="10m")
        world.settle(1)
        for pod in world.api.list(PODS).items:
            name = pod["metadata"]["name"]
            if name.startswith("s") and not world.gates(name) and not pod["spec"].get("nodeName"):
                world.bind(name, world.devices(f"c-{name}")[0].split("/")[0])
                self.bound[name] = world.clock.monotonic()


def test_a_stream_of_small_pods_does_not_starve_a_large_one() -> None:
    world = ControllerWorld(nodes=2, cards=4, hold={"afterSeconds": 30})
    stream = Stream(world)
    for _ in range(15):
        stream.second()
    world.add_claim("c-large", count=4)
    world.add_pod("large", "c-large", cpu="10m")
    seconds = 0
    while not world.devices("c-large") and seconds < 60:
        stream.second()
        seconds += 1
    assert 30 <= seconds < 45, "ten seconds after a node was held back, all pods on it have ended"
    assert len(set(world.devices("c-large"))) == 4
    assert stream.bound, "the other node went on serving small pods"


def test_a_pod_for_which_no_more_nodes_were_held_gets_one_when_another_hold_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.waiting.held.MOST_HELD", 1)
    world = ControllerWorld(nodes=1, cards=10, hold={"afterSeconds": 30})
    stream = Stream(world)
    for _ in range(15):
        stream.second()
    for name, cpu in (("first", "10m"), ("second", "20m")):
        world.add_claim(f"c-{name}", count=10)
        world.add_pod(name, f"c-{name}", cpu=cpu)
    for _ in range(33):
        stream.second()
    world.remove_pod("first")
    seconds = 0
    while not world.devices("c-second"):
        stream.second()
        seconds += 1
        assert seconds < 30


def holding_a_node_for(cpu: str) -> ControllerWorld:
    """The node has two cards; ``run`` holds one, and the node is held back for ``large``, which wants both."""
    world = ControllerWorld(nodes=1, cards=2, hold={"afterSeconds": 30})
    world.add_claim("c-run")
    world.add_pod("run", "c-run", cpu="10m")
    world.settle()
    world.bind("run", "n1")
    world.add_claim("c-large", count=2)
    world.add_pod("large", "c-large", cpu=cpu)
    world.settle(31)
    return world


def add_small(world: ControllerWorld, name: str, priority: int = 0) -> None:
    world.add_claim(f"c-{name}")
    world.add_pod(name, f"c-{name}", cpu="10m", priority=priority)
    world.settle(1)


def test_small_pods_of_higher_priority_pass_a_held_node() -> None:
    world = holding_a_node_for(cpu="10m")
    add_small(world, "later")
    add_small(world, "urgent", priority=1)
    assert served(world, "later", "urgent", "large") == ["urgent"]
    assert "held back for pod default/large, which comes first" in world.condition("later")[2]
    world.bind("urgent", "n1")
    world.remove_pod("large")
    world.remove_pod("urgent")
    world.settle(1)
    assert served(world, "later") == ["later"], "the pod that the node was held for is gone"


def test_a_node_that_can_no_longer_take_the_pod_is_not_held_any_more() -> None:
    world = holding_a_node_for(cpu="8")
    node = world.api.get(NODES, "n1")
    node["status"]["allocatable"]["cpu"] = "4"
    world.api.update(NODES, node, "status")
    world.settle(1)
    add_small(world, "later")
    assert served(world, "later") == ["later"]


def test_a_pod_with_preemption_victims_keeps_its_devices_until_they_have_ended() -> None:
    world = ControllerWorld(nodes=2, cards=1)
    world.add_pod("victim", gates=(), cpu="6", priority=-5)
    world.bind("victim", "n1")
    world.add_claim("a")
    world.add_pod("p", "a", priority=5, cpu="1")
    world.settle()
    assert world.devices("a") == ["n1/gpu-0"]
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    patch = {"status": {"conditions": [disrupted]}}
    world.api.patch(PODS, "victim", patch, namespace="default", subresource="status", patch_type="strategic")
    world.refuse("p", "0/2 nodes are available: 1 Insufficient example.com/x, 1 cannot allocate all claims.")
    world.settle(300)
    assert world.devices("a") == ["n1/gpu-0"]
    world.api.delete(PODS, "victim", "default", grace_period_seconds=0)
    world.settle(2)
    assert world.devices("a") == ["n1/gpu-0"], "kube-scheduler gets the time to bind it"
    world.bind("p", "n1")
    world.settle(60)
    assert world.devices("a") == ["n1/gpu-0"]


# Pods that name their node


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"unschedulable": True}, "the node is unschedulable"),
        ({"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}, "node taint team=b:NoSchedule"),
        ({"taints": [{"key": "team", "value": "b", "effect": "NoExecute"}]}, "node taint team=b:NoExecute"),
    ],
)
def test_a_pod_that_names_a_closed_node_waits_until_it_is_open(spec: dict[str, Any], why: str) -> None:
    world = ControllerWorld(nodes=1, cards=2)
    world.add_claim("c-before")
    world.add_pod("before", "c-before", gates=(), nodeName="n1")
    world.settle(1)
    world.api.patch(NODES, "n1", {"spec": spec})
    world.add_claim("c-late")
    world.add_pod("late", "c-late", gates=(), nodeName="n1")
    world.settle(60)
    assert served(world, "before", "late") == ["before"], "who has devices keeps them"
    assert world.condition("late")[1] == "BoundWithoutDevices"
    assert why in world.condition("late")[2]
    world.api.patch(NODES, "n1", {"spec": {"unschedulable": None, "taints": None}})
    world.settle(5)
    assert served(world, "late") == ["late"]


def test_a_pod_that_tolerates_the_taint_of_the_node_that_it_names_gets_its_devices() -> None:
    world = ControllerWorld(nodes=1, cards=1)
    world.api.patch(NODES, "n1", {"spec": {"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}})
    world.add_claim("c-p")
    world.add_pod("p", "c-p", gates=(), nodeName="n1", tolerations=[{"key": "team", "operator": "Exists"}])
    world.settle(1)
    assert served(world, "p") == ["p"]


def test_a_pod_that_names_a_held_node_does_not_get_past_the_hold() -> None:
    world = holding_a_node_for(cpu="10m")
    world.add_claim("c-later")
    world.add_pod("later", "c-later", gates=(), cpu="10m", nodeName="n1")
    world.settle(5)
    assert served(world, "later") == []
    assert "held back for pod default/large, which comes first" in world.condition("later")[2]
    world.remove_pod("large")
    world.settle(5)
    assert served(world, "later") == ["later"]
