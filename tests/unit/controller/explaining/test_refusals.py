"""What nodes refused is remembered by the owner of the memory alone, and holds until something changes."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.allocation import NodeReasons
from controller.explaining.explainer import NOT_ASKED, WORK_PER_NODE, AskedNodes, MessageFinder, Questions, ask_all
from controller.reconcile import DecisionContext, NodeRestrictions, decide
from controller.reconcile.decisions import PodRefusal
from controller.reconcile.pods import MOST_SHAPES
from controller.refusal import AskedInVain, Refusal
from driver.kube.api import NODES, PODS, RESOURCE_CLAIMS
from tests.unit.controller.filled_state import NOW, FilledState, claim, node, pod


class Calls:
    """Counts the calls of a function."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self.number = 0

    def __call__(self, *args: Any) -> Any:
        self.number += 1
        return self._function(*args)


@pytest.fixture
def scene() -> FilledState:
    """Both nodes are full; pods ``p`` and ``q`` have the same shape."""
    scene = FilledState()
    for number, place in enumerate(("n1/gpu-0", "n1/gpu-1", "n2/gpu-0", "n2/gpu-1")):
        scene.claim(f"held{number}", at=place, by=("other",))
    for name in "pq":
        scene.claim(f"claim-{name}")
        scene.pod(name, f"claim-{name}")
    return scene


def unallocatable(scene: FilledState, pod: str, in_vain: AskedInVain) -> PodRefusal:
    decision = decide(scene.state, f"default/{pod}", NOW, context=DecisionContext(in_vain=in_vain))
    assert isinstance(decision, Refusal)
    return decision


def test_questions_remember_nothing(scene: FilledState, monkeypatch: pytest.MonkeyPatch) -> None:
    in_vain, asked, candidates = AskedInVain(MOST_SHAPES), AskedNodes(), Calls(scene.state.devices.candidates)
    monkeypatch.setattr(scene.state.devices, "candidates", candidates)
    for calls in (1, 2):
        decision = unallocatable(scene, "p", in_vain)
        assert candidates.number == calls
    shape = decision.why.shape
    assert len(ask_all(scene.state, decision, asked.reasons_of(shape)).reasons) == 2
    assert asked.reasons_of(shape) == {}


def test_a_shape_that_every_node_refused_is_tried_again_only_after_a_change(
    scene: FilledState, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_vain, candidates = AskedInVain(MOST_SHAPES), Calls(scene.state.devices.candidates)
    monkeypatch.setattr(scene.state.devices, "candidates", candidates)
    refused = unallocatable(scene, "p", in_vain).why
    assert refused.by_every_node
    in_vain.remember(refused.shape, scene.state.nodes.generation)
    unallocatable(scene, "q", in_vain)
    assert candidates.number == 1
    scene.put(NODES, node("n3", ready=False))
    unallocatable(scene, "q", in_vain)
    assert candidates.number == 2


def test_reasons_are_found_again_only_for_nodes_that_changed(
    scene: FilledState, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, allocate = AskedNodes(), Calls(scene.state.devices.allocate)
    monkeypatch.setattr(scene.state.devices, "allocate", allocate)
    decision = unallocatable(scene, "p", AskedInVain(MOST_SHAPES))
    shape = decision.why.shape
    reasons = ask_all(scene.state, decision, asked.reasons_of(shape)).reasons
    asked.remember(shape, reasons)
    assert allocate.number == 2
    other = unallocatable(scene, "q", AskedInVain(MOST_SHAPES))
    assert other.why.shape == shape
    assert ask_all(scene.state, other, asked.reasons_of(shape)).reasons == reasons
    assert allocate.number == 2
    scene.claim("held0")
    scene.claim("new", at="n1/gpu-0", by=("other",))
    assert set(ask_all(scene.state, other, asked.reasons_of(shape)).reasons) == {"n1", "n2"}
    assert allocate.number == 3


@pytest.mark.parametrize(
    ("first", "named"),
    [
        ("default/first", "pod default/first"),
        ("gang default/first", "gang default/first"),
        ("secret/first", "a pod in another namespace"),
        ("gang secret/first", "a gang in another namespace"),
    ],
)
def test_a_node_is_held_back_for_a_pod_that_is_named_in_its_own_namespace_alone(first: str, named: str) -> None:
    scene = FilledState()
    scene.claim("a")
    scene.pod("p", "a")
    held = {"n1": first, "n2": first}
    decision = decide(scene.state, "default/p", NOW, context=DecisionContext(NodeRestrictions(held=held)))
    assert isinstance(decision, Refusal)
    refusal = ask_all(scene.state, decision).reasons["n1"]
    assert refusal.predicates == (f"held back for {named}, which comes first",)


def test_pods_of_one_shape_in_two_namespaces_share_no_name_of_who_comes_first() -> None:
    scene, messages = FilledState(), MessageFinder()
    held = {"n1": "default/first", "n2": "default/first"}
    told = {}
    for namespace in ("default", "team"):
        for resource, raw in ((RESOURCE_CLAIMS, claim("a")), (PODS, pod("p", "a"))):
            raw["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{resource.plural}"}
            scene.put(resource, raw)
        decision = decide(scene.state, f"{namespace}/p", NOW, context=DecisionContext(NodeRestrictions(held=held)))
        assert isinstance(decision, Refusal)
        found = messages.find(scene.state, decision, 0.0)
        assert found is not None
        told[namespace] = found[0].text([f"{namespace}/a"])
    assert "held back for pod default/first, which comes first" in told["default"]
    assert "held back for a pod in another namespace, which comes first" in told["team"]


def test_the_oldest_shapes_are_forgotten() -> None:
    in_vain, asked, reasons = AskedInVain(MOST_SHAPES), AskedNodes(), NodeReasons(("full",), version=(0, 0))
    for shape in range(100):
        in_vain.remember(shape, 7)
        asked.remember(shape, {"n1": reasons})
    remembered = [shape for shape in range(100) if in_vain.holds(shape, 7)]
    assert remembered == [shape for shape in range(100) if asked.reasons_of(shape)]
    assert remembered == list(range(64, 100))


# The work is bounded


NODE_COUNT = 14
CARDS = 2


def many_nodes(ready: bool = True) -> tuple[FilledState, PodRefusal]:
    """A pod that wants more cards than any node has; with ``ready`` unset, no node takes pods now."""
    scene = FilledState(NODE_COUNT)
    for number in range(1, NODE_COUNT + 1):
        scene.put(NODES, node(f"n{number}", ready=ready))
    wanted = {"deviceClassName": "gpu.lode.dev", "count": CARDS + 1}
    scene.claim("c", requests=[{"name": "r", "exactly": wanted}])
    scene.pod("p", "c")
    return scene, unallocatable(scene, "p", AskedInVain(MOST_SHAPES))


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("work", [1, 50, 10_000])
def test_reasons_are_the_same_however_many_turns_it_takes_to_find_them(work: int, ready: bool) -> None:
    scene, decision = many_nodes(ready)
    expected = ask_all(scene.state, decision)
    questions, turns = Questions(scene.state, decision), 1
    while not questions.ask(scene.state, decision, work=work):
        turns += 1
    assert (questions.reasons, questions.impossible) == (expected.reasons, True)
    assert len(questions.reasons) == NODE_COUNT
    assert (turns > 3) == (work <= 50)


def test_a_turn_takes_no_more_than_its_work_and_one_node() -> None:
    scene, decision = many_nodes()
    work = scene.state.devices.work
    questions = Questions(scene.state, decision)
    assert not questions.ask(scene.state, decision, work=2 * WORK_PER_NODE)
    assert len(questions.reasons) <= 3
    assert scene.state.devices.work - work <= 3 * CARDS


@pytest.mark.parametrize("ready", [True, False])
def test_beyond_a_limit_nodes_are_not_looked_at_and_nobody_is_told_that_waiting_is_in_vain(ready: bool) -> None:
    scene, decision = many_nodes(ready)
    questions = Questions(scene.state, decision, most=3 * WORK_PER_NODE)
    turns = 1
    while not questions.ask(scene.state, decision, work=WORK_PER_NODE):
        turns += 1
    assert turns <= 4
    left_out = [name for name, refusal in questions.reasons.items() if refusal.predicates == (NOT_ASKED,)]
    assert len(questions.reasons) == NODE_COUNT
    assert len(left_out) >= 10
    assert not questions.impossible


def test_a_node_that_is_deleted_between_two_turns_harms_nobody() -> None:
    scene, decision = many_nodes()
    questions = Questions(scene.state, decision)
    assert not questions.ask(scene.state, decision, work=1)
    scene.state.drop(NODES, f"n{NODE_COUNT}")
    while not questions.ask(scene.state, decision, work=1):
        pass
    assert len(questions.reasons) == NODE_COUNT
