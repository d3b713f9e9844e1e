"""AdmissionChecks of Kueue in the running controller: who gets which answer, when, and once."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.kueue.fitchecks import MOST_PAUSE_SECONDS, PAUSE_SECONDS, PLACED_WITHIN_SECONDS
from driver.kube.api import (
    KUEUE_ADMISSION_CHECKS,
    KUEUE_WORKLOADS,
    Conflict,
    Forbidden,
    NotFound,
    Unavailable,
)
from tests.unit.controller.kueue.kueueworld import KueueWorld
from tests.unit.controller.loop.world import ControllerWorld, Killed, expect_kill
from tests.unit.controller.workloads import admission_check, check_state, pod_set

STATUS_WRITE = "patch workloads/status"
YES = ("Ready", "the pods would get their devices now")


@pytest.fixture
def world() -> KueueWorld:
    return KueueWorld()


def writes(world: KueueWorld) -> int:
    return world.meddler.calls.count(STATUS_WRITE)


def test_a_workload_that_fits_is_let_go(world: KueueWorld) -> None:
    world.reserve("train", pod_set(count=4))
    world.settle()
    assert world.answer("train") == YES


def test_one_that_does_not_fit_gives_its_quota_back_and_says_why(world: KueueWorld) -> None:
    world.taken("mine")
    world.reserve("train", pod_set(count=4))
    world.settle()
    assert world.answer("train") == ("Retry", "3 of 4 pods fit now; 1 of 4 such devices are in use, by default/mine")


def test_a_pause_is_asked_for_after_the_eviction_and_not_before(world: KueueWorld) -> None:
    world.reserve("train", pod_set(count=5), checks=[check_state(requeueAfterSeconds=30)])
    world.settle()
    assert "requeueAfterSeconds" not in world.entry("train")
    world.evict("train")
    world.settle()
    assert (world.answer("train")[0], world.entry("train")["requeueAfterSeconds"]) == ("Retry", PAUSE_SECONDS)
    world.note_pause("train")
    world.settle()
    state, message = world.answer("train")
    assert (state, message) == (
        "Pending",
        "tried again after a pause: 4 of 5 pods fit now",
    )
    assert "requeueAfterSeconds" not in world.entry("train")
    before = writes(world)
    world.settle(600)
    assert writes(world) == before


def test_the_pause_doubles_up_to_a_limit(world: KueueWorld) -> None:
    world.reserve("train", pod_set(count=5))
    pauses = [world.retry("train") for _ in range(7)]
    assert pauses[:5] == [PAUSE_SECONDS << number for number in range(5)]
    assert set(pauses[5:]) == {MOST_PAUSE_SECONDS}


@pytest.mark.parametrize("retries", [-1, -3, 2**31])
def test_a_number_of_retries_that_makes_no_sense_ends_nothing(world: KueueWorld, retries: int) -> None:
    world.reserve("odd", pod_set(count=5), checks=[check_state(retryCount=retries)], Evicted="True")
    world.reserve("train", pod_set(count=4))
    world.settle()
    assert world.answer("train") == YES


def test_there_is_no_pause_for_one_that_fits_when_it_is_evicted(world: KueueWorld) -> None:
    world.taken("mine")
    world.reserve("train", pod_set(count=4))
    world.settle()
    world.remove_pod("mine")
    assert world.retry("train") == 0
    assert world.answer("train") == YES


def test_a_pause_of_before_is_not_taken_for_the_one_that_is_asked_for(world: KueueWorld) -> None:
    world.reserve("train", pod_set(count=5))
    world.settle()
    world.evict("train")
    found = world.api.get(KUEUE_WORKLOADS, "train", "default")
    found["status"]["requeueState"] = {"requeueAt": "2020-01-01T00:00:00Z"}
    world.api.update(KUEUE_WORKLOADS, found, "status")
    world.settle(60)
    assert world.answer("train")[0] == "Retry"
    world.note_pause("train")
    world.settle()
    assert world.answer("train")[0] == "Pending"


def test_who_kueue_evicts_for_another_reason_gets_no_pause(world: KueueWorld) -> None:
    world.reserve("train", pod_set(count=5), checks=[check_state()], QuotaReserved="False", Evicted="True")
    world.settle(60)
    assert writes(world) == 0


def test_it_is_let_go_when_it_fits_at_the_next_try(world: KueueWorld) -> None:
    world.taken("mine")
    world.reserve("train", pod_set(count=4))
    world.retry("train")
    assert world.answer("train")[0] == "Retry"
    world.remove_pod("mine")
    world.retry("train")
    assert world.answer("train") == YES


def test_checks_of_others_are_left_as_they_are(world: KueueWorld) -> None:
    others = [check_state(name="provisioning", podSetUpdates=[{"name": "main"}]), check_state("Ready", name="budget")]
    world.reserve("train", checks=[others[0], check_state(), others[1]])
    world.settle()
    first, own, last = world.api.get(KUEUE_WORKLOADS, "train", "default")["status"]["admissionChecks"]
    assert ([first, last], own["state"]) == (others, "Ready")


def test_a_workload_that_asks_others_only_is_not_written(world: KueueWorld) -> None:
    world.reserve("train", checks=[check_state(name="provisioning")])
    world.settle(60)
    assert writes(world) == 0


def test_our_check_says_that_it_is_active_and_no_other(world: KueueWorld) -> None:
    world.api.create(KUEUE_ADMISSION_CHECKS, admission_check("other", "example.com/other"))
    world.settle()
    (own,) = world.api.get(KUEUE_ADMISSION_CHECKS, "fits")["status"]["conditions"]
    assert (own["type"], own["status"], own["reason"]) == ("Active", "True", "Active")
    assert not world.api.get(KUEUE_ADMISSION_CHECKS, "other")["status"]
    world.start()
    world.settle(60)
    assert "patch admissionchecks/status" not in world.meddler.calls


def test_a_check_that_says_otherwise_is_set_right_and_keeps_what_others_said(world: KueueWorld) -> None:
    world.settle()
    found = world.api.get(KUEUE_ADMISSION_CHECKS, "fits")
    other = {"type": "Seen", "status": "True"}
    found["status"]["conditions"] = [{"type": "Active", "status": "False"}, other]
    world.api.update(KUEUE_ADMISSION_CHECKS, found, "status")
    world.settle()
    said = world.api.get(KUEUE_ADMISSION_CHECKS, "fits")["status"]["conditions"]
    assert [(one["type"], one["status"]) for one in said] == [("Seen", "True"), ("Active", "True")]


def test_devices_are_not_promised_to_two_workloads(world: KueueWorld) -> None:
    world.reserve("first", pod_set(count=3))
    world.reserve("second", pod_set(count=3))
    world.settle()
    assert (world.answer("first"), world.answer("second")[0]) == (YES, "Pending")
    world.admit("first", 3)
    world.settle(5)
    state, message = world.answer("second")
    assert (state, "1 of 3 pods fit now" in message) == ("Retry", True)


def test_who_was_let_go_and_does_not_come_keeps_devices_for_seconds_only(world: KueueWorld) -> None:
    world.reserve("first", pod_set(count=3))
    world.settle()
    world.reserve("second", pod_set(count=3))
    world.settle(PLACED_WITHIN_SECONDS / 2)
    assert world.answer("second")[0] == "Pending"
    world.settle(PLACED_WITHIN_SECONDS)
    assert world.answer("second") == YES


def test_a_restart_forgets_nobody_who_was_let_go(world: KueueWorld) -> None:
    world.reserve("first", pod_set(count=3))
    world.settle()
    world.start()
    world.reserve("second", pod_set(count=3))
    world.settle(1)
    assert world.answer("second")[0] == "Pending"


def test_pods_that_are_due_are_served_before_any_workload_is_answered(world: KueueWorld) -> None:
    world.settle()
    world.reserve("train", pod_set(count=4))
    world.add_claim("pod")
    world.add_pod("pod", "pod")
    world.settle()
    assert world.devices("pod")
    assert world.answer("train")[0] == "Retry"


@pytest.mark.parametrize("error", [Conflict("changed", status=409), Unavailable("no answer")], ids=["changed", "lost"])
def test_a_write_that_fails_is_decided_anew(world: KueueWorld, error: Exception) -> None:
    failed: list[str] = []

    def fail(what: str, about: Any) -> None:
        if what == STATUS_WRITE and not failed:
            failed.append(what)
            raise error

    world.meddler.before = fail
    world.reserve("train")
    world.settle()
    assert world.answer("train")[0] == "Pending"
    world.settle(2)
    assert world.answer("train") == YES


def test_without_the_right_it_is_tried_again_after_a_minute(world: KueueWorld) -> None:
    def refuse(what: str, about: Any) -> None:
        if what == STATUS_WRITE:
            raise Forbidden("no right", status=403)

    world.meddler.before = refuse
    world.reserve("train")
    world.settle(30)
    assert writes(world) == 1
    world.meddler.before = None
    world.settle(60)
    assert world.answer("train") == YES


def test_a_workload_that_is_gone_meanwhile_is_forgotten(world: KueueWorld) -> None:
    def remove(what: str, about: Any) -> None:
        if what == STATUS_WRITE:
            world.meddler.before = None
            world.api.delete(KUEUE_WORKLOADS, "train", "default")

    world.meddler.before = remove
    world.reserve("train")
    world.settle(120)
    assert writes(world) == 1
    with pytest.raises(NotFound):
        world.answer("train")


def test_a_workload_that_was_evicted_meanwhile_is_not_let_go(world: KueueWorld) -> None:
    def evict(what: str, about: Any) -> None:
        if what == STATUS_WRITE:
            world.meddler.before = None
            found = world.api.get(KUEUE_WORKLOADS, "train", "default")
            found["status"]["conditions"].append({"type": "Evicted", "status": "True"})
            world.api.update(KUEUE_WORKLOADS, found, "status")

    world.meddler.before = evict
    world.reserve("train")
    world.settle(120)
    assert world.answer("train")[0] == "Pending"


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_the_write_the_next_run_answers(world: KueueWorld, when: str) -> None:
    def kill(what: str, about: Any) -> None:
        if what == STATUS_WRITE:
            raise Killed

    world.settle()
    setattr(world.meddler, when, kill)
    world.reserve("train")
    with expect_kill():
        world.settle()
    world.start()
    world.settle()
    assert world.answer("train") == YES
    assert writes(world) == (1 if when == "before" else 0)


def test_off_by_default_nothing_of_kueue_is_read_or_written() -> None:
    class Reading(ControllerWorld):
        custom = KueueWorld.custom

    world = Reading()
    world.api.create(KUEUE_ADMISSION_CHECKS, admission_check())
    world.settle(60)
    watched = {reflector.resource for reflector in world.controller.reflectors}
    assert not watched & {KUEUE_WORKLOADS, KUEUE_ADMISSION_CHECKS}
    assert not world.api.get(KUEUE_ADMISSION_CHECKS, "fits")["status"]


def test_where_kueue_is_not_installed_the_controller_does_its_work() -> None:
    class Without(ControllerWorld):
        custom = ()

    world = Without(kueue={"enabled": True})
    world.add_claim("c")
    world.add_pod("p", "c")
    world.settle()
    assert world.devices("c")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["come", "end", "crash", "wait"]), st.integers(1, 4)), max_size=14))
def test_nobody_is_let_go_whose_pods_then_wait_for_devices(acts: list[tuple[str, int]]) -> None:
    """As long as Kueue admits who was let go within the time for which the devices are not promised to others."""
    world = KueueWorld(nodes=2, cards=2)
    waiting: dict[str, int] = {}
    running: dict[str, list[str]] = {}
    for number, (act, count) in enumerate(acts):
        if act == "come":
            waiting[f"w{number}"] = count
            world.reserve(f"w{number}", pod_set(count=count))
        elif act == "end" and running:
            name = min(running)
            world.finish(name, running.pop(name))
        elif act == "crash":
            world.start()
        world.settle(5)
        for name in [name for name in waiting if world.answer(name)[0] == "Ready"]:
            running[name] = world.admit(name, waiting.pop(name))
            world.settle(1)
        held = [pod for pods in running.values() for pod in pods]
        assert all(world.devices(pod) for pod in held), "a pod of a Workload that was let go waits"
        world.check()
        for name in [name for name in waiting if world.answer(name)[0] == "Retry"]:
            world.retry(name)
            if world.answer(name)[0] == "Ready":
                running[name] = world.admit(name, waiting.pop(name))
                world.settle(1)
