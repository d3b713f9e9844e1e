"""Which changes wake which waiting pods."""

from typing import Any

from controller.allocation import Fleet
from controller.state import State
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
)
from tests.unit.controller.filled_state import (
    NAMES,
    claim,
    device_class,
    node,
    pod,
    slice_on,
    taint_rule,
)
from tests.unit.controller.state.served_objects import ServedObjects, report


def test_only_what_can_help_wakes_waiting_pods() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)

    def freed(kind: Any, obj: Object) -> list[str]:
        return list(report(state, server.write(kind, obj))[0].favoured)

    assert freed(NODES, node("n1")) == ["n1"]
    assert not freed(NODES, {**node("n1"), "status": {**node("n1")["status"], "nodeInfo": {}}})
    assert freed(NODES, node("n1", ready=False)) == ["n1"]
    assert freed(RESOURCE_SLICES, slice_on("n1")) == ["n1"]
    assert freed(DEVICE_CLASSES, device_class("gpu.lode.dev", "true")) == [""]
    assert not freed(RESOURCE_CLAIMS, claim("x"))
    assert not freed(RESOURCE_CLAIMS, claim("x", at="n1/gpu-0", by=("a",)))
    assert not freed(PODS, pod("a", "x"))
    assert not freed(PODS, pod("a", "x", nodeName="n1", gates=()))
    assert freed(PODS, pod("a", "x", nodeName="n1", gates=(), phase="Succeeded")) == ["n1"]
    assert freed(RESOURCE_CLAIMS, claim("x")) == ["n1"]


def test_what_a_waiting_pod_was_told_is_no_reason_to_decide_again() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)

    def woken(obj: Object) -> list[str]:
        return list(report(state, server.write(PODS, obj))[0].pods)

    assert woken(pod("a", "x")) == ["default/a"]
    assert not woken(pod("a", "x", condition="False"))
    assert woken(pod("a", "x", condition="False", gates=(NAMES.gate, "other"))) == ["default/a"]
    assert woken(pod("a", "x", condition="True", gates=())) == ["default/a"]
    assert woken(pod("a", "x", condition="False", gates=())) == ["default/a"], "it says something wrong"


def test_a_taint_rule_wakes_waiting_pods_when_it_changes_and_when_it_goes() -> None:
    server, state = ServedObjects(), State(Fleet(), NAMES)
    for wanted in (taint_rule("r", "n1", True), taint_rule("r", "n2", False)):
        assert list(report(state, server.write(DEVICE_TAINT_RULES, wanted))[0].favoured) == [""]
    gone = server.remove(DEVICE_TAINT_RULES, taint_rule("r", "n2", False))
    assert gone
    assert list(report(state, gone)[0].favoured) == [""]
