"""What is decided about a gang before it starts. Nodes a1, a2 ... are in fabric a, b1 ... in fabric b."""

from dataclasses import replace
from typing import Any

import pytest

from controller.gangs import Gang, GangPlan, TriedDomains
from controller.gangs.gang import Domain, DomainFit
from controller.membership import GangTerms, Source
from controller.placement import Placement, find_place
from controller.reconcile import PlacementHistory, decide_gang
from controller.reconcile.decisions import GangDecision, PlacePod, Reason, Wait
from controller.reconcile.gangmembers import KnownGang, KnownMember
from controller.reconcile.gangs import Choose
from controller.reconcile.history import LAST_RESORT_SECONDS, reasons_of_scheduler
from controller.refusal import Refusal
from driver.errors import Fault
from driver.kube.api import NODES, PODS
from driver.model import Consumer
from tests.unit.controller.filled_state import NOW, FilledState, node, pod
from tests.unit.controller.reconcile.fabrics import FABRIC, Fabrics, every, labeled, told

# The first phase


def test_the_first_phase_allocates_for_all_members_in_one_fabric_and_removes_no_gate() -> None:
    scene = Fabrics(a=1, b=2)
    scene.members(4)
    assert told(scene.decide()) == {
        "w0": "place b1 c-w0=b1/gpu-0 keep gate",
        "w1": "place b1 c-w1=b1/gpu-1 keep gate",
        "w2": "place b2 c-w2=b2/gpu-0 keep gate",
        "w3": "place b2 c-w3=b2/gpu-1 keep gate",
    }


def test_a_gang_that_fits_into_no_fabric_gets_nothing_and_all_members_are_told_the_same() -> None:
    scene = Fabrics(a=1, b=1)
    scene.members(4)
    decision = scene.decide()
    (wait,) = set(decision.members.values())
    text = "2 of 4 members fit in a (devices on 1 node); 2 of 4 members fit in b (devices on 1 node)"
    assert wait == Wait(Reason.UNALLOCATABLE, f"gang default/train: {text}")
    assert [answer.subject for answer in decision.lacking] == ["default/w0"], "one answer for members of one shape"


def test_members_beyond_the_minimum_are_placed_where_possible_and_the_others_wait() -> None:
    scene = Fabrics(a=1)
    scene.members(3)
    lines = told(scene.decide(minimum=2))
    assert lines["w0"].startswith("place")
    assert lines["w1"].startswith("place")
    assert lines["w2"] == "wait Unallocatable"


def test_a_task_with_too_few_members_is_named_and_those_that_have_succeeded_count() -> None:
    scene = Fabrics(a=2)
    scene.members(3)
    terms = GangTerms("default/train", "uid", Source.VOLCANO, 3, levels=(FABRIC,), task_minimums=(("ps", 1),))
    members = tuple(KnownMember(f"default/w{number}", number, task="worker") for number in range(3))

    def decide(ended: int) -> GangDecision:
        gang = KnownGang("default/train", terms, members, ended, {"ps": ended})
        return decide_gang(scene.state, gang, NOW, scene.choose)

    (wait,) = set(decide(0).members.values())
    assert isinstance(wait, Wait)
    assert wait.message == "gang default/train: 3 of 3 members exist, 0 of 1 of task ps"
    assert all(line.startswith("place a") for line in told(decide(1)).values())


def test_a_search_without_end_is_no_refusal() -> None:
    scene = Fabrics(a=1)
    scene.members(4)
    undecided = Refusal("default/train", TriedDomains((DomainFit(Domain(), 2, 4, "", decided=False),)))
    assert not scene.decide(choose=lambda gang: undecided).decided


def test_waiting_for_a_preferred_level_ends_without_a_change() -> None:
    scene = Fabrics(a=1)
    scene.members(4)
    assert scene.decide(choose=lambda gang: Refusal(gang.key, TriedDomains(), after=120.0)).after == 120.0


def test_a_gang_is_decided_again_when_a_member_may_return_to_a_node_that_refused_it() -> None:
    scene = Fabrics(a=1)
    scene.members(2)
    for number, ago in enumerate((0, 100)):
        revision = scene.state.revision_of("a1", scene.state.pods[f"default/w{number}"].needs)
        refused = {"a1": reasons_of_scheduler(f"no {number}", revision)}
        scene.histories[f"default/w{number}"] = PlacementHistory(1, refused, NOW - ago)
    assert scene.decide(2).after == LAST_RESORT_SECONDS - 100


def test_the_choice_knows_how_long_the_gang_has_been_complete() -> None:
    scene = Fabrics(a=2)
    for number, age in enumerate((90, 70, 50, 10)):
        scene.member(f"w{number}", age=age)
    asked: list[Gang] = []
    scene.decide(minimum=3, choose=lambda gang: asked.append(gang) or Refusal(gang.key, TriedDomains()))  # type: ignore[func-returns-value]
    assert asked[0].elapsed == 50


# The second phase


def test_gates_are_removed_when_all_claims_are_written() -> None:
    scene = Fabrics(a=2)
    scene.members(4, ["a1/gpu-0", "a1/gpu-1", "a2/gpu-0", "a2/gpu-1"])
    assert told(scene.decide()) == {"w0": "place a1", "w1": "place a1", "w2": "place a2", "w3": "place a2"}


def test_no_gate_is_removed_while_a_claim_is_missing() -> None:
    scene = Fabrics(a=2)
    scene.members(4, ["a1/gpu-0", "a1/gpu-1", "a2/gpu-0"])
    assert told(scene.decide()) == {"w3": "place a2 c-w3=a2/gpu-1 keep gate"}


def test_the_rest_is_placed_in_the_fabric_where_some_are() -> None:
    scene = Fabrics(a=2, b=2)
    scene.members(4, ["b1/gpu-0"])
    assert {line.split()[1] for line in told(scene.decide()).values()} == {"b1", "b2"}


def test_what_some_have_is_taken_back_if_the_rest_finds_no_place_there() -> None:
    scene = Fabrics(a=1, b=2)
    scene.members(4, ["a1/gpu-0"])
    lines = told(scene.decide())
    assert lines["w0"] == "take back a1 c-w0"
    assert {lines[name] for name in ("w1", "w2", "w3")} == {"wait Unallocatable"}


def test_a_minimum_that_is_raised_before_the_gates_are_removed_counts() -> None:
    scene = Fabrics(a=3)
    scene.members(6, ["a1/gpu-0", "a1/gpu-1", "a2/gpu-0", "a2/gpu-1"])
    lines = told(scene.decide(minimum=6))
    assert set(lines) == {"w4", "w5"}
    assert all(line.endswith("keep gate") for line in lines.values())


def test_a_minimum_raised_beyond_the_members_takes_everything_back() -> None:
    scene = Fabrics(a=2)
    scene.members(4, ["a1/gpu-0", "a1/gpu-1", "a2/gpu-0", "a2/gpu-1"])
    assert {line.split(" c-")[0] for line in told(scene.decide(minimum=6)).values()} == {"take back a1", "take back a2"}


def test_a_gang_whose_node_became_unusable_before_the_gates_were_removed_is_placed_anew() -> None:
    scene = Fabrics(a=2)
    scene.members(4, ["a1/gpu-0", "a1/gpu-1", "a2/gpu-0", "a2/gpu-1"])
    scene.put(NODES, node("a2", ready=False, labels={"fabric": "a"}))
    assert told(scene.decide()) == {"w2": "take back a2 c-w2", "w3": "take back a2 c-w3"}


# Completeness


@pytest.mark.parametrize(
    ("exist", "minimum", "size", "age", "ended", "starts"),
    [
        (4, 4, 4, 0, 0, True),
        (3, 4, 4, 60, 0, False),
        (3, 4, 4, 60, 1, True),
        (4, 4, None, 60, 0, True),
        (4, 4, None, 0, 0, False),
        (3, 4, None, 60, 0, False),
        (2, 2, 4, 60, 0, True),
        (2, 2, 4, 0, 0, False),
        (2, 2, 2, 0, 0, True),
    ],
)
def test_a_gang_starts_at_its_size_or_at_its_minimum_after_a_quiet_time(
    exist: int, minimum: int, size: int | None, age: float, ended: int, starts: bool
) -> None:
    scene = Fabrics(a=2)
    scene.members(exist, age=age)
    lines = told(scene.decide(minimum, size, ended))
    assert all(line.startswith("place" if starts else "wait GangIncomplete") for line in lines.values())


def test_an_incomplete_gang_says_how_many_members_exist_once_it_is_not_being_made_any_more() -> None:
    scene = Fabrics(a=2)
    scene.members(3, age=60)
    (wait,) = set(scene.decide(4).members.values())
    assert wait == Wait(Reason.GANG_INCOMPLETE, "gang default/train: 3 of 4 members exist")
    scene.members(3, age=1)
    (wait,) = set(scene.decide(4).members.values())
    assert isinstance(wait, Wait)
    assert not wait.report
    assert wait.after == 9


def test_a_member_that_cannot_be_placed_is_named() -> None:
    scene = Fabrics(a=2)
    scene.members(3)
    scene.pod("w3", "typo")
    decision = scene.decide(4)
    assert told(decision) == every(3, "wait GangIncomplete") | {"w3": "wait ClaimMissing"}
    wait = decision.members["default/w0"]
    assert isinstance(wait, Wait)
    assert "pod default/w3: ResourceClaim default/typo does not exist" in wait.message


def test_contradictions_are_told_to_every_member() -> None:
    scene = Fabrics(a=2)
    scene.members(2)
    decision = scene.decide(terms=(Fault("gang.minAvailable", "members contradict each other"),))
    (wait,) = set(decision.members.values())
    text = "gang default/train: gang.minAvailable: members contradict each other"
    assert wait == Wait(Reason.GANG_INVALID, text)


def test_a_group_of_kube_scheduler_starts_with_all_members_that_exist() -> None:
    scene = Fabrics(a=1)
    scene.members(3)
    assert told(scene.decide(minimum=2, source=Source.POD_GROUP)) == every(3, "wait Unallocatable")


# Members without devices, and shared claims


def test_a_member_without_claims_is_placed_and_let_go_with_the_others() -> None:
    scene = Fabrics(a=2)
    scene.members(3)
    scene.pod("w3")
    assert "w3" not in told(scene.decide())
    scene.members(3, ["a1/gpu-0", "a1/gpu-1", "a2/gpu-0"])
    assert told(scene.decide()) == {"w0": "place a1", "w1": "place a1", "w2": "place a2", "w3": "place a1"}


@pytest.mark.parametrize("terms", [(Fault("", "PodGroup ns/g does not exist"),), None], ids=["in error", "complete"])
def test_a_gang_without_anything_of_ours_is_let_go(terms: Any) -> None:
    scene = Fabrics(a=1)
    for name in ("w0", "w1"):
        scene.claim(f"nic-{name}", ("nic.example.com",))
        scene.pod(name, f"nic-{name}")
    more = {} if terms is None else {"terms": terms}
    assert told(scene.decide(minimum=2, size=2, **more)) == every(2, "remove gate")


def test_a_gang_without_anything_of_ours_waits_until_it_is_complete() -> None:
    scene = Fabrics(a=1)
    scene.pod("w0")
    assert told(scene.decide(minimum=2, size=2)) == {"w0": "wait GangIncomplete"}


def test_pods_without_claims_that_say_themselves_that_they_are_in_the_gang_are_placed() -> None:
    scene = Fabrics(a=1)
    for name in ("w0", "w1"):
        scene.put(PODS, labeled(pod(name)))
    assert told(scene.decide(minimum=2, size=2)) == every(2, "place a1")


def test_members_that_share_a_claim_get_it_in_one_write() -> None:
    scene = Fabrics(a=1)
    scene.claim("shared")
    for number in range(3):
        scene.pod(f"w{number}", "shared")
    share = next(first for first in scene.decide(3, choose=same_card(scene)).members.values())
    assert isinstance(share, PlacePod)
    consumers = tuple(Consumer("pods", f"w{number}", f"uid-w{number}") for number in (1, 2))
    assert share.sharers == (("default/shared", consumers),)


def same_card(scene: FilledState) -> Choose:
    """Each member gets the same devices for a shared claim."""

    def choose(gang: Gang) -> GangPlan | Refusal[TriedDomains]:
        found = find_place(gang.members[0].demand, scene.state.devices, scene.state.nodes)
        assert isinstance(found, Placement)
        return GangPlan(Domain(), tuple(replace(found, pod=member.demand.key) for member in gang.members))

    return choose


def test_members_that_share_an_allocated_claim_are_let_go() -> None:
    scene = Fabrics(a=1)
    scene.claim("shared", at="a1/gpu-0", by=("w0", "w1", "w2"))
    for number in range(3):
        scene.pod(f"w{number}", "shared")
    assert told(scene.decide(3)) == every(3, "place a1")


def test_a_shared_claim_is_taken_back_once() -> None:
    scene = Fabrics(a=1)
    scene.claim("shared", at="a1/gpu-0", by=("w0", "w1", "w2"))
    for number in range(3):
        scene.pod(f"w{number}", "shared")
    assert told(scene.decide(4)) == {"w0": "take back a1 shared"} | dict.fromkeys(("w1", "w2"), "wait GangIncomplete")


def test_more_members_than_a_claim_can_be_reserved_for_are_refused_before_anything_is_written() -> None:
    scene = Fabrics(a=1)
    scene.claim("shared")
    for number in range(257):
        scene.pod(f"w{number}", "shared")
    assert set(told(scene.decide(257)).values()) == {"wait ClaimFull"}
