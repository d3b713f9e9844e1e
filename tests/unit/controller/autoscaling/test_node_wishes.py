"""Which waiting pods ask autoscalers for a node, when they begin to, and when they end."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.allocation import Fleet
from controller.autoscaling import newnodes
from controller.autoscaling.newnodes import NodeKinds, kinds_of
from controller.placement import Nodes, Placement, PodDemand, find_place
from controller.refusal import Refusal
from controller.state import State
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    Conflict,
    Unavailable,
)
from tests.unit.controller.loop.gangworld import GangWorld, gang_config
from tests.unit.controller.loop.test_gangs_preempting import gang_of
from tests.unit.controller.loop.world import GATE, ControllerWorld

GATED = ("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")


def world(**options: Any) -> ControllerWorld:
    return ControllerWorld(**options, autoscaling={"enabled": True})


def scheduled(world: ControllerWorld, pod: str) -> tuple[str, str]:
    """Reason and message of the condition that autoscalers read."""
    found = [one for one in world.pod(pod)["status"].get("conditions") or [] if one["type"] == "PodScheduled"]
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


def asks(world: ControllerWorld, pod: str) -> bool:
    return scheduled(world, pod)[0] == "Unschedulable"


def add(world: ControllerWorld, name: str, count: int = 1, **pod: Any) -> None:
    world.add_claim(name, count)
    world.add_pod(name, name, **pod)


def test_a_pod_that_a_node_like_those_of_today_would_take_asks_for_one() -> None:
    full = world(cards=1)
    add(full, "first")
    full.settle()
    add(full, "second")
    full.settle()
    reason, message = scheduled(full, "second")
    assert reason == "Unschedulable"
    assert "a new node like n1 would" in message
    assert "1 of gpu.lode.dev (ResourceClaim default/second)" in message
    assert not asks(full, "first")
    assert full.gates("second") == [GATE]


def test_it_asks_no_more_before_the_first_claim_is_written() -> None:
    full = world(cards=1)
    add(full, "first")
    full.settle()
    add(full, "second")
    full.settle()
    full.meddler.calls.clear()
    full.add_node("n2", cards=1)
    full.settle()
    assert full.devices("second") == ["n2/gpu-0"]
    placing = [call for call in full.meddler.calls if "pods" in call or "resourceclaims" in call]
    assert placing[0] == "patch pods/status"
    assert scheduled(full, "second") == GATED
    assert full.gates("second") == []


@pytest.mark.parametrize("of_gang", [False, True])
def test_a_pod_asks_when_whoever_a_node_was_held_back_for_has_taken_it(of_gang: bool) -> None:
    full = world(cards=2, hold={"after_seconds": 10, "share": 1})
    add(full, "first")
    full.settle()
    config = [gang_of("job", 2)] if of_gang else []
    for number in range(2 if of_gang else 1):
        full.add_claim(f"big-{number}", 1 if of_gang else 2, config=config)
        full.add_pod(f"big-{number}", f"big-{number}", priority=1)
    full.settle(30)
    add(full, "small")
    full.settle()
    assert not asks(full, "small"), "one card is free, and its node is held back"
    full.remove_pod("first")
    full.settle()
    assert full.devices("big-0")
    assert asks(full, "small")


def test_a_pod_asks_no_more_when_only_a_hold_keeps_it_from_a_node() -> None:
    full = world(cards=2, hold={"after_seconds": 10, "share": 1})
    for name in ("first", "second"):
        add(full, name)
    full.settle()
    full.add_claim("big", 2)
    full.add_pod("big", "big", priority=1)
    full.settle(30)
    add(full, "small")
    full.settle()
    assert asks(full, "small")
    full.remove_pod("first")
    full.settle()
    assert full.gates("small") == [GATE], "the card that is free is held back for the first one"
    assert not asks(full, "small")


def test_nothing_is_written_unless_the_operator_wants_it() -> None:
    full = ControllerWorld(cards=1)
    add(full, "first")
    full.settle()
    add(full, "second")
    full.settle()
    assert scheduled(full, "second") == GATED


@pytest.mark.parametrize(
    ("count", "cpu"),
    [pytest.param(3, "1", id="more devices than a node has"), pytest.param(1, "9", id="more CPUs than a node has")],
)
def test_a_pod_that_no_known_kind_would_take_does_not_ask(count: int, cpu: str) -> None:
    full = world(cards=2)
    add(full, "large", count, cpu=cpu)
    full.settle()
    assert full.condition("large")[0] == "False"
    assert not asks(full, "large")


def test_a_pod_with_a_gate_of_others_does_not_ask() -> None:
    full = world(cards=1)
    add(full, "first")
    add(full, "second", gates=(GATE, "example.com/quota"))
    full.settle()
    assert not asks(full, "second")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda full: full.api.delete(DEVICE_CLASSES, "gpu.lode.dev"), id="its class is gone"),
        pytest.param(lambda full: full.api.delete(RESOURCE_CLAIMS, "second", "default"), id="its claim is gone"),
        pytest.param(lambda full: taint_all(full), id="every device has a taint, on a new node, too"),
        pytest.param(lambda full: shrink(full, "n1"), id="no kind of node is large enough any more"),
    ],
)
def test_a_pod_asks_no_more_when_it_waits_for_another_cause(change: Callable[[ControllerWorld], object]) -> None:
    full = world(cards=2)
    add(full, "first", 2)
    full.settle()
    add(full, "second", 2)
    full.settle()
    assert asks(full, "second")
    change(full)
    full.settle(60)
    assert scheduled(full, "second") == GATED


def taint_all(full: ControllerWorld) -> None:
    spec = {"deviceSelector": {"driver": "lode.dev"}, "taint": {"key": "t", "effect": "NoSchedule"}}
    full.api.create(DEVICE_TAINT_RULES, {"metadata": {"name": "all"}, "spec": spec})


def shrink(full: ControllerWorld, node: str) -> None:
    full.api.delete(RESOURCE_SLICES, f"{node}-lode.dev")
    full.publish(node, 1)


def test_a_pod_whose_shared_claim_is_allocated_on_a_full_node_does_not_ask() -> None:
    full = world(cards=1)
    full.add_claim("shared")
    full.add_pod("first", "shared", cpu="8")
    full.settle()
    full.add_pod("second", "shared")
    full.settle()
    assert full.gates("second") == [GATE]
    assert not asks(full, "second")


def test_pods_that_share_a_claim_ask_no_more_when_it_is_allocated_for_one_of_them() -> None:
    empty = world(nodes=1, cards=1)
    add(empty, "first")
    empty.settle()
    empty.add_claim("shared")
    for name in ("one", "other"):
        empty.add_pod(name, "shared", cpu="8")
    empty.settle()
    assert [asks(empty, name) for name in ("one", "other")] == [True, True]
    empty.add_node("n2", cards=1)
    empty.settle()
    assert sorted(empty.gates(name) for name in ("one", "other")) == [[], [GATE]]
    assert [asks(empty, name) for name in ("one", "other")] == [False, False]


class TestFromZero:
    def test_a_pod_asks_for_devices_of_which_there_are_none(self) -> None:
        none = world(nodes=0)
        add(none, "first")
        none.settle()
        reason, message = scheduled(none, "first")
        assert reason == "Unschedulable"
        assert message.startswith("no node of the cluster has such devices")

    def test_it_does_not_if_the_operator_does_not_want_that(self) -> None:
        none = ControllerWorld(nodes=0, autoscaling={"enabled": True, "unknownKinds": False})
        add(none, "first")
        none.settle()
        assert not asks(none, "first")

    def test_it_asks_no_more_if_the_first_node_with_such_devices_is_too_small(self) -> None:
        none = world(nodes=0)
        add(none, "large", count=3)
        none.settle()
        assert asks(none, "large")
        none.add_node("n1", cards=2)
        none.settle(60)
        assert not asks(none, "large")


class TestAfterACrash:
    def test_the_next_run_knows_which_pods_ask_and_ends_that(self) -> None:
        full = world(cards=1)
        add(full, "first")
        full.settle()
        add(full, "second")
        full.settle()
        full.start()
        full.add_node("n2", cards=1)
        full.settle()
        assert scheduled(full, "second") == GATED
        assert full.devices("second") == ["n2/gpu-0"]

    def test_a_run_without_the_setting_ends_what_an_earlier_one_began(self) -> None:
        full = world(cards=1)
        add(full, "first")
        full.settle()
        add(full, "second")
        full.settle()
        full.settings = ControllerWorld().settings
        full.start()
        full.settle()
        assert scheduled(full, "second") == GATED


def test_new_nodes_are_looked_for_once_for_all_pods_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def found(state: State) -> NodeKinds:
        asked.append("kinds")
        return kinds_of(state)

    def looked_for(pod: PodDemand, fleet: Fleet, nodes: Nodes) -> Placement | Refusal[None]:
        asked.append(pod.key)
        return find_place(pod, fleet, nodes)

    monkeypatch.setattr(newnodes, "kinds_of", found)
    monkeypatch.setattr(newnodes, "find_place", looked_for)
    full = world(cards=2)
    for number in range(20):
        add(full, f"p{number}")
    full.settle()
    add(full, "larger", 2)
    add(full, "hungry", cpu="3")
    full.settle()
    assert sum(asks(full, f"p{number}") for number in range(20)) == 18
    assert asks(full, "larger")
    assert asks(full, "hungry")
    assert {"kinds", "default/larger", "default/hungry"} <= {*asked}
    assert len(asked) == 4, "of those that are alike, one was asked for all"


class TestGangs:
    @staticmethod
    def world(**sizes: int) -> GangWorld:
        return GangWorld(settings={"autoscaling": {"enabled": True}}, **sizes)

    def test_all_members_ask_in_one_go(self) -> None:
        full = self.world(a=1)
        members = full.add_gang("train", 3)
        full.settle(20)
        assert [asks(full, member) for member in members] == [True] * 3
        assert "gang default/train" in scheduled(full, members[0])[1]

    def test_no_member_asks_when_the_first_claim_is_written(self) -> None:
        full = self.world(a=1)
        members = full.add_gang("train", 3)
        full.settle(20)

        def check(call: str, about: Any) -> None:
            if call.startswith("patch resourceclaims") and call.endswith("status"):
                assert not asks(full, about)

        full.meddler.before = check
        full.add_node("a2", 2)
        full.label("a2", "a")
        full.settle(20)
        assert full.let_go(*members) == list(members)
        assert [scheduled(full, member) for member in members] == [GATED] * 3

    def test_a_gang_that_only_its_domain_keeps_from_starting_does_not_ask(self) -> None:
        full = self.world(a=1, b=1)
        members = full.add_gang("train", 3)
        full.settle(20)
        assert full.let_go(*members) == []
        assert not any(asks(full, member) for member in members)

    @pytest.mark.parametrize("in_a_domain", [False, True])
    def test_a_gang_asks_in_a_cluster_without_nodes_and_starts_when_they_have_come(self, in_a_domain: bool) -> None:
        empty = self.world()
        config = gang_config("train", 2)
        if not in_a_domain:
            del config["opaque"]["parameters"]["topology"]
        members = ("train-0", "train-1")
        for member in members:
            empty.add_claim(member, config=[config])
            empty.add_pod(member, member)
        empty.settle(20)
        assert [asks(empty, member) for member in members] == [True, True]
        expected = "no node is in a domain of fabric" if in_a_domain else "the cluster has no nodes"
        assert expected in empty.condition("train-0")[2]
        empty.add_node("a1", 2)
        empty.label("a1", "a")
        empty.settle(20)
        assert empty.let_go(*members) == list(members)

    def test_a_gang_whose_members_fit_no_known_kind_does_not_ask(self) -> None:
        full = self.world(a=1)
        members = full.add_gang("train", 2, size=3)
        full.settle(20)
        assert not any(asks(full, member) for member in members)

    def test_a_gang_with_a_member_behind_a_gate_of_others_does_not_ask(self) -> None:
        full = self.world(a=1)
        members = full.add_gang("train", 2, minimum=3)
        members += full.add_gang("train", 1, minimum=3, first=2, gates=(GATE, "example.com/quota"))
        full.settle(20)
        assert not any(asks(full, member) for member in members)


class TestWritesThatAreLost:
    def test_a_wish_that_comes_late_does_not_change_a_pod_that_was_placed_meanwhile(self) -> None:
        full = world(cards=1)
        add(full, "first")
        full.settle()
        late: list[Any] = []

        def lose(call: str, about: Any) -> None:
            if call == "patch pods/status" and about == "second" and not late:
                late.append(full.meddler.bodies[-1][1])
                raise Unavailable("no answer")

        full.meddler.before = lose
        add(full, "second")
        full.settle()
        full.add_node("n2", cards=1)
        full.settle(30)
        assert full.devices("second") == ["n2/gpu-0"]
        with pytest.raises(Conflict):
            full.api.patch(PODS, "second", late[0], namespace="default", subresource="status", patch_type="strategic")
        assert scheduled(full, "second") == GATED

    def test_a_wish_that_meets_another_change_of_the_pod_is_written_again(self) -> None:
        full = world(cards=1)
        add(full, "first")
        full.settle()

        def change(call: str, about: Any) -> None:
            if "pods" in call and about == "second":
                full.meddler.before = None
                full.api.patch(PODS, "second", {"metadata": {"labels": {"a": "b"}}}, namespace="default")

        full.meddler.before = change
        add(full, "second")
        full.settle(30)
        assert asks(full, "second")


class TestQuotas:
    @staticmethod
    def limit(full: ControllerWorld, cores: int) -> None:
        spec = {"hard": {"lode.dev/cores": str(cores)}}
        full.api.create(RESOURCE_QUOTAS, {"metadata": {"name": "cards", "namespace": "default"}, "spec": spec})

    def test_a_pod_that_its_quota_would_keep_from_a_new_node_does_not_ask(self) -> None:
        full = world(cards=1)
        self.limit(full, 100)
        add(full, "first")
        full.settle()
        add(full, "second")
        full.settle()
        assert full.condition("second")[1] == "Unallocatable"
        assert not asks(full, "second")

    def test_a_pod_asks_no_more_when_its_quota_is_used_up_or_made_smaller(self) -> None:
        full = world(cards=1)
        add(full, "first")
        full.settle()
        add(full, "second")
        full.settle()
        assert asks(full, "second")
        self.limit(full, 100)
        full.settle(60)
        assert not asks(full, "second")

    @pytest.mark.parametrize("lost", ["the request", "the answer"])
    @pytest.mark.parametrize("times", [1, 3])
    def test_a_pod_whose_wish_got_no_answer_asks_again(self, lost: str, times: int) -> None:
        full = world(cards=1)
        self.limit(full, 100)
        add(full, "first")
        full.settle()
        add(full, "second")
        full.settle()
        unanswered: list[str] = []

        def lose(call: str, about: Any) -> None:
            if call == "patch pods/status" and about == "second" and len(unanswered) < times:
                unanswered.append(call)
                raise Unavailable("no answer")

        setattr(full.meddler, "before" if lost == "the request" else "after", lose)
        full.api.delete(RESOURCE_QUOTAS, "cards", "default")
        full.settle(60)
        assert unanswered
        assert asks(full, "second")

    def test_a_gang_asks_only_if_its_quota_allows_all_of_it(self) -> None:
        full = TestGangs.world(a=1)
        self.limit(full, 200)
        members = full.add_gang("train", 3)
        full.settle(20)
        assert not any(asks(full, member) for member in members)
