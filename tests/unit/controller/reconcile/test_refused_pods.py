"""What is decided about a pod that kube-scheduler does not bind where its devices are."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.reconcile import DecisionContext, NodeRestrictions, PlacementHistory, decide
from controller.reconcile.decisions import PlacePod, Reason, TakeBack, Wait
from controller.reconcile.history import LAST_RESORT_SECONDS
from controller.refusal import Refusal
from controller.state.knownnodes import Revision
from driver.clock import rfc3339
from driver.kube.api import NODES, PODS, RESOURCE_SLICES
from tests.unit.controller.filled_state import NOW, STAMP, FilledState, node, pod, slice_on
from tests.unit.controller.reconcile.inwords import about


def refused(**options: Any) -> FilledState:
    scene = FilledState()
    scene.claim("a", **{"at": "n1/gpu-0", "by": ("p",), "stamp": rfc3339(NOW), **options})
    scene.pod("p", "a", gates=(), unschedulable="no volume there", condition="True")
    return scene


@pytest.mark.parametrize(
    ("later", "history", "reserved_by", "expected"),
    [
        (1, PlacementHistory(), ("p",), "wait Refused without report"),
        (3, PlacementHistory(), ("p",), "release n1 a"),
        (3, PlacementHistory(failures=7), ("p",), "wait Refused without report"),
        (24, PlacementHistory(failures=8), ("p",), "release n1 a"),
        (59, PlacementHistory(failures=99), ("p",), "wait Refused without report"),
        (60, PlacementHistory(failures=99), ("p",), "release n1 a"),
        (6, PlacementHistory(released=NOW + 5.5), (), "wait Refused without report"),
        (7, PlacementHistory(released=NOW + 5.5), (), "take back n1 a unschedulable"),
        (9, PlacementHistory(spared=NOW + 7), ("p",), "wait Refused without report"),
        (10, PlacementHistory(spared=NOW + 7), ("p",), "release n1 a"),
        (99, PlacementHistory(spared=NOW + 7, preempting=True), ("p",), "wait Refused without report"),
        # kube-scheduler reserved the claim again: the procedure starts over.
        (7, PlacementHistory(released=NOW + 5.5), ("p",), "wait Refused without report"),
        (8, PlacementHistory(released=NOW + 5.5), ("p",), "wait Refused without report"),
        (9, PlacementHistory(released=NOW + 5.5), ("p",), "release n1 a"),
    ],
)
def test_a_refused_pod(later: float, history: PlacementHistory, reserved_by: tuple[str, ...], expected: str) -> None:
    scene = refused(by=reserved_by)
    assert about(decide(scene.state, "default/p", NOW + later, history)) == expected


def test_a_refused_pod_whose_claim_others_use_is_left_where_it_is() -> None:
    scene = refused(by=("p", "q"))
    assert about(decide(scene.state, "default/p", NOW + 100, PlacementHistory(released=NOW))) == "wait Refused"


@pytest.mark.parametrize(
    ("victim", "expected"),
    [
        ({"preempted": True}, "wait Preempting without report"),
        ({"preempted": True, "priority": 10}, "release n1 a"),
        ({"preempted": True, "nodeName": "n2"}, "release n1 a"),
        ({"preempted": True, "phase": "Failed"}, "release n1 a"),
        ({}, "release n1 a"),
    ],
    ids=["below it", "of equal priority", "on another node", "that has ended", "that is not preempted"],
)
def test_a_pod_that_kube_scheduler_makes_room_for_keeps_its_devices(victim: dict[str, Any], expected: str) -> None:
    scene = FilledState()
    scene.claim("a", at="n1/gpu-0", by=("p",), stamp=rfc3339(NOW))
    scene.pod("p", "a", gates=(), unschedulable="Insufficient cpu", condition="True", priority=10)
    scene.pod("victim", gates=(), **{"nodeName": "n1", "priority": 5, **victim})
    assert about(decide(scene.state, "default/p", NOW + 100)) == expected


def test_patience_counts_from_the_end_of_the_last_victim() -> None:
    """Whenever that is noticed: the controller may look much later than kube-scheduler made room."""
    room = PlacementHistory().after(Wait(Reason.PREEMPTING, "", report=False), NOW)
    made = room.after(Wait(Reason.REFUSED, "", report=False), NOW + 20)
    assert (room.preempting, made.preempting, made.spared) == (True, False, NOW + 20)


def revision_of(scene: FilledState, node: str) -> Revision:
    return scene.state.revision_of(node, scene.state.pods["default/p"].needs)


def refused_on(scene: FilledState, *nodes: str) -> PlacementHistory:
    """The pod was refused on these nodes in turn, one second after the other, before NOW."""
    history = PlacementHistory()
    for number, name in enumerate(nodes):
        verdict = f"0/3 nodes are available: 1 not {name}, 2 cannot allocate all claims."
        back = TakeBack((), name, "", unschedulable=True, verdict=verdict, revision=revision_of(scene, name))
        history = history.after(back, NOW - len(nodes) + number)
    return history


@pytest.fixture
def unplaced() -> FilledState:
    scene = FilledState(nodes=3)
    scene.claim("a")
    scene.pod("p", "a", gates=())
    return scene


def test_a_node_that_refused_is_avoided_until_something_there_changes(unplaced: FilledState) -> None:
    history = refused_on(unplaced, "n1")
    assert about(decide(unplaced.state, "default/p", NOW, history)) == "place n2 a=n2/gpu-0"
    everywhere = refused_on(unplaced, "n1", "n2", "n3")
    decision = decide(unplaced.state, "default/p", NOW, everywhere)
    assert isinstance(decision, Refusal)
    assert (list(decision.why.refused), decision.after) == (["n1", "n2", "n3"], LAST_RESORT_SECONDS - 1)
    unplaced.put(NODES, node("n2", cpu="16"))
    assert about(decide(unplaced.state, "default/p", NOW, everywhere)) == "place n2 a=n2/gpu-0"


def test_every_node_is_tried_before_one_comes_again_and_then_the_one_refused_longest_ago(unplaced: FilledState) -> None:
    changed = {name: node(name, cpu="16") for name in ("n1", "n2", "n3")}
    history = refused_on(unplaced, "n2", "n1")
    for name in ("n1", "n2"):
        unplaced.put(NODES, changed[name])
    assert about(decide(unplaced.state, "default/p", NOW, history)) == "place n3 a=n3/gpu-0"
    everywhere = refused_on(unplaced, "n3", "n1", "n2", "n1")
    for name in ("n1", "n2", "n3"):
        unplaced.put(NODES, node(name, cpu="32"))
    assert about(decide(unplaced.state, "default/p", NOW, everywhere)) == "place n3 a=n3/gpu-0"


def test_the_last_resort_tries_the_node_refused_longest_ago(unplaced: FilledState) -> None:
    history = refused_on(unplaced, "n2", "n1", "n3")
    now = NOW - 1 + LAST_RESORT_SECONDS
    assert isinstance(decide(unplaced.state, "default/p", now - 1, history), Refusal)
    assert about(decide(unplaced.state, "default/p", now, history)) == "place n2 a=n2/gpu-0"


def use_all_devices(scene: FilledState, *nodes: str) -> None:
    """Pods whose claims are allocated, but that are not bound yet: that changes nothing on the node."""
    for device in (f"{host}/gpu-{number}" for host in nodes for number in range(2)):
        name = device.replace("/", "-")
        scene.claim(name, at=device, by=(f"q-{name}",))
        scene.pod(f"q-{name}", name)


def test_the_last_resort_is_no_node_without_devices(unplaced: FilledState) -> None:
    history = refused_on(unplaced, "n2", "n1", "n3")
    now = NOW - 1 + LAST_RESORT_SECONDS
    use_all_devices(unplaced, "n2")
    assert about(decide(unplaced.state, "default/p", now, history)) == "place n1 a=n1/gpu-0"


def test_a_pod_whose_last_resort_has_no_devices_waits_for_a_change_alone(unplaced: FilledState) -> None:
    history = refused_on(unplaced, "n2", "n1", "n3")
    use_all_devices(unplaced, "n1", "n2", "n3")
    decision = decide(unplaced.state, "default/p", NOW - 1 + LAST_RESORT_SECONDS, history)
    assert isinstance(decision, Refusal)
    assert decision.after is None


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda scene: scene.put(NODES, node("n1", cpu="16")), True),
        (lambda scene: scene.put(RESOURCE_SLICES, slice_on("n1", cards=3)), True),
        (lambda scene: scene.pod("other", gates=(), nodeName="n1"), True),
        (lambda scene: scene.claim("nic", ("nic.example.com",), at="n1/nic", driver="nic.example.com"), True),
        (lambda scene: scene.put(NODES, node("n2", cpu="16")), False),
        (lambda scene: scene.claim("a", at="n1/gpu-0", by=("p",)), False),
        (lambda scene: (scene.claim("b", at="n1/gpu-0", by=("q",)), scene.pod("q", "b")), False),
    ],
    ids=["node", "slice", "pod bound there", "other driver's claim", "other node", "own placing", "another placing"],
)
def test_what_counts_as_a_change_of_a_node_that_refused(
    change: Callable[[FilledState], Any], counts: bool, unplaced: FilledState
) -> None:
    history = refused_on(unplaced, "n1")
    change(unplaced)
    assert ("n1" not in history.standing(lambda name: revision_of(unplaced, name), NOW)) == counts


def test_a_verdict_that_is_marked_as_old_is_no_refusal() -> None:
    scene = refused(by=("p",))
    old = pod("p", "a", gates=(), unschedulable="no volume there", condition="True")
    old["status"]["conditions"][0]["lastProbeTime"] = STAMP
    scene.put(PODS, old)
    assert about(decide(scene.state, "default/p", NOW + 100)) == "idle"


def test_allocating_makes_an_earlier_verdict_old() -> None:
    scene = FilledState()
    scene.claim("a")
    scene.pod("p", "a", gates=(), unschedulable="no volume there")
    decision = decide(scene.state, "default/p", NOW)
    assert isinstance(decision, PlacePod)
    assert decision.outdates_verdict


def test_a_node_held_back_for_another_pod_is_not_chosen(unplaced: FilledState) -> None:
    restrictions = NodeRestrictions(held={"n1": "default/first"})
    assert (
        about(decide(unplaced.state, "default/p", NOW, context=DecisionContext(restrictions))) == "place n2 a=n2/gpu-0"
    )


def test_a_node_asked_about_a_like_pod_is_tried_after_others_and_before_those_that_refused(
    unplaced: FilledState,
) -> None:
    restrictions = NodeRestrictions(retried=("n2",))
    history = refused_on(unplaced, "n1", "n3")
    retried_first = NodeRestrictions(retried=("n1",))
    assert (
        about(decide(unplaced.state, "default/p", NOW, context=DecisionContext(retried_first))) == "place n2 a=n2/gpu-0"
    )
    for name in ("n1", "n3"):
        unplaced.put(NODES, node(name, cpu="16"))
    assert (
        about(decide(unplaced.state, "default/p", NOW, history, context=DecisionContext(restrictions)))
        == "place n2 a=n2/gpu-0"
    )
