"""Who goes with whom, and who never goes."""

from dataclasses import replace

import pytest

from controller.gangs import SubGroups
from controller.membership import Quorum
from controller.placement import PodLabels
from controller.placement.needs import PodSelector, PodTerm
from controller.preemption import Preemption, Unevicted
from controller.preemption.occupancy import GangMember, RunningGang
from controller.preemption.values import KeptPods
from controller.refusal import Refusal
from driver.label_selectors import LabelSelector
from driver.model import Consumer, NodeRequirement
from tests.unit.controller.preemption.cases import HALF, WHOLE, Cluster, nobody, pod, victims

GANG = "ns/gang"


def with_gang(members: int, minimum: int, *, free: str = "") -> Cluster:
    """A gang with a member on each node, and, with ``free``, a pod besides that may go, too."""
    cluster = Cluster([1] * (members + bool(free)))
    names = [f"member-{number}" for number in range(members)]
    for number, name in enumerate(names):
        cluster.hold(name, WHOLE, node=f"n{number + 1}", gang=GANG)
    cluster.gangs = {GANG: RunningGang(GANG, tuple(GangMember(f"uid-{name}") for name in names), minimum)}
    if free:
        cluster.hold(free, WHOLE, node=f"n{members + 1}", created=-1)
    return cluster


def test_a_gang_gives_members_that_it_does_not_need() -> None:
    assert victims(with_gang(3, 2).preempt(pod(WHOLE))) == ["member-0"]


def test_a_gang_that_needs_every_member_goes_whole_or_not_at_all() -> None:
    assert victims(with_gang(3, 3, free="free").preempt(pod(WHOLE))) == ["free"]
    # Those come first whose end makes no room: nobody is spared because the room is there already.
    assert victims(with_gang(3, 3).preempt(replace(pod(WHOLE), among=("n1",)))) == ["member-1", "member-2", "member-0"]


def test_a_gang_of_which_a_member_is_protected_does_not_go() -> None:
    cluster = with_gang(2, 2)
    cluster.change("member-1", priority=10)
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    assert answer.why.kept == (
        KeptPods("do not have a lower priority", 1, ("ns/member-1",)),
        KeptPods("would go with pods that do not have a lower priority", 1, ("ns/member-0",)),
    )


def test_a_member_that_is_going_counts_no_more() -> None:
    cluster = with_gang(3, 2)
    cluster.change("member-2", going=True, node="n3")
    answer = cluster.preempt(replace(pod(WHOLE), among=("n1",)))
    assert victims(answer) == ["member-1", "member-0"]


def test_a_sub_group_goes_whole_and_the_gang_with_it_if_it_needs_it() -> None:
    for minimum, expected in ((1, {"member-0", "member-1"}), (2, {f"member-{number}" for number in range(4)})):
        cluster = with_gang(4, 1)
        members = [GangMember(f"uid-member-{number}", "", (0, "ab"[number // 2])) for number in range(4)]
        cluster.gangs = {GANG: RunningGang(GANG, tuple(members), sub_groups=(SubGroups(2, minimum),))}
        assert set(victims(cluster.preempt(pod(WHOLE)))) == expected


def test_a_task_keeps_its_minimum() -> None:
    cluster = with_gang(3, 1)
    members = [GangMember(f"uid-member-{number}", "server" if number == 0 else "worker") for number in range(3)]
    cluster.gangs = {GANG: RunningGang(GANG, tuple(members), task_minimums=(("server", 1), ("worker", 1)))}
    assert victims(cluster.preempt(pod(WHOLE))) == ["member-1"]


@pytest.mark.parametrize(("groups", "gone"), [(1, ["member-0"]), (2, ["member-0", "member-1", "member-2", "member-3"])])
def test_a_gang_of_groups_goes_with_the_last_group_that_it_needs(groups: int, gone: list[str]) -> None:
    cluster = with_gang(4, 1)
    members = [GangMember(f"uid-member-{number}", "ab"[number // 2]) for number in range(4)]
    quorum = Quorum("all", groups, groups=(Quorum("a", 2, "a"), Quorum("b", 2, "b")))
    cluster.gangs = {GANG: RunningGang(GANG, tuple(members), quorum=quorum)}
    assert sorted(victims(cluster.preempt(pod(WHOLE)))) == gone


def test_a_gang_of_which_a_member_is_not_known_does_not_go() -> None:
    cluster = with_gang(1, 1)
    cluster.gangs = {GANG: replace(cluster.gangs[GANG], members=(GangMember("uid-member-0"), GangMember("uid-other")))}
    cluster.gangs[GANG] = replace(cluster.gangs[GANG], minimum=2)
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    assert [one.pods for one in answer.why.kept] == [1]


def test_users_of_one_claim_go_together() -> None:
    cluster = Cluster([1, 1])
    cluster.hold("first", WHOLE)
    cluster.hold("second", claims=cluster.holders["first"].claims, created=5)
    cluster.hold("alone", WHOLE, node="n2", created=-1)
    assert victims(cluster.preempt(pod(WHOLE))) == ["alone"]
    answer = cluster.preempt(replace(pod(WHOLE), among=("n1",)))
    assert victims(answer) == ["second", "first"]
    assert isinstance(answer, Preemption)
    assert [one.claims for one in answer.victims] == [("ns/first",), ("ns/first",)]
    cluster.change("second", priority=10)
    assert isinstance(cluster.preempt(replace(pod(WHOLE), among=("n1",))), Refusal)


def test_what_a_pod_that_is_going_shares_is_free_when_the_other_goes() -> None:
    cluster = Cluster([1])
    cluster.hold("first", WHOLE)
    cluster.hold("second", claims=cluster.holders["first"].claims, going=True)
    assert victims(cluster.preempt(pod(WHOLE))) == ["first"]


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        (Consumer("pods", "stranger", "uid-stranger"), "share a claim with a pod that is not known"),
        (Consumer("workloads", "w", "uid-w", "example.com"), "share a claim with workloads"),
    ],
)
def test_a_claim_with_users_that_are_not_known_is_kept(user: Consumer, reason: str) -> None:
    cluster = Cluster([1])
    cluster.hold("low", WHOLE)
    (held,) = cluster.holders["low"].claims
    cluster.change("low", claims=(replace(held, reserved_for=(*held.reserved_for, user)),))
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    assert answer.why.kept == (KeptPods(reason, 1, ("ns/low",)),)


def test_the_claim_of_a_pod_group_outlasts_its_pods() -> None:
    group = Consumer("podgroups", "g", "uid-g", "scheduling.k8s.io")
    cluster = Cluster([1])
    cluster.hold("low", WHOLE)
    (held,) = cluster.holders["low"].claims
    cluster.change("low", claims=(replace(held, reserved_for=(group,)),))
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    assert answer.why.kept == (KeptPods("use only claims of PodGroups, which last as long as these", 1, ("ns/low",)),)
    cluster = Cluster([2])
    cluster.hold("both", WHOLE)
    cluster.hold("other", WHOLE)
    (held,), (own,) = cluster.holders["both"].claims, cluster.holders.pop("other").claims
    cluster.change("both", claims=(replace(held, reserved_for=(group,)), replace(own, reserved_for=())))
    answer = cluster.preempt(pod(WHOLE))
    assert victims(answer) == ["both"]
    assert isinstance(answer, Preemption)
    assert answer.victims[0].claims == (own.key,)


def test_a_member_without_devices_keeps_nobody_of_its_gang_and_goes_only_with_it() -> None:
    cluster = Cluster([1])
    cluster.hold("low", WHOLE, gang="g")
    cluster.hold("boss", gang="g", priority=10**6)
    members = (GangMember("uid-low"), GangMember("uid-boss"))
    cluster.gangs["g"] = RunningGang("g", members, minimum=2)
    assert sorted(victims(cluster.preempt(pod(WHOLE)))) == ["boss", "low"]
    cluster = Cluster([1], cpus=2)
    cluster.hold("boss", gang="g", priority=10**6, cpus=2)
    cluster.gangs["g"] = RunningGang("g", (GangMember("uid-boss"),))
    assert isinstance(cluster.preempt(pod(WHOLE, cpus=1)), Refusal)


def test_a_claim_with_devices_of_others_or_admin_access_is_kept() -> None:
    for change, reason in (
        ({"driver": "other.example.com"}, "hold devices of other drivers in a claim of ours"),
        ({"admin_access": True}, "have admin access"),
    ):
        cluster = Cluster([1])
        cluster.hold("low", WHOLE)
        (held,) = cluster.holders["low"].claims
        assert held.allocation is not None
        (result,) = held.allocation.results
        if "driver" in change:
            more = replace(result, device=replace(result.device, driver="other.example.com"))
        else:
            more = replace(result, admin_access=True)
        allocation = replace(held.allocation, results=(result, more))
        cluster.change("low", claims=(replace(held, allocation=allocation),))
        answer = cluster.preempt(pod(WHOLE))
        assert isinstance(answer, Refusal)
        assert answer.why.kept == (KeptPods(reason, 1, ("ns/low",)),)


def test_a_budget_is_never_exceeded() -> None:
    cluster = Cluster([1])
    for name in ("a", "b"):
        cluster.hold(name, HALF, budgets=("ns/budget",))
    cluster.budgets = {"ns/budget": 2}
    assert victims(cluster.preempt(pod(WHOLE))) == ["a", "b"]
    cluster.budgets = {"ns/budget": 1}
    assert victims(cluster.preempt(pod(HALF))) == ["a"]
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    reason = "are more than the 1 that PodDisruptionBudget ns/budget lets go"
    assert nobody(answer) == Unevicted((KeptPods(reason, 2, ("ns/a", "ns/b")),))
    cluster.budgets = {}
    answer = cluster.preempt(pod(HALF))
    assert isinstance(answer, Refusal)
    assert answer.why.kept == (KeptPods("PodDisruptionBudget ns/budget does not let go", 2, ("ns/a", "ns/b")),)


def test_a_pod_with_two_budgets_is_kept_as_the_api_evicts_no_such_pod() -> None:
    cluster = Cluster([1])
    cluster.hold("low", WHOLE, budgets=("ns/one", "ns/two"))
    cluster.budgets = {"ns/one": 5, "ns/two": 5}
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    (kept,) = answer.why.kept
    assert kept.reason == "are selected by several PodDisruptionBudgets, which the Eviction API refuses"


def test_reasons_and_names_are_bounded() -> None:
    cluster = Cluster([12])
    for number in range(12):
        cluster.hold(f"low-{number:02}", WHOLE, kept=f"are protected by rule {number if number < 9 else 9}")
    answer = cluster.preempt(pod(WHOLE))
    assert isinstance(answer, Refusal)
    assert answer.why.kept[0] == KeptPods("are protected by rule 9", 3, ("ns/low-09", "ns/low-10", "ns/low-11"))
    assert len(answer.why.kept) == 8


def test_the_pods_that_an_affinity_wants_are_kept() -> None:
    cluster = Cluster([1])
    cluster.hold("database", WHOLE, labels=PodLabels("ns", (("app", "database"),)))
    selector = LabelSelector((NodeRequirement("app", "In", ("database",)),))
    term = PodTerm(PodSelector(frozenset({"ns"}), selector), "host")
    important = pod(WHOLE)
    answer = cluster.preempt(replace(important, needs=replace(important.needs, pod_affinity=(term,))))
    assert isinstance(answer, Refusal)
    assert answer.why.kept == (KeptPods("are selected by its affinity to pods", 1, ("ns/database",)),)
