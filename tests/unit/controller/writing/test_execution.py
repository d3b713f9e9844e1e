"""One sequence: each step is made to the version that the step before left, and ends with its term."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.election import Deposed
from controller.reporting import Note, event_of
from controller.writing.execution import Execution
from controller.writing.steps import (
    AddFinalizer,
    Answer,
    ExpectUnbound,
    Lane,
    PatchClaimStatus,
    PatchPodStatus,
    ReadObject,
    RemoveGate,
    Step,
    Target,
    WriteResult,
    WriteSequence,
)
from driver.errors import OperatorFault
from driver.kube.api import (
    EVENTS,
    PODS,
    RESOURCE_CLAIMS,
    Api,
    ApiCall,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Object,
    Resource,
    Unavailable,
)
from driver.kube.decorator import ApiDecorator
from driver.names import FINALIZER
from driver.wire import allocation_from
from tests.contract.objects import allocation, consumer
from tests.unit.controller.loop.world import GATE, ControllerWorld
from tests.unit.controller.writing.terms import OneTerm

STATUS: Object = {"allocation": allocation(), "reservedFor": [consumer("u")]}


def target(obj: Object, resource: Resource, *, versioned: bool = True) -> Target:
    metadata = obj["metadata"]
    version = metadata["resourceVersion"] if versioned else ""
    return Target(resource, f"default/{metadata['name']}", metadata["uid"], version)


class OnePlacement:
    """A pod with one claim, and the sequence that allocates the claim and lets the pod go."""

    def __init__(self) -> None:
        self.world = ControllerWorld()
        self.terms = OneTerm()
        self.claim = target(self.world.add_claim("a"), RESOURCE_CLAIMS)
        self.pod = target(self.world.add_pod("p", "a"), PODS, versioned=False)
        self.placement: tuple[Step, ...] = (
            AddFinalizer(self.claim, (FINALIZER,)),
            PatchClaimStatus(self.claim, STATUS, allocation_from(STATUS["allocation"])),
            PatchPodStatus(self.pod, {"nominatedNodeName": "n1"}),
            RemoveGate(self.pod, GATE, 0),
        )

    def run(self, *steps: Step, lane: Lane = Lane.PLACING) -> WriteResult:
        execution = Execution(WriteSequence(("pod", "default/p"), steps, lane, term=1), self.terms)
        while (result := execution.step(self.world.meddler)) is None:
            pass
        return result

    def fail(self, call: str, error: Exception, times: int = 1) -> None:
        """Let the next calls of this kind fail."""
        left = [error] * times

        def meddle(what: str, _: Any) -> None:
            if what == call and left:
                raise left.pop()

        self.world.meddler.before = meddle


class Garbling(ApiDecorator):
    """Gives other fields in the answers to one kind of call."""

    def __init__(self, api: Api, garbled: str, fields: Object):
        super().__init__(api)
        self._garbled, self._fields = garbled, fields

    def around(self, call: ApiCall, proceed: Callable[[], Any]) -> Any:
        answer = proceed()
        what = f"{call}/{call.subresource}" if call.subresource else str(call)
        return {**answer, **self._fields} if what == self._garbled else answer


def objects(result: WriteResult) -> dict[str, Object | None]:
    return {answer.key: answer.object for answer in result.answers}


def test_all_steps_are_made_in_order_each_to_the_version_before() -> None:
    rig = OnePlacement()
    result = rig.run(*rig.placement)
    assert (result.error, result.rest) == (None, ())
    assert rig.world.meddler.calls == [
        "patch resourceclaims",
        "patch resourceclaims/status",
        "patch pods/status",
        "patch pods",
    ]
    assert objects(result) == {"default/a": rig.world.claim("a"), "default/p": rig.world.pod("p")}
    assert rig.world.gates("p") == []


def test_a_version_that_is_not_the_one_decided_on_is_a_conflict_and_everything_is_read_again() -> None:
    rig = OnePlacement()
    rig.world.api.patch(RESOURCE_CLAIMS, "a", {"metadata": {"labels": {"x": "y"}}}, namespace="default")
    result = rig.run(*rig.placement)
    assert isinstance(result.error, Conflict)
    assert objects(result) == {"default/a": rig.world.claim("a"), "default/p": rig.world.pod("p")}
    assert rig.world.devices("a") == []


def test_an_object_that_is_gone_is_answered_as_gone() -> None:
    rig = OnePlacement()
    rig.world.remove_pod("p")
    result = rig.run(*rig.placement)
    assert isinstance(result.error, NotFound)
    assert objects(result)["default/p"] is None


def test_after_a_lost_answer_the_rest_begins_with_the_step_in_doubt() -> None:
    rig = OnePlacement()
    rig.fail("patch resourceclaims/status", Unavailable("no answer"))
    result = rig.run(*rig.placement)
    assert isinstance(result.error, Unavailable)
    assert [type(step) for step in result.rest] == [PatchClaimStatus, PatchPodStatus, RemoveGate]
    assert result.rest[0].target.version == rig.world.claim("a")["metadata"]["resourceVersion"]
    assert rig.run(*result.rest).error is None
    assert rig.world.gates("p") == []


def test_objects_that_cannot_be_read_again_are_the_rest_and_the_failure_is_kept() -> None:
    rig = OnePlacement()
    rig.fail("patch resourceclaims/status", Forbidden("no"))
    forbid = rig.world.meddler.before

    def meddle(what: str, name: Any) -> None:
        forbid(what, name)
        if what == "get pods":
            raise Unavailable("no answer")

    rig.world.meddler.before = meddle
    result = rig.run(*rig.placement)
    assert isinstance(result.error, Unavailable)
    assert isinstance(result.failure, Forbidden)
    assert result.rest == (ReadObject(rig.pod),)


@pytest.mark.parametrize("made", range(4))
def test_no_step_is_made_after_the_term(made: int) -> None:
    rig = OnePlacement()
    execution = Execution(WriteSequence(("pod", "default/p"), rig.placement, term=1), rig.terms)
    for _ in range(made):
        assert execution.step(rig.world.meddler) is None
    rig.terms.term = 2
    result = execution.step(rig.world.meddler)
    assert result is not None
    assert isinstance(result.error, Deposed)
    assert len(rig.world.meddler.calls) == made


def test_what_is_submitted_without_a_term_is_not_made() -> None:
    rig = OnePlacement()
    rig.terms.term = None
    assert isinstance(rig.run(*rig.placement).error, Deposed)


def test_what_was_decided_before_the_present_term_is_not_made() -> None:
    """The process was stopped between the decision and its submission; meanwhile another one led."""
    rig = OnePlacement()
    sequence = WriteSequence(("pod", "default/p"), rig.placement, term=1)
    rig.terms.term = 2
    result = Execution(sequence, rig.terms).step(rig.world.meddler)
    assert result is not None
    assert isinstance(result.error, Deposed)
    assert rig.world.meddler.calls == []


def test_fields_that_are_not_stored_are_the_operators_fault_and_end_the_sequence() -> None:
    rig = OnePlacement()
    wanted = allocation_from(allocation(device="gpu-1"))
    finalizer, _, *rest = rig.placement
    result = rig.run(finalizer, PatchClaimStatus(rig.claim, STATUS, wanted), *rest)
    assert isinstance(result.error, OperatorFault)
    assert rig.world.gates("p") == [GATE]
    assert objects(result)["default/a"] == rig.world.claim("a")


def test_an_unbound_pod_is_expected_behind_its_gate_or_refused_by_kube_scheduler() -> None:
    rig = OnePlacement()
    assert rig.run(ExpectUnbound(rig.pod, GATE)).error is None
    assert isinstance(rig.run(ExpectUnbound(rig.pod, "")).error, Conflict)
    rig.run(RemoveGate(rig.pod, GATE, 0))
    assert isinstance(rig.run(ExpectUnbound(rig.pod, GATE)).error, Conflict)
    rig.world.refuse("p")
    assert rig.run(ExpectUnbound(rig.pod, "")).error is None
    rig.world.bind("p", "n1")
    assert isinstance(rig.run(ExpectUnbound(rig.pod, "")).error, Conflict)


def test_a_namesake_gets_nothing() -> None:
    rig = OnePlacement()
    rig.world.remove_pod("p")
    rig.world.add_pod("p", "a")
    for step in (PatchPodStatus(rig.pod, {"nominatedNodeName": "n1"}), RemoveGate(rig.pod, GATE, 0)):
        assert isinstance(rig.run(step).error, Conflict)
    assert isinstance(rig.run(ExpectUnbound(rig.pod, GATE)).error, Conflict)
    assert rig.world.gates("p") == [GATE]


def test_an_object_that_is_removed_during_a_write_ends_the_sequence_as_gone() -> None:
    """Kubernetes 1.38 answers with code 200, and without a version. Nothing more is written."""
    rig = OnePlacement()
    rig.world.api.patch(RESOURCE_CLAIMS, "a", {"metadata": {"finalizers": ["example.com/f"]}}, namespace="default")
    rig.world.api.delete(RESOURCE_CLAIMS, "a", "default")
    claim = target(rig.world.claim("a"), RESOURCE_CLAIMS)

    def meddle(what: str, _: Any) -> None:
        if what == "patch resourceclaims/status":
            rig.world.api.patch(RESOURCE_CLAIMS, "a", {"metadata": {"finalizers": None}}, namespace="default")

    rig.world.meddler.before = meddle
    result = rig.run(PatchClaimStatus(claim, STATUS), *rig.placement[2:])
    assert isinstance(result.error, NotFound)
    assert "removed meanwhile" in str(result.error)
    assert objects(result) == {"default/a": None, "default/p": rig.world.pod("p")}
    assert rig.world.gates("p") == [GATE]


@pytest.mark.parametrize("value", [None, [], "x", 1])
@pytest.mark.parametrize("call", ["patch resourceclaims/status", "get pods"])
def test_an_answer_that_makes_no_sense_is_no_answer(call: str, value: Any) -> None:
    rig = OnePlacement()
    steps = (*rig.placement[:2], ExpectUnbound(rig.pod, GATE), *rig.placement[2:])
    execution = Execution(WriteSequence(("pod", "default/p"), steps, term=1), rig.terms)
    api = Garbling(rig.world.api, call, {"spec": value, "status": value})
    while (result := execution.step(api)) is None:
        pass
    assert isinstance(result.error, Unavailable)
    assert isinstance(result.rest[0], PatchClaimStatus if "claims" in call else ExpectUnbound)


def test_what_is_told_is_not_read_again_when_it_fails() -> None:
    rig = OnePlacement()
    rig.fail("patch pods/status", Invalid("no"))
    result = rig.run(PatchPodStatus(rig.pod, {"nominatedNodeName": "n1"}), lane=Lane.REPORTING)
    assert isinstance(result.error, Invalid)
    assert result.answers == ()


def test_an_event_is_created_once_and_counted_up_afterwards() -> None:
    rig = OnePlacement()
    note = Note(PODS, "default/p", "u", "R", "words")
    step = event_of(note, reporter="r", instance="i", timestamp="2027-01-15T08:00:00Z")
    for _ in range(2):
        assert rig.run(step, lane=Lane.REPORTING).error is None
    (event,) = rig.world.api.list(EVENTS).items
    assert event["count"] == 2


def test_a_sequence_knows_its_objects() -> None:
    rig = OnePlacement()
    sequence = WriteSequence(("pod", "default/p"), rig.placement, term=1)
    assert sequence.objects == {(RESOURCE_CLAIMS, "default/a"), (PODS, "default/p")}
    assert Answer(PODS, "default/p", None).object is None
