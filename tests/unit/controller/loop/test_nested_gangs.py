"""Gangs of groups: PodGroups under a CompositePodGroup, and the PodCliques of a PodGang of Grove."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.kube.api import COMPOSITE_POD_GROUPS, GROVE_POD_GANGS, NODES, POD_GROUPS, PODS, Object
from tests.unit.controller.loop.gangworld import GangWorld
from tests.unit.controller.loop.world import GATE

FABRIC, RACK = "fabric", "rack"
GROVES_GATE = "grove.io/podgang-pending-creation"


def constraints(key: str) -> Object:
    return {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}


class Trees(GangWorld):
    """Groups of ``scheduling.k8s.io``, in the version of Kubernetes 1.38 or 1.37. Each node is in a rack of its own."""

    def __init__(self, cards: int = 2, version: int = 0, **sizes: int):
        self.composites, self.custom = COMPOSITE_POD_GROUPS[version], (COMPOSITE_POD_GROUPS[version], POD_GROUPS[0])
        super().__init__(cards, None, **sizes)
        for node in self.api.list(NODES).items:
            name = node["metadata"]["name"]
            self.api.patch(NODES, name, {"metadata": {"labels": {RACK: name}}})

    def composite(self, name: str, least: int, parent: str = "", key: str = "") -> None:
        spec = {"schedulingPolicy": {"gang": {"minGroupCount": least}}, **constraints(key)}
        self._create(self.composites, name, spec, parent)

    def group(self, name: str, least: int, parent: str = "", key: str = "") -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}, **constraints(key)}
        self._create(POD_GROUPS[0], name, spec, parent)

    def _create(self, kind: Any, name: str, spec: Object, parent: str) -> None:
        named = {"parentCompositePodGroupName": parent} if parent else {}
        self.api.create(
            kind, {"metadata": {"name": name, "namespace": "default"}, "spec": {**spec, **named}}, "default"
        )

    def add_members(self, group: str, count: int, first: int = 0) -> list[str]:
        names = [f"{group}-{number}" for number in range(first, first + count)]
        for name in names:
            self.add_claim(name)
            self.add_pod(name, name, schedulingGroup={"podGroupName": group})
        return names

    def serve(self, key: str = FABRIC, inner: str = RACK) -> None:
        """Prefill and decode, each in one rack, both in one fabric."""
        self.composite("serve", 2, key=key)
        self.group("prefill", 2, "serve", inner)
        self.group("decode", 1, "serve", inner)


@pytest.mark.parametrize("version", [0, 1])
def test_groups_of_one_tree_start_together_each_in_its_rack_and_all_in_one_fabric(version: int) -> None:
    world = Trees(a=1, b=2, version=version)
    world.serve()
    prefill = world.add_members("prefill", 2)
    world.settle(30)
    assert world.let_go(*prefill) == [], "decode has no pod yet"
    assert world.condition(prefill[0])[1:] == (
        "GangIncomplete",
        "gang default/CompositePodGroup/serve: 2 of 3 members exist, 1 of 2 groups of CompositePodGroup default/serve "
        "complete (0 of 1 members of PodGroup default/decode)",
    )
    pods = [*prefill, *world.add_members("decode", 2)]
    world.settle(30)
    assert world.let_go(*pods) == pods
    nodes = world.nodes_of(*pods)
    assert sorted({*nodes[:2]} | {*nodes[2:]}) == ["b1", "b2"]
    assert [len({*nodes[:2]}), len({*nodes[2:]})] == [1, 1]
    world.check_gang(*pods, minimum=3)


def test_where_only_one_group_has_room_nobody_starts() -> None:
    world = Trees(a=1, b=1)
    world.serve()
    pods = [*world.add_members("prefill", 2), *world.add_members("decode", 1)]
    world.settle(30)
    assert (world.let_go(*pods), world.nodes_of(*pods)) == ([], [""] * 3)
    reason, text = world.condition(pods[0])[1:]
    assert reason == "Unallocatable"
    assert "gang default/CompositePodGroup/serve: 2 of 3 members fit in a" in text


def test_as_one_kube_scheduler_gets_all_members_that_exist() -> None:
    """It holds back the whole tree as long as one pod has a gate, so the room for the minimum is no use."""
    world = Trees(a=1)
    world.composite("all", 1)
    world.group("one", 1, "all")
    world.group("other", 2, "all")
    pods = [*world.add_members("one", 1), *world.add_members("other", 2)]
    world.settle(30)
    assert world.let_go(*pods) == []
    world.add_node("a2", 1)
    world.label("a2", "a")
    world.settle(10)
    assert world.let_go(*pods) == pods


def test_one_group_of_two_is_enough_where_the_tree_says_so() -> None:
    world = Trees(a=2)
    world.composite("all", 1)
    world.group("one", 2, "all")
    world.group("other", 2, "all")
    pods = [*world.add_members("one", 2), *world.add_members("other", 1)]
    world.settle(30)
    assert world.let_go(*pods) == pods, "two of one are there; the one of the other starts, too"


def test_a_member_that_is_lost_comes_back_to_the_rack_of_its_group() -> None:
    world = Trees(a=3)
    world.serve()
    pods = [*world.add_members("prefill", 2), *world.add_members("decode", 2)]
    world.settle(30)
    world.bind_all()
    nodes = dict(zip(pods, world.nodes_of(*pods), strict=True))
    world.end("decode-0")
    again = world.add_members("decode", 1, first=2)
    world.settle(10)
    assert world.nodes_of(*again) == [nodes["decode-1"]]


def test_a_tree_whose_root_is_missing_harms_nobody_else() -> None:
    world = Trees(a=2)
    world.group("lost", 1, "nobody")
    world.serve(inner="")
    lost = world.add_members("lost", 1)
    pods = [*world.add_members("prefill", 2), *world.add_members("decode", 1)]
    world.settle(30)
    assert world.let_go(*pods) == pods
    reason, text = world.condition(lost[0])[1:]
    assert reason == "GangInvalid"
    assert text.startswith(
        "gang default/CompositePodGroup/nobody: CompositePodGroup default/nobody: does not exist, or this program may "
        "not read it; create it, or have an operator let this program list and watch compositepodgroups"
    )
    world.composite("nobody", 1)
    world.settle(10)
    assert world.let_go(*lost) == lost


def test_a_composite_group_of_one_group_decides_as_that_group_alone() -> None:
    decided = []
    for parent in ("", "all"):
        world = Trees(a=2, b=3)
        if parent:
            world.composite("all", 1)
        world.group("train", 3, parent, FABRIC)
        pods = world.add_members("train", 5)
        world.settle(30)
        decided.append(world.nodes_of(*pods))
    assert decided[0] == decided[1]
    assert {node[0] for node in decided[0]} == {"b"}


@settings(max_examples=6)
@given(st.data())
def test_the_order_in_which_objects_appear_does_not_matter(data: st.DataObject) -> None:
    world = Trees(a=1, b=2)
    makers: list[Callable[[], object]] = [
        lambda: world.composite("serve", 2, key=FABRIC),
        lambda: world.group("prefill", 2, "serve", RACK),
        lambda: world.group("decode", 1, "serve", RACK),
        lambda: world.add_members("prefill", 2),
        lambda: world.add_members("decode", 1),
    ]
    for make in data.draw(st.permutations(makers)):
        make()
        world.settle(data.draw(st.sampled_from([0, 5])))
    world.settle(30)
    assert world.nodes_of("prefill-0", "prefill-1", "decode-0") == ["b2", "b2", "b1"]
    assert len(world.let_go("prefill-0", "prefill-1", "decode-0")) == 3


# PodGangs of Grove


class Grove(GangWorld):
    """A PodGang of Grove: cliques ``prefill``, two in one rack, and ``decode``, at least one; all in one fabric."""

    custom = (GROVE_POD_GANGS,)

    def __init__(self, a: int = 0, b: int = 0):
        super().__init__(a=a, b=b)
        for node in self.api.list(NODES).items:
            name = node["metadata"]["name"]
            self.api.patch(NODES, name, {"metadata": {"labels": {RACK: name}}})
        packed = {"packConstraint": {"required": RACK}}
        groups = [
            {"name": "serve-0-prefill", "podReferences": [], "minReplicas": 2, "topologyConstraint": packed},
            {"name": "serve-0-decode", "podReferences": [], "minReplicas": 1},
        ]
        spec = {"podgroups": groups, "topologyConstraint": {"packConstraint": {"required": FABRIC}}}
        metadata = {"name": "serve-0", "namespace": "default"}
        self.api.create(GROVE_POD_GANGS, {"metadata": metadata, "spec": spec}, "default")

    def add_members(self, clique: str, count: int) -> list[str]:
        names = [f"{clique}-{number}" for number in range(count)]
        for name in names:
            self.add_claim(name)
            labels = {"grove.io/podgang": "serve-0", "grove.io/podclique": f"serve-0-{clique}"}
            self.add_pod(name, name, gates=(GROVES_GATE, GATE), labels=labels)
        return names

    def refer_to(self, *pods: str) -> None:
        """As Grove's operator does when the pods are in the PodGang: it removes its gate, and no other."""
        for name in pods:
            pod = self.pod(name)
            pod["spec"]["schedulingGates"] = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] == GATE]
            self.api.update(PODS, pod)


def test_a_pod_gang_starts_with_the_minimum_of_each_clique() -> None:
    world = Grove(a=1, b=2)
    pods = [*world.add_members("prefill", 2), *world.add_members("decode", 2)]
    world.settle(30)
    assert world.let_go(*pods) == []
    world.refer_to(*pods)
    world.settle(10)
    assert world.let_go(*pods) == pods
    nodes = world.nodes_of(*pods)
    assert len({*nodes[:2]}) == 1, "prefill is in one rack"
    assert {node[0] for node in nodes} == {"b"}


def test_a_pod_gang_starts_with_as_many_as_fit_beyond_its_minimums() -> None:
    world = Grove(b=2)
    pods = [*world.add_members("decode", 4), *world.add_members("prefill", 2)]
    world.refer_to(*pods)
    world.settle(30)
    started = world.let_go(*pods)
    assert len(started) == 4
    assert {*started} >= {"prefill-0", "prefill-1"}


def test_a_pod_gang_waits_for_the_members_of_each_clique() -> None:
    world = Grove(b=2)
    pods = world.add_members("decode", 3)
    world.refer_to(*pods)
    world.settle(30)
    assert world.let_go(*pods) == []
    assert world.condition(pods[0])[1:] == (
        "GangIncomplete",
        "gang default/serve-0: 3 of 3 members exist, 0 of 2 of task serve-0-prefill",
    )
