"""Decisions count while they are written; a write that is slow, lost or refused is no other pod's trouble."""

from typing import Any

import pytest

from controller.reconcile.claims import ORPHAN_SECONDS
from controller.reconcile.history import PATIENCE_SECONDS
from controller.worker.queue import objects_of
from controller.writing import WriteResult, WriteSequence
from driver.kube.api import PODS, RESOURCE_CLAIMS, ApiCall, Conflict, Forbidden, Invalid, NotFound, Unavailable
from tests.unit.controller.filled_state import FilledState
from tests.unit.controller.loop.world import GATE, ControllerWorld

SLOW_SECONDS = 30.0
PLACEMENT = ["patch resourceclaims", "patch resourceclaims/status", "patch pods/status", "patch pods"]


def with_pods(*names: str, cards: int = 2, cpu: str = "1") -> ControllerWorld:
    """Pods with one claim each, of the same name."""
    world = ControllerWorld(cards=cards)
    for name in names:
        world.add_claim(name)
        world.add_pod(name, name, cpu=cpu)
    return world


def slow(*pods: str) -> Any:
    """Every answer to a write for one of these pods takes long."""

    def latency(sequence: WriteSequence, result: WriteResult | None) -> float:
        return SLOW_SECONDS if sequence.subject[1].removeprefix("default/") in pods else 0

    return latency


def test_nothing_else_is_decided_about_a_pod_and_its_claims_while_they_are_written() -> None:
    scene = FilledState()
    scene.claim("c")
    scene.pod("a", "c")
    assert set(objects_of(scene.state.pods["default/a"])) == {(PODS, "default/a"), (RESOURCE_CLAIMS, "default/c")}


def test_a_pod_does_not_wait_for_slow_writes_of_others() -> None:
    world = with_pods("a-slow", "b-fast")
    world.latency = slow("a-slow")
    world.settle(1)
    assert world.gates("a-slow") == [GATE]
    assert world.gates("b-fast") == []
    world.settle(4 * SLOW_SECONDS)
    assert world.gates("a-slow") == []
    world.check()


def test_a_server_that_asks_to_wait_is_not_asked_again_sooner() -> None:
    world = with_pods("a")
    tried: list[float] = []

    def busy(what: str, _: object) -> None:
        if what == "patch resourceclaims" and len(tried) < 2:
            tried.append(world.clock.monotonic())
            raise Unavailable("too many requests", status=429, retry_after=7)

    world.meddler.before = busy
    world.settle(100)
    assert tried[1] - tried[0] == 7
    assert world.gates("a") == []


def test_a_pod_does_not_wait_for_what_is_told_about_others() -> None:
    world = with_pods("a", "b", cards=1)
    told = 0

    def latency(sequence: WriteSequence, result: WriteResult | None) -> float:
        nonlocal told
        told += sequence.lane.value == "telling"
        return SLOW_SECONDS if sequence.lane.value == "telling" else 0

    world.latency = latency
    world.settle(1)
    assert told, "one of the pods waits"
    world.add_pod("c")
    world.settle(1)
    assert world.gates("c") == []


def test_devices_are_in_use_from_the_decision_on() -> None:
    world = with_pods("a-slow", "b-fast", cards=1)
    world.latency = slow("a-slow")
    world.settle(1)
    assert world.controller.state.devices_in_use() == {"n1/lode.dev/gpu-0/": "default/a-slow"}
    assert world.devices("b-fast") == []


def test_cpu_is_promised_from_the_decision_on() -> None:
    world = with_pods("a-slow", "b-fast", cpu="5")
    world.latency = slow("a-slow")
    world.settle(1)
    assert world.devices("b-fast") == []
    world.settle(4 * SLOW_SECONDS)
    assert (world.devices("a-slow"), world.devices("b-fast")) == (["n1/gpu-0"], [])


def test_what_a_failed_write_would_have_taken_is_free_again_and_others_are_woken() -> None:
    world = with_pods("a-slow", "b-fast", cards=1)
    world.latency = slow("a-slow")
    world.settle(1)
    world.api.delete(RESOURCE_CLAIMS, "a-slow", "default")
    world.settle(5 * SLOW_SECONDS)
    assert world.devices("b-fast") == ["n1/gpu-0"]


def test_what_is_taken_back_is_in_use_until_it_is_written() -> None:
    world = ControllerWorld(nodes=1, cards=1)
    world.add_claim("a")
    world.add_pod("p", "a")
    world.settle()
    world.refuse("p")
    world.settle(PATIENCE_SECONDS + 0.5)
    world.latency = slow("p")
    world.add_claim("b")
    world.add_pod("q", "b")
    world.settle(2)
    assert (world.devices("b"), len(world.controller.state.devices_in_use())) == ([], 1)
    world.settle(2 * SLOW_SECONDS)
    assert world.devices("b") == ["n1/gpu-0"]
    world.check()


def test_pods_of_one_claim_are_written_one_after_the_other() -> None:
    world = ControllerWorld()
    world.add_claim("a")
    for number in range(5):
        world.add_pod(f"p{number}", "a")
    under_way: dict[str, str] = {}

    def latency(sequence: WriteSequence, result: WriteResult | None) -> float:
        for _, key in sequence.objects:
            assert under_way.setdefault(key, sequence.subject[1]) == sequence.subject[1]
        if result is not None:
            for _, key in sequence.objects:
                del under_way[key]
        return 0

    world.latency = latency
    world.settle(5)
    assert len(world.claim("a")["status"]["reservedFor"]) == 5
    assert world.controller.step() is False
    assert "Conflict" not in errors(world)


def errors(world: ControllerWorld) -> set[str]:
    (family,) = [family for family in world.metrics.registry.collect() if family.name == "lode_controller_api_errors"]
    return {sample.labels["error"] for sample in family.samples}


# Lost answers


def in_doubt(world: ControllerWorld) -> bool:
    return world.controller.in_doubt


def lose(
    world: ControllerWorld, call: str, times: int = 1, *, after: bool = False, error: Exception | None = None
) -> None:
    """Let the answer to the next calls of this kind be lost, before or after they take effect."""
    left = [error or Unavailable("no answer")] * times

    def meddle(what: str, _: Any) -> None:
        if what == call and left:
            raise left.pop()

    setattr(world.meddler, "after" if after else "before", meddle)


@pytest.mark.parametrize("after", [False, True], ids=["never made", "made"])
@pytest.mark.parametrize(
    "call", ["patch resourceclaims", "patch resourceclaims/status", "patch pods/status", "patch pods"]
)
def test_after_a_lost_answer_the_pod_gets_what_was_decided(call: str, after: bool) -> None:
    world = with_pods("a")
    lose(world, call, times=3, after=after)
    world.settle(60)
    assert (world.devices("a"), world.gates("a")) == (["n1/gpu-0"], [])
    assert not in_doubt(world)
    world.check()


def test_a_write_in_doubt_holds_its_devices_until_the_claim_is_known_to_have_changed() -> None:
    world = with_pods("a", "b", cards=1)
    lose(world, "patch resourceclaims/status", times=1)
    world.settle(0)
    assert in_doubt(world)
    assert world.devices("b") == []
    world.api.patch(RESOURCE_CLAIMS, "a", {"metadata": {"labels": {"x": "y"}}}, namespace="default")
    world.settle(60)
    assert not in_doubt(world)
    world.check()


def test_a_lost_write_that_is_then_refused_holds_nothing_when_it_can_no_longer_arrive() -> None:
    world = with_pods("a", cards=1)
    answers: list[Exception] = [Invalid("no") for _ in range(100)]
    answers.append(Unavailable("no answer"))

    def meddle(what: str, name: Any) -> None:
        if what == "patch resourceclaims/status" and name == "a" and answers:
            raise answers.pop()

    world.meddler.before = meddle
    world.settle(2)
    world.add_claim("b")
    world.add_pod("b", "b")
    world.settle(2)
    assert world.devices("b") == [], "the first write may still arrive"
    world.settle(world.settings.controller.longest_write_seconds)
    assert world.devices("b") == ["n1/gpu-0"]


# Refused writes


@pytest.mark.parametrize("call", ["patch resourceclaims", "patch resourceclaims/status"])
@pytest.mark.parametrize("error", [Forbidden, Invalid])
def test_a_pod_one_of_whose_claims_is_refused_for_good_holds_no_devices(call: str, error: Any) -> None:
    world = ControllerWorld(cards=2)
    world.add_claim("a")
    world.add_claim("b")
    world.add_pod("p", "a", "b")
    refusing = True

    def meddle(what: str, name: Any) -> None:
        if refusing and what == call and name == "b":
            raise error("denied by a policy of the namespace")

    world.meddler.before = meddle
    world.settle(5)
    assert world.devices("a") + world.devices("b") == []
    assert world.gates("p") == [GATE]
    assert world.condition("p")[:2] == ("False", "WriteRefused")
    assert "denied by a policy of the namespace" in world.condition("p")[2]
    world.add_claim("x", count=2)
    world.add_pod("q", "x")
    world.settle(120)
    assert len(world.devices("x")) == 2, "others get the devices in between"
    world.remove_pod("q")
    refusing = False
    world.settle(120)
    assert len(world.devices("a") + world.devices("b")) == 2
    assert world.gates("p") == []


def test_a_refused_pod_is_tried_again_less_and_less_often() -> None:
    world = ControllerWorld(cards=2)
    world.add_claim("a")
    world.add_pod("p", "a")

    def meddle(what: str, _: Any) -> None:
        if what == "patch pods":
            raise Forbidden("denied")

    world.meddler.before = meddle
    world.settle(600)
    assert world.devices("a") == []
    assert 8 <= world.meddler.calls.count("patch pods") <= 25


def test_an_allocation_without_a_consumer_is_cleared_although_a_write_was_refused() -> None:
    world = with_pods("a")
    world.settle(1)
    world.api.delete(PODS, "a", "default", grace_period_seconds=0)
    claim = world.claim("a")
    del claim["status"]["reservedFor"]
    world.api.update(RESOURCE_CLAIMS, claim, "status")
    lose(world, "patch resourceclaims/status", error=Forbidden("denied"))
    world.settle(1.5 * ORPHAN_SECONDS)
    assert world.devices("a") == ["n1/gpu-0"]
    world.settle(ORPHAN_SECONDS)
    assert world.devices("a") == []


def test_fields_that_are_not_stored_take_everything_back() -> None:
    world = with_pods("a")
    stored = world.api.call

    def forgetful(call: ApiCall) -> Any:
        if (call.verb, call.subresource) == ("patch", "status") and (call.body.get("status") or {}).get("allocation"):
            call.body["status"]["allocation"]["devices"]["results"][0]["device"] = "gpu-1"
            call.body["status"]["devices"][0]["device"] = "gpu-1"
        return stored(call)

    world.api.call = forgetful  # type: ignore[method-assign]
    world.settle(3)
    assert world.devices("a") == []
    assert world.condition("a")[:2] == ("False", "FieldsDropped")


def test_a_conflict_is_decided_anew_from_objects_that_were_read_again() -> None:
    world = with_pods("a")
    lose(world, "patch resourceclaims/status", error=Conflict("somebody was faster", status=409))
    world.settle(1)
    assert (world.devices("a"), world.gates("a")) == (["n1/gpu-0"], [])
    assert world.meddler.calls.count("get resourceclaims") == 1


def test_a_late_answer_about_its_predecessor_does_not_make_a_namesake_forgotten() -> None:
    world = with_pods("a")
    world.latency = lambda sequence, result: 0.05
    api, answered = world.api, world.api.call

    def delete(what: str, about: Any) -> None:
        if what == "patch pods" and not again:
            api.delete(PODS, "a", "default", grace_period_seconds=0)

    def answer(call: ApiCall) -> Any:
        try:
            return answered(call)
        except NotFound:
            if (call.verb, call.resource) == ("get", PODS) and not again:
                again.append(world.add_pod("a", "a"))
            raise

    again: list[Any] = []
    world.meddler.before = delete
    api.call = answer  # type: ignore[method-assign]
    world.settle(60)
    assert again, "the answer comes after the new pod"
    assert (world.gates("a"), world.devices("a")) == ([], ["n1/gpu-0"])


def test_what_the_server_asks_to_wait_holds_for_that_pod_alone() -> None:
    world = with_pods("a", "b")
    asked: list[float] = []

    def busy(what: str, about: Any) -> None:
        if what == "patch resourceclaims" and about == "a":
            asked.append(world.clock.monotonic())
            if len(asked) == 1:
                raise Unavailable("too many requests", status=429, retry_after=60)

    world.meddler.before = busy
    world.settle(30)
    assert (world.devices("a"), len(world.devices("b"))) == ([], 1)
    world.settle(60)
    assert len(world.devices("a")) == 1
    assert asked[1] - asked[0] >= 60
