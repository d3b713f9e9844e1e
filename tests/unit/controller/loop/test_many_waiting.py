"""Many waiting pods cost nothing while nothing changes; a change costs one decision for each shape it helps."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.explaining.explainer import Questions
from controller.reconcile import decide
from controller.reporting import REMIND_SECONDS, REWORD_SECONDS
from driver.kube.api import EVENTS, NODES
from tests.unit.controller.loop.world import ControllerWorld

PODS = 300
SHAPES = 3


class Count:
    """Counts calls of a function."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self.calls: list[str] = []

    def __call__(self, state: Any, key: str, *args: Any) -> Any:
        self.calls.append(key)
        return self._function(state, key, *args)


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    counted = Count(decide)
    monkeypatch.setattr("controller.loop.podsync.decide", counted)
    return counted.calls


def crowded(**settings: Any) -> ControllerWorld:
    """Three nodes with a card each, in use; pods of three shapes wait: for a card, for two, and for a lot of CPU."""
    world = ControllerWorld(nodes=3, cards=1, **settings)
    for number in range(3):
        world.add_claim(f"c-run{number}")
        world.add_pod(f"run{number}", f"c-run{number}", cpu="100m")
    world.settle()
    for number in range(3):
        world.bind(f"run{number}", f"n{number + 1}")
    for number in range(PODS):
        shape = number % SHAPES
        world.add_claim(f"c{number}", count=2 if shape == 1 else 1)
        world.add_pod(f"p{number}", f"c{number}", cpu="99" if shape == 2 else "100m")
    world.settle(60)
    return world


def test_what_nothing_changes_for_costs_nothing(decisions: list[str]) -> None:
    world = crowded(hold={"enabled": False})
    world.settle(1_000)
    decisions.clear()
    world.meddler.calls.clear()
    assert (world.controller.next_due() or 0) >= REMIND_SECONDS
    world.settle(4 * REMIND_SECONDS)
    assert decisions == []
    assert all("events" in call for call in world.meddler.calls)


def test_each_pod_is_told_once_with_a_condition_and_an_event(decisions: list[str]) -> None:
    world = crowded()
    calls = [call for call in world.meddler.calls if "pods/status" in call or "events" in call]
    assert len([call for call in calls if "events" in call]) == PODS
    assert len(calls) == 2 * PODS + 3, "three pods were placed"
    assert world.condition(f"p{PODS - 1}")[0] == "False"
    assert f"claim default/c{PODS - 3}, request gpu" in world.condition(f"p{PODS - 3}")[2], "in its own words"


def test_a_freed_device_wakes_the_first_pod_of_each_shape_that_can_use_it(decisions: list[str]) -> None:
    world = crowded(hold={"enabled": False})
    world.settle(1_000)
    decisions.clear()
    world.remove_pod("run0")
    world.settle(1)
    assert world.devices("c0") == ["n1/gpu-0"]
    shapes = {key: int(key.removeprefix("default/p")) % SHAPES for key in decisions if key.startswith("default/p")}
    assert set(shapes.values()) == {0}, "neither two cards nor 99 CPUs are there now"
    assert len(shapes) == 2, "the first is placed, the next is refused, no other is tried"


def test_a_change_of_a_node_that_helps_nobody_wakes_nobody(decisions: list[str]) -> None:
    world = crowded()
    world.settle(1_000)
    decisions.clear()
    world.meddler.calls.clear()
    for beat in range(20):
        node = world.api.get(NODES, "n1")
        node["metadata"].setdefault("labels", {})["beat"] = str(beat)
        world.api.update(NODES, node)
        world.settle(1)
    assert (decisions, world.meddler.calls) == ([], [])


def test_a_busy_cluster_does_not_make_waiting_pods_talk(decisions: list[str]) -> None:
    """Pods come and go on other nodes, so the numbers of every message change all the time."""
    world = crowded()
    world.settle(1_000)
    world.meddler.calls.clear()
    for number in range(30):
        world.add_node(f"x{number}", 0)
        world.settle(REWORD_SECONDS / 30)
    written = [call for call in world.meddler.calls if call.startswith(("patch pods", "create events"))]
    assert len(written) <= 2 * SHAPES, "at most the first pod of each shape, once"


def test_words_that_were_found_before_a_change_are_corrected_later() -> None:
    """Pods of one shape get the same words for a while, so those of a pod that comes then may be out of date."""
    world = ControllerWorld(nodes=1, cards=1)
    for name in ("runs", "waits", "comes"):
        world.add_claim(f"c-{name}")
    world.add_pod("runs", "c-runs")
    world.settle()
    world.bind("runs", "n1")
    world.add_pod("waits", "c-waits")
    world.settle(2)
    world.api.update(NODES, {**world.api.get(NODES, "n1"), "spec": {"unschedulable": True}})
    world.add_pod("comes", "c-comes")
    world.settle(2)
    assert "in use by" in world.condition("comes")[2]
    world.settle(REWORD_SECONDS)
    assert "unschedulable" in world.condition("comes")[2]


def test_after_a_restart_nothing_is_told_again() -> None:
    world = crowded()
    events = {event["metadata"]["name"]: event["count"] for event in world.api.list(EVENTS).items}
    calls = world.start().calls
    world.settle(2 * REWORD_SECONDS)
    assert set(calls) == {"get events"}, "when it was told"
    assert {event["metadata"]["name"]: event["count"] for event in world.api.list(EVENTS).items} == events


def test_nobody_waits_behind_words() -> None:
    """A pod that fits is let go by the next few writes, however much is still to be told about others."""
    world = crowded()
    for number in range(PODS):
        world.add_claim(f"d{number}", count=5)
        world.add_pod(f"q{number}", f"d{number}", cpu="100m")
    world.observe()
    while world.controller.step():
        """Decide about all of them; nothing is written yet."""
    world.add_node("n9", 1)
    world.add_claim("fits")
    world.add_pod("fitting", "fits", cpu="100m", priority=1)
    calls = len(world.meddler.calls)
    while world.gates("fitting"):
        world.observe()
        while world.controller.step():
            pass
        assert world.writes.step()
    assert len(world.meddler.calls) - calls < 20


def test_the_words_are_found_when_every_pod_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def noted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            order.append(what)
            return function(*args)

        return call

    monkeypatch.setattr("controller.loop.podsync.decide", noted("decided", decide))
    monkeypatch.setattr("controller.explaining.explainer.Questions", noted("explained", Questions))
    crowded()
    assert order.count("explained") == SHAPES
    assert "decided" not in order[order.index("explained") :]


def test_finding_the_words_for_many_nodes_is_interrupted_by_every_decision(
    decisions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.explaining.explainer.TURN_WORK", 1)
    turns = Count(Questions.ask)
    monkeypatch.setattr(Questions, "ask", lambda *args: turns(*args))
    world = ControllerWorld(nodes=20, cards=1)
    world.settle()
    for name, cards in (("large", 2), ("fits", 1)):
        world.add_claim(name, count=cards)
        world.add_pod(name, name)
        world.observe()
        before = len(turns.calls)
        while f"default/{name}" not in decisions:
            assert world.controller.step()
        assert len(turns.calls) - before <= 1
        while len(turns.calls) < 3:
            assert world.controller.step()
    world.settle(5)
    assert len(turns.calls) == 20, "a node in each"
    assert world.condition("large")[1] == "Impossible"
