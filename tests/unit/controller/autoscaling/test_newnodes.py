"""Which new node would take a pod: the kinds of nodes of today, empty, are asked with the planner."""

from typing import Any

import pytest

from controller.autoscaling import NewNodes, wish_of
from controller.autoscaling.newnodes import MOST_KINDS, kinds_of
from controller.reconcile import NO_HISTORY, decide
from controller.reconcile.decisions import PodQuestion, PodRefusal
from controller.refusal import Refusal
from driver.kube.api import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from tests.unit.controller.filled_state import NOW, FilledState, device_class, node, slice_on


def waiting(state: FilledState, name: str = "p") -> PodRefusal:
    decision = decide(state.state, f"default/{name}", NOW, NO_HISTORY)
    assert isinstance(decision, Refusal), decision
    return decision


def wish(state: FilledState, name: str = "p", *, unknown_kinds: bool = False) -> str:
    return wish_of(state.state, NewNodes(state.state, unknown_kinds=unknown_kinds), waiting(state, name))


def full(nodes: int = 1, **options: Any) -> FilledState:
    """Nodes of two cards, all in use."""
    state = FilledState(nodes, **options)
    for number in range(1, nodes + 1):
        for card in range(2):
            holder = f"h{number}-{card}"
            state.claim(holder, at=f"n{number}/gpu-{card}", by=(holder,))
            state.pod(holder, holder, nodeName=f"n{number}", gates=())
    return state


class TestKinds:
    def test_like_nodes_are_one_kind(self) -> None:
        kinds = kinds_of(FilledState(3, host_labels=True).state)
        assert list(kinds.like.values()) == ["n1"]

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(node("other", cpu="16"), id="more CPUs"),
            pytest.param(node("other", labels={"zone": "b"}), id="another label"),
        ],
    )
    def test_unlike_nodes_are_kinds_of_their_own(self, other: Any) -> None:
        state = FilledState(2)
        state.put(NODES, other)
        state.put(RESOURCE_SLICES, slice_on("other"))
        assert list(kinds_of(state.state).like.values()) == ["n1", "other"]

    def test_a_node_with_more_cards_is_a_kind_of_its_own(self) -> None:
        state = FilledState(1)
        state.put(NODES, node("other"))
        state.put(RESOURCE_SLICES, slice_on("other", cards=8))
        assert list(kinds_of(state.state).like.values()) == ["n1", "other"]

    def test_there_are_not_more_than_can_be_asked(self) -> None:
        state = FilledState(0)
        for number in range(MOST_KINDS + 5):
            state.put(NODES, node(f"n{number}", labels={"unlike": str(number)}))
        assert len(kinds_of(state.state).like) == MOST_KINDS

    def test_nothing_of_the_state_changes(self) -> None:
        state = full(2)
        before = state.state.devices.ledger.usage_snapshot(), state.state.nodes.generation
        kinds_of(state.state)
        assert before == (state.state.devices.ledger.usage_snapshot(), state.state.nodes.generation)


class TestWishes:
    def test_a_full_cluster_is_helped_by_another_node_like_its_own(self) -> None:
        state = full(2)
        state.claim("c")
        state.pod("p", "c")
        assert wish(state) == (
            "no node takes the pod now, and a new node like n1 would: the pod waits for one with 1 of gpu.lode.dev "
            "(ResourceClaim default/c)"
        )

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"ready": False}, id="not ready"),
            pytest.param({"unschedulable": True}, id="cordoned"),
            pytest.param({"taints": ["node.kubernetes.io/not-ready"]}, id="tainted for a while"),
            pytest.param({"taints": ["karpenter.sh/disrupted"]}, id="about to be removed"),
            pytest.param({"condition": "GpuMemWatch"}, id="closed by a condition"),
        ],
    )
    def test_what_a_node_is_for_a_while_its_like_is_not(self, change: dict[str, Any]) -> None:
        state = FilledState(1, closing=["Gpu*"])
        raw = node("n1", ready=change.get("ready", True))
        if "condition" in change:
            raw["status"]["conditions"].append({"type": change["condition"], "status": "True"})
        raw["spec"] = {
            "unschedulable": change.get("unschedulable", False),
            "taints": [{"key": key, "effect": "NoSchedule"} for key in change.get("taints", ())],
        }
        state.put(NODES, raw)
        state.claim("c")
        state.pod("p", "c")
        assert wish(state)

    def test_a_taint_that_stays_keeps_the_pod_from_a_like_node(self) -> None:
        state = FilledState(1)
        state.put(NODES, {**node("n1"), "spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}})
        state.claim("c")
        state.pod("p", "c")
        assert wish(state) == ""

    def test_a_pod_that_names_its_node_is_not_helped_by_another_one(self) -> None:
        state = full(1, host_labels=True)
        state.claim("c")
        state.pod("p", "c", nodeSelector={"kubernetes.io/hostname": "n1"})
        assert wish(state) == ""

    def test_a_pod_that_waits_only_for_a_node_that_is_held_back_has_none(self) -> None:
        state = FilledState(1)
        state.claim("c", at="n1/gpu-0", by=("x",))
        state.claim("d")
        state.pod("p", "d")
        decision = Refusal("default/p", PodQuestion(("default/d",), held={"n1": "default/first"}))
        assert wish_of(state.state, NewNodes(state.state, unknown_kinds=True), decision) == ""

    def test_what_another_driver_allocates_does_not_count(self) -> None:
        """kube-scheduler finds the devices of a class that no slice is published for, or none."""
        state = FilledState(1)
        state.put(DEVICE_CLASSES, device_class("late.example.com", 'device.driver == "late.example.com"'))
        state.claim("d")
        state.claim("late", ("late.example.com",))
        state.pod("p", "d", "late")
        decision = Refusal("default/p", PodQuestion(("default/d",), held={"n1": "default/first"}))
        assert wish_of(state.state, NewNodes(state.state, unknown_kinds=True), decision) == ""

    def test_a_pod_for_which_nobody_would_be_evicted_on_a_held_node_has_one(self) -> None:
        """kube-scheduler evicts nobody for CPUs on one node as long as another one, which has no card, has them."""
        state = full(2)
        state.put(RESOURCE_SLICES, slice_on("n1", cards=3))
        state.pod("hungry", nodeName="n1", gates=(), cpu="5")
        state.claim("d")
        state.pod("p", "d", cpu="3", priority=1)
        decision = Refusal("default/p", PodQuestion(("default/d",), held={"n1": "default/first"}))
        assert wish_of(state.state, NewNodes(state.state, unknown_kinds=False), decision)
        state.pod("hungrier", nodeName="n2", gates=(), cpu="5", priority=1)
        assert wish_of(state.state, NewNodes(state.state, unknown_kinds=False), decision) == ""

    @pytest.mark.parametrize("takes_it", [True, False])
    def test_a_member_before_later_ones_has_one_only_if_no_held_node_takes_it_itself(self, takes_it: bool) -> None:
        state = FilledState(1) if takes_it else full(1)
        state.claim("d")
        state.pod("p", "d")
        decision = Refusal("default/p", PodQuestion(("default/d",), held={"n1": "default/first"}, lenient=True))
        found = wish_of(state.state, NewNodes(state.state, unknown_kinds=False), decision)
        assert bool(found) is not takes_it

    def test_a_pod_without_our_gate_has_none(self) -> None:
        state = full(1)
        state.claim("c")
        state.pod("p", "c", gates=())
        assert wish(state) == ""


class TestUnknownKinds:
    def test_devices_that_no_node_has_may_be_those_of_a_group_without_nodes(self) -> None:
        state = FilledState(1)
        is_npu = 'device.driver == "lode.dev" && device.attributes["lode.dev"].kind == "npu"'
        state.put(DEVICE_CLASSES, device_class("npu.lode.dev", is_npu))
        state.claim("c", ("npu.lode.dev",))
        state.pod("p", "c")
        assert wish(state, unknown_kinds=True).startswith("no node of the cluster has such devices")
        assert wish(state, unknown_kinds=False) == ""

    def test_more_devices_than_any_node_has_are_not(self) -> None:
        state = FilledState(1)
        state.claim("c", ("gpu.lode.dev",) * 3)
        state.pod("p", "c")
        assert wish(state, unknown_kinds=True) == ""
