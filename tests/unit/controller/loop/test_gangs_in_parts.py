"""Gangs of JobSets that make their Jobs one after another: the first pods start where the others fit, too."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.kube.api import JOB_SETS, NODES, RESOURCE_CLAIM_TEMPLATES, ApiError, Object
from tests.unit.controller.loop.gangworld import GangWorld, gang_config
from tests.unit.controller.loop.test_contact import NO_RIGHT, Unreadable
from tests.unit.controller.loop.test_gangs import at
from tests.unit.controller.loop.world import Killed, expect_kill

SET = "jobset.sigs.k8s.io"
FOR_SECONDS, PAUSE_SECONDS = 600, 300
HOLD = {"forSeconds": FOR_SECONDS, "pauseSeconds": PAUSE_SECONDS, "share": 1.0}
IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
WHEN_READY, WHEN_COMPLETE = [[{"name": "leader", "status": status}] for status in ("Ready", "Complete")]


class PartsWorld(GangWorld):
    """The JobSet ``train``: a leader for one card, and then workers for one card each. The tests make its pods.

    Args:
        after: what the workers say in ``dependsOn``.
        spec: further fields of the JobSet.
        gang: fields of ``gang`` in the claims.
        of: the template of the workers.
    """

    custom = (JOB_SETS,)

    def __init__(
        self,
        workers: int = 3,
        *,
        after: list[Object] | None = None,
        spec: Object | None = None,
        hold: Object | None = None,
        gang: Object | None = None,
        of: str = "gpu",
        **sizes: int,
    ):
        self.gang = gang or {}
        self.lost_rights: dict[Any, Any] = {}
        super().__init__(settings={"hold": {**HOLD, **(hold or {})}}, **sizes)
        self.add_template()
        parts = [part("leader", 1), {**part("workers", workers, of), **({"dependsOn": after} if after else {})}]
        made = {
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {"replicatedJobs": parts, **(spec or {})},
        }
        self.uid = self.api.create(JOB_SETS, made, "default")["metadata"]["uid"]

    def reading(self) -> Any:
        reading = Unreadable(self.meddler)
        reading.errors = self.lost_rights
        return reading

    def observe(self) -> None:
        for reflector in self.controller.reflectors:
            with suppress(ApiError):
                self.follow(reflector)

    def add_template(self, name: str = "gpu", count: int = 1) -> None:
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev", "count": count}}]
        spec = {"spec": {"devices": {"requests": requests, "config": [gang_config(**self.gang)]}}}
        self.api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def make(self, name: str, number: int, run: str = "train", **pod: Any) -> list[str]:
        """The pods of a replicated job, as JobSet and the Job controller make them, with other names in each run."""
        names = [f"{run}-{name}-0-{index}" for index in range(number)]
        for index, member in enumerate(names):
            labels = {
                f"{SET}/jobset-uid": self.uid,
                f"{SET}/jobset-name": "train",
                f"{SET}/replicatedjob-name": name,
                f"{SET}/job-index": "0",
                "batch.kubernetes.io/job-completion-index": str(index),
            }
            self.add_claim(member, config=[gang_config(**self.gang)])
            self.add_pod(member, member, labels=labels, **pod)
        return names

    def single(self, name: str, cards: int = 2, **pod: Any) -> str:
        """A pod of somebody else."""
        self.add_claim(name, cards)
        self.add_pod(name, name, **pod)
        return name

    def start_leader(self) -> None:
        self.make("leader", 1)
        self.settle(5)
        self.bind_all()
        self.settle(5)


@pytest.mark.parametrize("said", ["aligned", "preferred", "nothing"])
def test_members_to_come_need_room_for_claims_that_are_aligned(said: str) -> None:
    """The devices here have no such attribute, so that nothing can be aligned by it."""
    asked = {"claim": "more", "attribute": "a.dev/root", "mode": "preferred" if said == "preferred" else "required"}
    world = PartsWorld(1, after=WHEN_READY, a=4, of="beside")
    config = gang_config()
    if said != "nothing":
        config["opaque"]["parameters"]["alignWith"] = asked
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.lode.dev"}}]
    spec = {"spec": {"devices": {"requests": requests, "config": [config]}}}
    world.api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "beside", "namespace": "default"}, "spec": spec})
    made = world.api.get(JOB_SETS, "train", "default")
    pod = made["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
    pod["resourceClaims"].append({"name": "more", "resourceClaimTemplateName": "gpu"})
    world.api.update(JOB_SETS, made)
    world.make("leader", 1)
    world.settle(20)
    assert bool(world.let_go("train-leader-0-0")) == (said != "aligned")


def part(name: str, pods: int, of: str = "gpu") -> Object:
    claims = [{"name": "gpu", "resourceClaimTemplateName": of}]
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    pod = {"containers": [container], "resourceClaims": claims}
    job = {"parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {"name": name, "replicas": 1, "template": {"spec": job}}


ORDERS: list[dict[str, Any]] = [{"spec": IN_ORDER}, {"after": WHEN_READY}]
either = pytest.mark.parametrize("order", ORDERS, ids=["InOrder", "dependsOn"])


@either
def test_the_leader_takes_no_domain_in_which_its_workers_cannot_be(order: Any) -> None:
    world = PartsWorld(a=1, b=2, **order)
    world.start_leader()
    assert world.node_of("train-leader-0-0").startswith("b"), "alone it would have gone to a, which is smaller"
    workers = world.make("workers", 3)
    world.settle(5)
    assert len(world.let_go(*workers)) == 3
    world.check_gang("train-leader-0-0", *workers, minimum=4)


def test_workers_that_will_be_adopted_keep_no_leader_waiting() -> None:
    """Their template asks for a resource that no node has, and their claims are not known before they exist."""
    world = PartsWorld(b=2, spec=IN_ORDER)
    asking = {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}}
    pod = {"containers": [{"name": "main", "resources": asking}]}
    job = {"parallelism": 3, "template": {"metadata": {"labels": {"lode.dev/gang": ""}}, "spec": pod}}
    parts = [part("leader", 1), {"name": "workers", "replicas": 1, "template": {"spec": job}}]
    world.api.patch(JOB_SETS, "train", {"spec": {"replicatedJobs": parts}}, namespace="default")
    world.start_leader()
    assert world.node_of("train-leader-0-0")
    workers = world.make("workers", 3)
    world.settle(5)
    assert len(world.let_go(*workers)) == 3


@either
def test_room_for_the_workers_is_kept_until_they_come(order: Any) -> None:
    world = PartsWorld(a=1, b=2, **order)
    world.start_leader()
    others = [world.single("other-1"), world.single("other-2")]
    world.settle(60)
    assert sorted(world.nodes_of(*others)) == ["", "a1"], "what is not held back is for all"
    workers = world.make("workers", 3)
    world.settle(5)
    assert len(world.let_go(*workers)) == 3
    assert not world.controller.held_domains


def test_a_new_run_of_the_controller_keeps_the_room_as_well() -> None:
    world = PartsWorld(b=2, spec=IN_ORDER)
    world.start_leader()
    world.start()
    world.settle(5)
    other = world.single("other")
    world.settle(60)
    assert world.node_of(other) == ""
    workers = world.make("workers", 3)
    world.settle(5)
    assert len(world.let_go(*workers)) == 3


@given(st.integers(0, 3), st.integers(1, 3), st.integers(1, 5))
@settings(max_examples=12, deadline=None)
def test_the_leader_goes_where_it_would_go_if_all_members_existed(a: int, b: int, workers: int) -> None:
    in_parts, at_once = PartsWorld(workers, a=a, b=b, spec=IN_ORDER), PartsWorld(workers, a=a, b=b)
    at_once.make("workers", workers)
    for world in (in_parts, at_once):
        world.start_leader()
    fabrics = [world.node_of("train-leader-0-0")[:1] for world in (in_parts, at_once)]
    assert fabrics[0] == fabrics[1]
    members = in_parts.make("workers", workers)
    in_parts.settle(5)
    assert len(in_parts.let_go(*members)) == (workers if fabrics[0] else 0)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 6))
def test_killed_at_any_write_of_the_first_part(number: int, moment: str) -> None:
    world = PartsWorld(a=1, b=2, spec=IN_ORDER)
    setattr(world.meddler, moment, at(number, Killed()))
    with expect_kill():
        world.start_leader()
    world.start()
    world.settle(60)
    world.bind_all()
    world.settle(5)
    assert world.node_of("train-leader-0-0").startswith("b")
    world.single("other")
    workers = world.make("workers", 3)
    world.settle(5)
    assert len(world.let_go(*workers)) == 3


def test_when_all_have_come_nothing_is_held_back() -> None:
    world = PartsWorld(workers=1, b=2, spec=IN_ORDER)
    world.start_leader()
    assert world.controller.held_domains
    world.make("workers", 1)
    world.settle(5)
    assert not world.controller.held_domains
    other = world.single("other")
    world.settle(5)
    assert world.node_of(other)


def test_workers_that_come_one_by_one_keep_the_room_of_the_others() -> None:
    world = PartsWorld(b=2, spec=IN_ORDER)
    world.start_leader()
    world.make("workers", 1)
    world.settle(5)
    other = world.single("other", cards=1)
    world.settle(5)
    assert world.node_of(other) == ""
    assert [sorted(held.nodes) for held in world.controller.held_domains] == [["b2"]]


def test_room_is_kept_for_a_time_and_then_for_others() -> None:
    world = PartsWorld(b=2, spec=IN_ORDER)
    world.start_leader()
    other = world.single("other")
    world.settle(FOR_SECONDS - 60)
    assert world.node_of(other) == ""
    world.settle(120)
    assert world.node_of(other) == "b2"
    workers = world.make("workers", 3)
    world.settle(60)
    assert len(world.let_go(*workers)) == 1
    world.remove_pod(other)
    world.settle(60)
    assert len(world.let_go(*workers)) == 3


def test_after_the_pause_room_is_kept_again() -> None:
    world = PartsWorld(b=2, spec=IN_ORDER)
    world.start_leader()
    world.settle(FOR_SECONDS + 5)
    assert not world.controller.held_domains
    world.settle(2 * PAUSE_SECONDS + 5)
    assert world.controller.held_domains


def test_without_holds_the_domain_is_the_same() -> None:
    world = PartsWorld(a=1, b=2, spec=IN_ORDER, hold={"enabled": False})
    world.start_leader()
    assert world.node_of("train-leader-0-0").startswith("b")
    assert not world.controller.held_domains


def test_what_is_held_back_for_another_gang_does_not_end() -> None:
    world = PartsWorld(b=5, spec=IN_ORDER, hold={"afterSeconds": 60})
    for node in ("b1", "b2", "b3"):
        world.api.patch(NODES, node, {"metadata": {"labels": {"pool": "large"}}})
    busy = [world.single(f"busy-{number}", nodeSelector={"pool": "large"}) for number in range(3)]
    world.settle(5)
    world.bind_all()
    large = world.add_gang("large", 6, nodeSelector={"pool": "large"})
    world.settle(120)
    assert [held.gang for held in world.controller.held_domains] == ["default/large"]
    world.start_leader()
    assert world.node_of("train-leader-0-0") in ("b4", "b5")
    assert [held.gang for held in world.controller.held_domains] == ["default/large"]
    for pod in busy:
        world.remove_pod(pod)
    world.settle(5)
    assert len(world.let_go(*large)) == 6


def test_a_job_set_that_goes_holds_nothing_back() -> None:
    world = PartsWorld(b=2, spec=IN_ORDER)
    world.start_leader()
    other = world.single("other")
    world.settle(5)
    world.api.delete(JOB_SETS, "train", "default")
    world.remove_pod("train-leader-0-0")
    world.settle(5)
    assert not world.controller.held_domains
    assert world.node_of(other)


def test_nothing_starts_while_there_is_no_room_for_all() -> None:
    world = PartsWorld(a=1, b=1, spec=IN_ORDER)
    world.start_leader()
    assert world.node_of("train-leader-0-0") == ""
    assert world.condition("train-leader-0-0")[1] == "Unallocatable"
    assert "of 4 members fit in a" in world.condition("train-leader-0-0")[2]
    world.add_node("b2", 2)
    world.label("b2", "b")
    world.settle(5)
    assert world.node_of("train-leader-0-0").startswith("b")


def test_a_node_that_only_later_members_can_use_helps_the_first_ones() -> None:
    world = PartsWorld(b=1, spec=IN_ORDER)
    world.make("leader", 1, nodeSelector={"kubernetes.io/hostname": "b1"})
    world.api.patch(NODES, "b1", {"metadata": {"labels": {"kubernetes.io/hostname": "b1"}}})
    world.settle(60)
    assert world.node_of("train-leader-0-0") == ""
    world.add_node("b2", 2)
    world.label("b2", "b")
    world.settle(5)
    assert world.node_of("train-leader-0-0") == "b1"


def test_what_later_members_ask_for_is_waited_for() -> None:
    world = PartsWorld(a=1, b=2, spec=IN_ORDER)
    world.api.delete(RESOURCE_CLAIM_TEMPLATES, "gpu", "default")
    world.settle(5)
    world.start_leader()
    world.settle(10)
    assert world.condition("train-leader-0-0")[1] == "GangIncomplete"
    assert "ResourceClaimTemplate default/gpu: does not exist" in world.condition("train-leader-0-0")[2]
    world.add_template()
    world.settle(5)
    assert world.node_of("train-leader-0-0").startswith("b")


@pytest.mark.parametrize(("of", "node"), [("lode.gpu", "b"), ("lode.unicorn", "a1")])
def test_what_a_template_on_demand_will_be_is_known_before(of: str, node: str) -> None:
    world = PartsWorld(a=1, b=2, spec=IN_ORDER, of=of)
    world.start_leader()
    assert world.node_of("train-leader-0-0").startswith(node)


def test_members_that_ask_for_what_nobody_can_have_do_not_keep_the_others_waiting() -> None:
    world = PartsWorld(a=1, spec=IN_ORDER)
    world.api.delete(RESOURCE_CLAIM_TEMPLATES, "gpu", "default")
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "unknown"}}]
    made = {"metadata": {"name": "gpu", "namespace": "default"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    world.api.create(RESOURCE_CLAIM_TEMPLATES, made)
    world.start_leader()
    assert world.node_of("train-leader-0-0") == "a1"


def test_without_the_right_to_templates_the_first_part_starts_without_room_for_others() -> None:
    world = PartsWorld(a=1, spec=IN_ORDER)
    world.lost_rights[RESOURCE_CLAIM_TEMPLATES] = NO_RIGHT
    world.start()
    world.settle(60)
    world.start_leader()
    assert world.node_of("train-leader-0-0") == "a1"


def test_members_that_come_after_others_have_ended_may_have_their_devices() -> None:
    world = PartsWorld(workers=2, a=1, after=WHEN_COMPLETE)
    world.start_leader()
    assert world.node_of("train-leader-0-0") == "a1", "there is no room for three"
    assert not world.controller.held_domains


def test_members_beyond_the_minimum_get_no_room_before_they_come() -> None:
    world = PartsWorld(a=1, b=2, spec=IN_ORDER)
    world.add_claim("leader", config=[gang_config(minAvailable=1)])
    labels = {f"{SET}/jobset-uid": world.uid, f"{SET}/jobset-name": "train", f"{SET}/replicatedjob-name": "leader"}
    world.add_pod("leader", "leader", labels=labels)
    world.settle(10)
    assert world.node_of("leader") == "a1"


def test_a_job_set_that_is_made_anew_is_told_nothing_while_it_is_made() -> None:
    """JobSet makes its Jobs one after the other, and all anew at each restart."""
    world = PartsWorld(a=2)
    world.make("leader", 1)
    world.settle(5)
    assert world.condition("train-leader-0-0") == ("", "", "")
    workers = world.make("workers", 3)
    world.settle(5)
    assert len(world.let_go("train-leader-0-0", *workers)) == 4
    for name in ("train-leader-0-0", *workers):
        world.remove_pod(name)
    world.make("leader", 1, run="again")
    world.settle(5)
    assert world.condition("again-leader-0-0") == ("", "", "")
    assert world.events("again-leader-0-0") == []
    world.settle(15)
    assert world.condition("again-leader-0-0")[1:] == (
        "GangIncomplete",
        "gang default/JobSet/train: 1 of 4 members exist",
    )


@pytest.mark.parametrize("order", [{"spec": IN_ORDER}, {"after": WHEN_READY}], ids=["in-order", "depends-on"])
def test_sub_groups_of_a_job_set_that_makes_its_jobs_in_an_order_are_refused(order: Any) -> None:
    """Whether members that do not exist yet make one whole is not known."""
    world = PartsWorld(a=2, gang={"subGroup": {"label": f"{SET}/job-index", "size": 1}}, **order)
    world.start_leader()
    world.make("workers", 3)
    world.settle(10)
    for pod in ("train-leader-0-0", "train-workers-0-2"):
        assert world.node_of(pod) == ""
        assert world.condition(pod)[1] == "GangInvalid"
        assert (
            "gang.subGroup: not supported with a JobSet that makes its Jobs one after another"
            in (world.condition(pod)[2])
        )


def test_sub_groups_of_a_job_set_without_an_order_start() -> None:
    world = PartsWorld(a=2, gang={"subGroup": {"label": f"{SET}/replicatedjob-name", "size": 1}})
    pods = [*world.make("leader", 1), *world.make("workers", 3)]
    world.settle(10)
    assert len(world.let_go(*pods)) == 4


def test_a_job_set_that_promises_any_number_of_members_costs_no_more_than_a_large_one() -> None:
    world = PartsWorld(workers=2_000_000_000, b=2, spec=IN_ORDER)
    world.start_leader()
    assert "of 1001 members fit" in world.condition("train-leader-0-0")[2]
