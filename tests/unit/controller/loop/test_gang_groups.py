"""Gangs that a PodGroup object describes, whose minimum can change while they start."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from driver.kube.api import COSCHEDULING_POD_GROUPS, POD_GROUPS, VOLCANO_POD_GROUPS
from tests.unit.controller.loop.gangworld import GangWorld, gang_config
from tests.unit.controller.loop.test_gangs import at
from tests.unit.controller.loop.world import Killed, expect_kill

GROUP = "scheduling.k8s.io/group-name"
WRITES_OF_A_GANG = range(1, 19)
TOPOLOGY = {"schedulingConstraints": {"topology": [{"key": "fabric"}]}}


class GroupWorld(GangWorld):
    """The gang ``train`` is a PodGroup: of coscheduling, or of ``scheduling.k8s.io``."""

    def __init__(self, minimum: int, *, by_scheduler: bool = False, a: int = 1, b: int = 0):
        self.group = POD_GROUPS[0] if by_scheduler else COSCHEDULING_POD_GROUPS
        self.custom = (self.group,)
        super().__init__(a=a, b=b)
        self._by_scheduler = by_scheduler
        metadata = {"name": "train", "namespace": "default"}
        self.api.create(self.group, {"metadata": metadata, "spec": self._spec(minimum)}, "default")

    def _spec(self, minimum: int) -> Any:
        gang = {"gang": {"minCount": minimum}}
        return {"schedulingPolicy": gang, **TOPOLOGY} if self._by_scheduler else {"minMember": minimum}

    def set_minimum(self, minimum: int) -> None:
        self.api.patch(self.group, "train", {"spec": self._spec(minimum)}, namespace="default")

    def add_members(self, number: int, first: int = 0) -> list[str]:
        names = [f"train-{one}" for one in range(first, first + number)]
        for name in names:
            self.add_claim(name, config=[] if self._by_scheduler else [gang_config()])
            self._add_member(name)
        return names

    def _add_member(self, name: str) -> None:
        if self._by_scheduler:
            self.add_pod(name, name, schedulingGroup={"podGroupName": "train"})
        else:
            self.add_pod(name, name, labels={"scheduling.x-k8s.io/pod-group": "train"})

    def at_write(self, number: int, act: Callable[[], None]) -> None:
        """Act just before the controller's write of that number."""
        calls = count(1)

        def meddle(what: str, about: Any) -> None:
            if next(calls) == number:
                act()

        self.meddler.before = meddle

    def removals(self) -> list[int]:
        """When gates were removed, as numbers of calls."""
        calls = zip(self.meddler.calls, self.meddler.bodies, strict=True)
        return [n for n, (call, body) in enumerate(calls) if call == "patch pods" and isinstance(body[1], list)]


@pytest.mark.parametrize("number", WRITES_OF_A_GANG)
@pytest.mark.parametrize("raised", [5, 6])
def test_a_minimum_raised_at_any_write_never_leaves_fewer_than_when_it_was_decided(number: int, raised: int) -> None:
    """Four of four members start, or nothing is held until as many exist as are needed now."""
    world = GroupWorld(minimum=4, a=3)
    pods = world.add_members(4)
    world.at_write(number, lambda: world.set_minimum(raised))
    world.settle(30)
    held = [node for node in world.nodes_of(*pods) if node]
    assert len(world.let_go(*pods)) == len(held)
    assert len(held) in (0, 4)
    world.bind_all()
    pods += world.add_members(2, first=4)
    world.settle(30)
    world.check_gang(*pods, minimum=raised)
    assert len(world.let_go(*pods)) == 6


@pytest.mark.parametrize("number", WRITES_OF_A_GANG)
def test_a_minimum_raised_beyond_the_room_starts_what_was_decided_or_nothing(number: int) -> None:
    world = GroupWorld(minimum=4, a=2)
    pods = world.add_members(6)
    world.at_write(number, lambda: world.set_minimum(6))
    world.settle(60)
    held = [node for node in world.nodes_of(*pods) if node]
    assert len(world.let_go(*pods)) == len(held)
    assert len(held) in (0, 4)


@pytest.mark.parametrize("number", WRITES_OF_A_GANG)
def test_a_minimum_lowered_at_any_write_starts_the_gang(number: int) -> None:
    world = GroupWorld(minimum=4, a=2)
    pods = world.add_members(4)
    world.at_write(number, lambda: world.set_minimum(2))
    world.settle(30)
    world.check_gang(*pods, minimum=2)
    assert len(world.let_go(*pods)) == 4


def test_a_gang_that_waits_starts_when_its_minimum_is_lowered() -> None:
    world = GroupWorld(minimum=4, a=1)
    pods = world.add_members(4)
    world.settle(30)
    assert world.nodes_of(*pods) == [""] * 4
    world.set_minimum(2)
    world.settle(5)
    assert len(world.let_go(*pods)) == 2


# Groups that kube-scheduler schedules as one


def test_a_group_of_kube_scheduler_is_let_go_with_all_members_that_exist() -> None:
    world = GroupWorld(minimum=2, by_scheduler=True, a=2)
    pods = world.add_members(4)
    world.settle(10)
    assert len(world.let_go(*pods)) == 4
    written = [n for n, call in enumerate(world.meddler.calls) if call == "patch resourceclaims/status"]
    assert len(world.removals()) == 4
    assert max(written) < min(world.removals())


def test_a_group_of_kube_scheduler_waits_while_there_is_room_for_some_only() -> None:
    world = GroupWorld(minimum=2, by_scheduler=True, a=1, b=1)
    pods = world.add_members(4)
    world.settle(30)
    assert world.let_go(*pods) == []
    assert world.nodes_of(*pods) == [""] * 4
    assert "2 of 4 members fit in a" in world.condition(pods[0])[2]
    world.add_node("b2", 2)
    world.label("b2", "b")
    world.settle(5)
    assert len(world.let_go(*pods)) == 4


# Groups with a minimum for each task


class VolcanoWorld(GangWorld):
    """The gang ``train`` is a PodGroup of Volcano: at least one pod of task ``ps`` and two of task ``worker``."""

    def __init__(self, a: int, b: int = 0):
        self.custom = (VOLCANO_POD_GROUPS,)
        super().__init__(a=a, b=b)
        spec = {"minMember": 3, "minTaskMember": {"ps": 1, "worker": 2}}
        metadata = {"name": "train", "namespace": "default"}
        self.api.create(VOLCANO_POD_GROUPS, {"metadata": metadata, "spec": spec}, "default")

    def add_members(self, task: str, number: int, cards: int = 1) -> list[str]:
        names = [f"{task}-{one}" for one in range(number)]
        for name in names:
            self.add_claim(name, cards, config=[gang_config()])
            self.add_pod(name, name, labels={"volcano.sh/task-spec": task}, annotations={GROUP: "train"})
        return names


def test_a_group_waits_for_the_members_of_each_task() -> None:
    world = VolcanoWorld(a=2)
    workers = world.add_members("worker", 3)
    world.settle(30)
    assert world.let_go(*workers) == []
    assert world.condition(workers[0])[1:] == (
        "GangIncomplete",
        "gang default/train: 3 of 3 members exist, 0 of 1 of task ps",
    )
    world.settle(5)
    pods = [*workers, *world.add_members("ps", 1)]
    world.settle(30)
    assert world.let_go(*pods) == pods
    world.check_gang(*pods, minimum=3)


def test_a_group_goes_where_each_task_has_room() -> None:
    world = VolcanoWorld(a=1, b=2)
    pods = [*world.add_members("worker", 4), *world.add_members("ps", 1, cards=2)]
    world.settle(30)
    started = world.let_go(*pods)
    assert "ps-0" in started
    assert len(started) == 3
    assert {node[0] for node in world.nodes_of(*started)} == {"b"}


# Groups with a minimum of whole sub-groups


class SubGroupWorld(GangWorld):
    """The gang ``train`` is a PodGroup of Volcano: at least one whole sub-group of four pods."""

    def __init__(self, cards: int, **policy: Any):
        self.custom = (VOLCANO_POD_GROUPS,)
        super().__init__(cards=cards, a=1)
        said = {"subGroupSize": 4, "minSubGroups": 1, "matchLabelKeys": ["volcano.sh/partition-id"], **policy}
        metadata = {"name": "train", "namespace": "default"}
        self.api.create(VOLCANO_POD_GROUPS, {"metadata": metadata, "spec": {"subGroupPolicy": [said]}}, "default")

    def add_members(self, partition: int, number: int) -> list[str]:
        names = [f"p{partition}-{one}" for one in range(number)]
        labels = {"volcano.sh/partition-id": str(partition)}
        for name in names:
            self.add_claim(name, 1, config=[gang_config()])
            self.add_pod(name, name, labels=labels, annotations={GROUP: "train"})
        return names


def test_three_pods_of_each_of_two_sub_groups_of_four_are_no_start() -> None:
    world = SubGroupWorld(cards=8)
    pods = [*world.add_members(0, 3), *world.add_members(1, 3)]
    world.settle(30)
    assert world.let_go(*pods) == []
    text = "gang default/train: 6 of 4 members exist, in 0 of 1 whole sub-groups of 4"
    assert world.condition(pods[0])[1:] == ("GangIncomplete", text)
    world.add_claim("p1-3", 1, config=[gang_config()])
    world.add_pod("p1-3", "p1-3", labels={"volcano.sh/partition-id": "1"}, annotations={GROUP: "train"})
    world.settle(30)
    assert world.let_go(*pods, "p1-3") == ["p1-0", "p1-1", "p1-2", "p1-3"]


def test_a_part_of_a_sub_group_does_not_use_the_rest_of_the_room() -> None:
    world = SubGroupWorld(cards=7)
    first, second = world.add_members(0, 4), world.add_members(1, 4)
    world.settle(30)
    assert world.let_go(*first, *second) == first
    assert "4 of 5 members fit in a (too few sub-groups fit as a whole)" in world.condition(second[0])[2]
    world.bind_all()
    world.add_node("a2", 1)
    world.label("a2", "a")
    world.settle(30)
    assert world.let_go(*second) == second


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("at_once", [True, False], ids=["with the gang", "later"])
def test_a_sub_group_beyond_the_minimum_is_let_go_whole_or_not_at_all(number: int, at_once: bool) -> None:
    """The controller is killed after some write, and another pod takes a place meanwhile."""
    world = SubGroupWorld(cards=4, subGroupSize=2)
    first = world.add_members(0, 2)
    if not at_once:
        world.settle(30)
        world.bind_all()
    second = world.add_members(1, 2)
    world.meddler.after = at(number, Killed())
    with expect_kill():
        world.settle(30)
    world.add_claim("other", 1)
    world.add_pod("other", "other", priority=1000)
    world.start()
    world.settle(60)
    assert [len(world.let_go(*one)) for one in (first, second)] in ([2, 2], [2, 0], [0, 2])
    assert all(node == "" for pod, node in zip(second, world.nodes_of(*second), strict=True) if world.let_go(pod) == [])


def test_what_half_a_sub_group_holds_is_taken_back_when_the_other_half_is_gone() -> None:
    world = SubGroupWorld(cards=4, subGroupSize=2)
    world.add_members(0, 2)
    world.settle(30)
    world.bind_all()
    second = world.add_members(1, 2)
    world.meddler.after = at(2, Killed())
    with expect_kill():
        world.settle(30)
    held, other = sorted(second, key=lambda pod: world.node_of(pod), reverse=True)
    assert (world.node_of(held), world.node_of(other)) == ("a1", "")
    world.remove_pod(other)
    world.start()
    world.settle(30)
    assert (world.node_of(held), world.let_go(held)) == ("", [])


def test_a_member_without_claims_counts_for_its_sub_group() -> None:
    """Each replica is a router without devices and a worker with a card."""
    world = GangWorld(cards=4, a=1)
    config = [gang_config("train", 2, subGroup={"label": "replica", "size": 2, "minAvailable": 1})]
    for number in range(2):
        labels, worker = {"replica": f"r{number}"}, f"r{number}-1"
        world.add_pod(f"r{number}-0", labels={**labels, "lode.dev/gang": "train"})
        world.add_claim(worker, config=config)
        world.add_pod(worker, worker, labels=labels)
        world.settle(30)
        assert world.let_go(f"r{number}-0", worker) == [f"r{number}-0", worker]
        world.bind_all()
    assert world.meddler.calls.count("patch resourceclaims/status") == 2, "nothing is taken back"


def test_sub_groups_by_a_label_that_claims_name() -> None:
    world = GangWorld(cards=3, a=1)
    pods = [f"r{number}-{one}" for number in range(2) for one in range(2)]
    for name in pods:
        world.add_claim(name, 1, config=[gang_config("chat", 1, subGroup={"label": "replica", "size": 2})])
        world.add_pod(name, name, labels={"replica": name[:2]})
    world.settle(30)
    assert world.let_go(*pods) == pods[:2]


class Serving(GangWorld):
    """The gang ``chat``: replicas of two pods that prefill and of three that decode, at least one of each."""

    def replica(self, role: str, number: int, size: int) -> list[str]:
        sizes = {"prefill": 2, "decode": 3}
        kinds = [{"label": "replica", "size": pods, "matchLabels": {"role": of}} for of, pods in sizes.items()]
        names = [f"{role}-{number}-{one}" for one in range(size)]
        for name in names:
            self.add_claim(name, 1, config=[gang_config("chat", 1, subGroups=kinds)])
            self.add_pod(name, name, labels={"role": role, "replica": f"{number}"})
        return names


def test_a_replica_of_each_kind_starts_together_and_further_ones_whole() -> None:
    world = Serving(cards=8, a=1)
    prefill = [world.replica("prefill", number, 2) for number in range(2)]
    world.settle(30)
    assert world.let_go(*prefill[0], *prefill[1]) == [], "no replica that decodes is there"
    assert world.condition(prefill[0][0])[1] == "GangIncomplete"
    decode = [world.replica("decode", number, 3) for number in range(2)]
    world.settle(30)
    started = [len(world.let_go(*one)) for one in (*prefill, *decode)]
    # Eight cards: one replica of each kind has five of them; then another one of two, or another one of three.
    assert sorted(started[:2]) + sorted(started[2:]) in ([2, 2, 0, 3], [0, 2, 3, 3])


def test_where_only_one_kind_has_room_nobody_starts() -> None:
    world = Serving(cards=4, a=1)
    pods = [*world.replica("prefill", 0, 2), *world.replica("prefill", 1, 2), *world.replica("decode", 0, 3)]
    world.settle(30)
    assert world.let_go(*pods) == []
    assert "5 members fit" in world.condition(pods[0])[2]


def test_a_job_set_of_which_not_all_jobs_exist_yet_is_told_so_only_if_that_lasts() -> None:
    """JobSet makes its Jobs one after the other, and all anew at each restart."""
    world = GangWorld(a=2)
    labels = {"jobset.sigs.k8s.io/jobset-uid": "uid", "jobset.sigs.k8s.io/jobset-name": "train"}
    world.add_claim("c", config=[gang_config()])
    world.add_pod("p", "c", labels=labels)
    world.settle(5)
    assert world.condition("p") == ("", "", "")
    world.settle(15)
    assert world.condition("p")[1] == "GangIncomplete"
    assert "0 of an unknown number of Jobs of JobSet train exist" in world.condition("p")[2]
    assert "let this program list and watch jobsets.jobset.x-k8s.io" in world.condition("p")[2]


def test_a_member_without_claims_counts_on_its_node_from_the_decision_until_it_is_bound() -> None:
    world = GangWorld(a=1)
    world.add_claim("work", 1, config=[gang_config("train", 2)])
    world.add_pod("work", "work", cpu="1")
    world.add_pod("launcher", cpu="5", labels={"lode.dev/gang": "train"})
    world.latency = lambda sequence, result: 30.0
    world.settle(5)
    world.add_claim("other", 1)
    world.add_pod("other", "other", cpu="4")
    world.settle(5)
    assert world.node_of("other") == "", "of 8 CPUs, 6 are promised while the first write is under way"
    world.latency = lambda sequence, result: 0.0
    world.settle(300)
    assert world.let_go("work", "launcher") == ["work", "launcher"]
    assert world.node_of("other") == "", "the launcher is not bound yet"
    world.bind("launcher", "a1")
    world.remove_pod("launcher")
    world.settle(60)
    assert world.node_of("other") == "a1"
