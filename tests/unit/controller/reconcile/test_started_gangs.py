"""What is decided about a gang that has started: replacements, members that moved, and what is taken back."""

import pytest

from controller.membership import GangTerms, Source
from controller.reconcile import PlacementHistory
from controller.reconcile.decisions import Reason, Wait
from controller.reconcile.history import reasons_of_scheduler
from driver.kube.api import NODES
from tests.unit.controller.filled_state import NOW, node
from tests.unit.controller.reconcile.fabrics import FABRIC, Fabrics, every, told

# After the start


def running(scene: Fabrics, *names: str) -> None:
    for number, name in enumerate(names):
        scene.member(name, at=f"a{number // 2 + 1}/gpu-{number % 2}", gates=(), nodeName=f"a{number // 2 + 1}")


def test_the_other_gates_are_removed_after_the_first() -> None:
    scene = Fabrics(a=2)
    scene.members(4, ["a1/gpu-0", "a1/gpu-1", "a2/gpu-0", "a2/gpu-1"])
    scene.member("w0", at="a1/gpu-0", gates=(), nodeName="a1")
    lines = told(scene.decide(minimum=9))
    assert lines == {"w0": "idle", "w1": "place a1", "w2": "place a2", "w3": "place a2"}


def test_a_replacement_returns_to_the_fabric_without_waiting_for_another() -> None:
    scene = Fabrics(a=2, b=4)
    running(scene, "w0", "w1", "w2")
    scene.member("w3", age=0)
    assert told(scene.decide())["w3"] == "place a2 c-w3=a2/gpu-1"


def test_of_two_replacements_the_second_starts_if_only_it_finds_room() -> None:
    scene = Fabrics(a=2)
    running(scene, "w0", "w1", "w2")
    scene.member("w3", cpu="99")
    scene.member("w4")
    lines = told(scene.decide())
    assert lines["w3"] == "wait Unallocatable"
    assert lines["w4"].startswith("place a2")


def test_a_member_that_was_refused_moves_within_the_fabric() -> None:
    scene = Fabrics(a=2, b=4)
    scene.members(2, ["a1/gpu-0"], gates=())
    revision = scene.state.revision_of("a1", scene.state.pods["default/w1"].needs)
    scene.histories["default/w1"] = PlacementHistory(1, {"a1": reasons_of_scheduler("no", revision)}, NOW)
    assert told(scene.decide(2))["w1"] == "place a2 c-w1=a2/gpu-0"


def test_a_member_that_is_bound_elsewhere_is_told_and_splits_no_gang() -> None:
    scene = Fabrics(a=1, b=1)
    scene.member("w0", at="b1/gpu-0", gates=(), nodeName="b1")
    scene.member("w1", at="b1/gpu-1", gates=(), nodeName="a1")
    decision = scene.decide(2)
    assert told(decision) == {"w0": "idle", "w1": "wait BoundWithoutDevices"}
    text = "bound to node a1, but its devices are on node b1: ResourceClaim default/c-w1; delete the pod"
    assert text in str(decision.members["default/w1"])


def test_if_nothing_fits_and_none_is_bound_the_whole_gang_is_taken_back_in_two_steps() -> None:
    scene = Fabrics(a=1)
    scene.members(2, ["a1/gpu-0"], gates=())
    scene.put(NODES, node("a1", cpu="1", labels={"fabric": "a"}))
    assert told(scene.decide(2)) == {"w0": "wait Refused without report", "w1": "wait Unallocatable"}, "patience"
    early = "2027-01-15T07:59:00Z"
    scene.claim("c-w0", at="a1/gpu-0", by=("w0",), stamp=early)
    assert told(scene.decide(2))["w0"] == "release a1 c-w0"
    scene.claim("c-w0", at="a1/gpu-0", by=(), stamp=early)
    scene.histories["default/w0"] = PlacementHistory(released=NOW - 2)
    assert told(scene.decide(2))["w0"] == "take back a1 c-w0"


def test_if_nothing_fits_and_one_is_bound_the_others_wait_and_say_so() -> None:
    scene = Fabrics(a=1, b=4)
    running(scene, "w0", "w1")
    scene.members(0)
    scene.member("w2")
    assert told(scene.decide(3)) == {"w0": "idle", "w1": "idle", "w2": "wait Unallocatable"}


@pytest.mark.parametrize(("moves", "then"), [(False, "wait Unallocatable"), (True, "place b1 c-w2=b1/gpu-0")])
def test_when_the_fabric_is_gone_a_later_member_waits_or_moves(moves: bool, then: str) -> None:
    scene = Fabrics(a=2, b=4)
    running(scene, "w0", "w1")
    for name in ("a1", "a2"):
        scene.put(NODES, node(name))
    scene.member("w2")
    terms = GangTerms("default/train", "uid", Source.CLAIM, 3, None, (FABRIC,), moves=moves)
    assert told(scene.decide(terms=terms)) == {"w0": "idle", "w1": "idle", "w2": then}


def test_a_gang_that_may_move_is_not_split_before_its_start() -> None:
    scene = Fabrics(a=2, b=4)
    scene.members(4, ["a1/gpu-0", "a1/gpu-1"])
    scene.put(NODES, node("a1"))
    terms = GangTerms("default/train", "uid", Source.CLAIM, 4, None, (FABRIC,), moves=True)
    lines = told(scene.decide(terms=terms))
    assert {lines["w0"], lines["w1"]} == {"take back a1 c-w0", "take back a1 c-w1"}


def test_a_node_that_is_not_ready_changes_nothing_for_running_members() -> None:
    scene = Fabrics(a=2, b=2)
    running(scene, "w0", "w1", "w2", "w3")
    scene.put(NODES, node("a1", ready=False, labels={"fabric": "a"}))
    assert told(scene.decide()) == every(4, "idle")


def test_a_refused_write_of_one_member_takes_back_what_the_others_have() -> None:
    scene = Fabrics(a=2)
    scene.members(4, ["a1/gpu-0", "a1/gpu-1", "a2/gpu-0"])
    wait = Wait(Reason.WRITE_REFUSED, "denied")
    scene.histories["default/w3"] = PlacementHistory(unwritten=wait, written_again=NOW + 5)
    lines = told(scene.decide())
    assert lines == {
        "w0": "take back a1 c-w0",
        "w1": "take back a1 c-w1",
        "w2": "take back a2 c-w2",
        "w3": "wait WriteRefused",
    }


def test_members_without_a_gate_are_written_last() -> None:
    scene = Fabrics(a=2)
    scene.members(4)
    scene.pod("w0", "c-w0", gates=())
    assert list(told(scene.decide()))[-1] == "w0"
